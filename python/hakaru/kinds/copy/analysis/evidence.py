"""The evidence for the bottleneck of a point (`hakaru.analysis.rules`)."""

from __future__ import annotations

from collections.abc import Mapping

from hakaru.analysis.estimate import Estimate
from hakaru.analysis.hops import Passage, worst_port
from hakaru.analysis.rules.evidence import Cache, ClosedLoad, Copying, Evidence, Flow, without_sums
from hakaru.kinds.copy.analysis.metrics import MIB
from hakaru.kinds.copy.analysis.setup import Setup


def evidence_of(
    setup: Setup,
    metrics: dict[str, Estimate],
    use: dict[str, Estimate],
    passages: list[Passage],
    *,
    lost: float,
    late_us: float | None,
    of_hosts: Mapping[str, float],
    cache: Cache | None = None,
) -> Evidence:
    """The evidence of one point. `lost`: packets that the fabric lost outside its model, mean over
    repetitions.

    `late_us`: 99th percentile of the lateness of its frames, µs. `of_hosts`: TCP counters of the
    hosts' kernels, mean over repetitions. They stand for those of the connections if the initiator
    does not count its connections.
    """

    def mean(name: str) -> float | None:
        estimate = metrics.get(name)
        return estimate.mean if estimate else None

    # While all jobs run, their rates add up, which the closed forms are about.
    # Jobs that wait for a tape drive do not run together, so their own rates do not add up.
    takes_turns = setup.takes_turns
    rate = mean("mib_per_s" if takes_turns else "sum_mib_per_s")
    mb_per_s = None if rate is None else rate * MIB / 1e6
    rate_limit = setup.rate_limit_bytes_per_s
    flow = Flow(
        "write",
        1.0,
        mb_per_s or 0.0,
        retransmitted_percent=mean("retransmitted_percent"),
        timeouts=mean("timeouts"),
        timeout_wait_s=mean("timeout_wait_s"),
        retransmits=of_hosts.get("retransmits") if mean("retransmitted_percent") is None else None,
    )
    return Evidence(
        mb_per_s=mb_per_s,
        used=without_sums({name: estimate.mean for name, estimate in use.items()}),
        lost_packets=lost,
        late_us=late_us,
        dropped_frames=sum(p.mean("dropped") for p in passages) if passages else None,
        dropped_by_lines=sum(p.mean("dropped_loss") for p in passages),
        port=worst_port(passages, setup.fastest_before),
        flows=(flow,),
        throttled_links=frozenset(
            p.hop.resource for p in passages if p.carries == "data" and p.hop.held_bits_per_s is not None
        ),
        asked_bytes_per_s=rate_limit * setup.jobs_at_once if rate_limit else None,
        cache=cache,
        load=_load(setup, mean("read_latency_ms_mean"), mean("write_latency_ms_mean")),
        copying=Copying(
            setup.jobs_at_once,
            setup.streams,
            setup.depth,
            setup.block_bytes,
            mean("path_percent"),
            mean("read_latency_ms_mean"),
            mean("write_latency_ms_mean"),
            mean("timeout_wait_percent"),
        ),
        tape_percent=mean("tape_native_percent"),
        cpu_wait_percent=mean("cpu_wait_percent"),
    )


def _load(setup: Setup, read_ms: float | None, write_ms: float | None) -> ClosedLoad | None:
    """The load: blocks outstanding, and the rate that follows from the time to read and write a
    block. None if no block was measured.
    """
    cycle_s = ((read_ms or 0.0) + (write_ms or 0.0)) / 1e3
    if not setup.outstanding_bytes or cycle_s <= 0:
        return None
    blocks = setup.jobs_at_once * setup.streams * setup.depth
    return ClosedLoad(float(blocks), rate_bytes_per_s=setup.outstanding_bytes / cycle_s)
