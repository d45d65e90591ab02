"""Checks of the repetitions of a load of VMs. Each returns caveats; nothing is corrected or dropped
silently.

Limits (docs/methodology/checks.md):
    steady state      range under 20 % and |slope| x time under 10 % of the mean, over five parts of
                      the measuring phase (SNIA PTS; the slope is taken without its sign, so that a
                      falling rate does not pass), or what Poisson counts scatter by, if it is more
    warm-up           at least as long as the mean latency
    Little's law      |N - X R| under 5 % of N
    bytes             initiators and array agree to the byte once nothing is in flight
    wire              the array's NICs carried the payload, and no more than headers explain
    generator         initiator process under 90 % of a CPU
    punctual          open-loop requests were issued late by under a sixteenth of their latency
    issued            under a thousandth of the open-loop requests that were due was never issued

Two checks need many requests: over a long path a request of megabytes takes half a second, so a
count over a few seconds is off by up to one request at each end. Steadiness is judged only from 20
requests per second. Little's law is checked with a tolerance of one request. Bytes on the wire are
compared only if the kernel shapes the links. If a fabric does, its counters of frames are checked
instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from hakaru.analysis import checks, emulated, hops, steady
from hakaru.analysis.counters import Counters
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat
from hakaru.kinds.vms.entities import TOTAL

LITTLE_MAX = 0.05
COVERED_MIN = 0.90
UNISSUED_SHARE_MAX = 0.001
LATE_SHARE_MAX = 1 / 16
"""The same limit as for waiting for more responses (`GATHERED_MAX_PERCENT` in
`hakaru.kinds.vms.iscsi`).
"""
LATE_SHARE_INVALID = 0.25
IN_FLIGHT_FULL = 0.9
# Allowance for responses, R2Ts and TCP acknowledgements: bytes per request, and share of the bytes
# in the other direction.
WIRE_BYTES_PER_IO = 1024
WIRE_SHARE = 0.12


def of_repetition(
    repetition: Repetition,
    metrics: dict[str, float],
    use: dict[str, Use],
    nics: list[Nic],
    *,
    in_flight_max: Mapping[str, int] | None = None,
) -> list[Caveat]:
    """All checks of one repetition that gave a result. `metrics`: the values from
    `metrics.of_repetition`.

    `in_flight_max`: maximum number of requests in flight of VMs with an open load, by the entity
    that sums them up (`Setup.in_flight_max`).
    """
    counters, window = repetition.counters, repetition.window
    caveats = [*clock(counters), *parts(counters), *coverage(counters, window)]
    often = metrics["iops"] >= steady.OFTEN_PER_S or not math.isfinite(metrics["iops"])
    # Events interrupt the load, so its rate is not expected to be steady.
    if often and not repetition.events:
        caveats += steady.while_measured(counters, window, engine="initiator", entity=TOTAL, names=("reads", "writes"))
    caveats += [*errors(counters), *warmed_up(counters, window, metrics)]
    by_kernel = checks.KERNEL_READ_BYTES_MAX * len(repetition.kernel_initiators)
    caveats += [*_littles_law_of_many(metrics, window), *bytes_conserved(counters, by_kernel)]
    if not counters.nodes("fabric"):
        caveats += wire(counters, window, nics)
    caveats += [
        *generator(use),
        *punctual(counters, window, in_flight_max or {}),
        *issued(counters, window),
        *hops.conserved(counters),
        *emulated.of_repetition(repetition, use),
    ]
    caveats += checks.machine(counters, window, use)
    # A link that was cut drops frames.
    is_cut = any(event["event"] == "link_down" for event in repetition.events)
    return caveats if is_cut else [*caveats, *checks.dropped(counters, window)]


def of_stream(repetition: Repetition, use: dict[str, Use]) -> list[Caveat]:
    """The checks of one repetition of plain streams: of the network and of this machine."""
    counters, window = repetition.counters, repetition.window
    caveats = [*hops.conserved(counters), *emulated.of_repetition(repetition, use)]
    return [*caveats, *checks.machine(counters, window, use), *checks.dropped(counters, window)]


def _littles_law_of_many(metrics: dict[str, float], window: tuple[int, int]) -> Iterator[Caveat]:
    """Check Little's law, but accept a difference that one more or one less counted request
    explains.
    """
    completed = metrics["iops"] * (window[1] - window[0]) / 1e9
    product = metrics["iops"] * metrics["latency_ms_mean"] / 1e3
    outstanding = metrics["outstanding_mean"]
    if math.isfinite(product) and completed > 0 and abs(outstanding - product) * completed <= product:
        return
    yield from littles_law(metrics)


def clock(counters: Counters) -> Iterator[Caveat]:
    """Check that counters never fall and their time never runs backwards."""
    for name in ("reads", "writes"):
        for _, series in counters.select(engine="initiator", entity=TOTAL, name=name):
            if not series.grows():
                yield Caveat("clock_stepped")
                return


def parts(counters: Counters) -> Iterator[Caveat]:
    """Check that the sum over VMs equals the total in the last common sample, exactly, because both
    are whole numbers.
    """
    for name in ("reads", "writes", "read_bytes", "write_bytes"):
        for node in counters.nodes("initiator"):
            total = counters.get(node, "initiator", TOTAL, name)
            vms = [s for _, s in counters.select(engine="initiator", node=node, entity="vm/", name=name)]
            if total is None or not vms:
                continue
            instant = min(int(s.at_ns[-1]) for s in (total, *vms))
            summed = sum(s.at(instant) for s in vms)
            if abs(summed - total.at(instant)) >= 0.5:  # counters are whole numbers: any difference is at least 1
                yield Caveat("total_not_sum", {"name": name, "total": total.at(instant), "sum": summed, "node": node})
                return


def coverage(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """Check that samples cover at least 90 % of the measuring phase."""
    for _, series in counters.select(engine="initiator", entity=TOTAL, name="reads"):
        start, end = series.clip(*window)
        share = (end - start) / (window[1] - window[0])
        if share < COVERED_MIN:
            yield Caveat("window_not_covered", {"percent": 100 * share})
            return


def warmed_up(counters: Counters, window: tuple[int, int], metrics: dict[str, float]) -> Iterator[Caveat]:
    """Check that the warm-up lasted at least the mean latency, so that the first requests had
    completed.

    Requests that meet queues that are still filling complete sooner than later ones, and would
    lower the latency.
    """
    begun = [int(s.at_ns[0]) for _, s in counters.select(engine="initiator", entity=TOTAL, name="reads")]
    latency_ms = metrics["latency_ms_mean"]
    if not begun or not math.isfinite(latency_ms):
        return
    warmup_ms = (window[0] - max(begun)) / 1e6
    if warmup_ms < latency_ms:
        yield Caveat("warmup_short", {"warmup_ms": max(0.0, warmup_ms), "latency_ms": latency_ms})


def errors(counters: Counters) -> Iterator[Caveat]:
    """Check that no request ended in an error, from the first to the last sample."""
    count = counters.last_total(engine="initiator", entity=TOTAL, name="errors")
    if count:
        yield Caveat("io_errors", {"errors": count})


def littles_law(metrics: dict[str, float]) -> Iterator[Caveat]:
    """Check that requests outstanding equal the rate times the latency within 5 %."""
    outstanding, product = metrics["outstanding_mean"], metrics["iops"] * metrics["latency_ms_mean"] / 1e3
    if not (math.isfinite(outstanding) and math.isfinite(product) and outstanding > 0):
        return
    deviation = abs(outstanding - product) / outstanding
    if deviation >= LITTLE_MAX:
        yield Caveat("littles_law", {"percent": 100 * deviation, "outstanding": outstanding, "product": product})


def bytes_conserved(counters: Counters, read_by_kernels: int = 0) -> Iterator[Caveat]:
    """Compare the bytes that initiators and array counted in the whole repetition. They may differ
    only by requests that were cut off at the end or failed, and the array may count more by
    commands that were repeated over another path, and by up to `read_by_kernels` bytes that kernels
    read on their own.
    """
    in_flight = counters.last_total(engine="initiator", entity=TOTAL, name="in_flight_now") or 0.0
    for kind in ("read", "write"):
        initiator_bytes = counters.last_total(engine="initiator", entity=TOTAL, name=f"{kind}_bytes")
        array_bytes = counters.last_total(engine="array", entity="lu/", name=f"{kind}_bytes")
        requests = counters.last_total(engine="initiator", entity=TOTAL, name=f"{kind}s")
        if initiator_bytes is None or array_bytes is None:
            continue
        failed = counters.last_total(engine="initiator", entity=TOTAL, name="errors") or 0.0
        repeated = counters.last_total(engine="initiator", entity="paths/", name="commands_repeated") or 0.0
        request_bytes = initiator_bytes / requests if requests else 0.0
        tolerance = (in_flight + failed) * request_bytes
        surplus = repeated * request_bytes + (read_by_kernels if kind == "read" else 0)
        if not -tolerance <= array_bytes - initiator_bytes <= tolerance + surplus:
            yield Caveat("bytes_not_conserved", {"kind": kind, "initiator": initiator_bytes, "array": array_bytes})


def wire(counters: Counters, window: tuple[int, int], nics: list[Nic]) -> Iterator[Caveat]:
    """Compare the bytes of the array's NICs with the payload that initiators counted, over the same
    time.
    """
    array_nodes = set(counters.nodes("array"))
    for kind, prefix, other in (("read", "tx", "write"), ("write", "rx", "read")):
        nic_series = [
            counters.get(n.node, "watch", f"nic/{n.name}", f"{prefix}_bytes") for n in nics if n.node in array_nodes
        ]
        rates = [s.rate(*window) for s in nic_series if s is not None]
        payload = counters.total_rate(window, engine="initiator", entity=TOTAL, name=f"{kind}_bytes")
        back = counters.total_rate(window, engine="initiator", entity=TOTAL, name=f"{other}_bytes")
        requests_per_s = sum(
            counters.total_rate(window, engine="initiator", entity=TOTAL, name=n) for n in ("reads", "writes")
        )
        if not rates or not math.isfinite(payload) or requests_per_s <= 0:
            continue
        measured, expected_max = (
            sum(rates),
            payload * (1 + WIRE_SHARE) + back * WIRE_SHARE + requests_per_s * WIRE_BYTES_PER_IO,
        )
        # The tolerance of 3 % covers payload in flight at the borders of a short window.
        if measured < payload * 0.97 or measured > expected_max * 1.03:
            yield Caveat(
                "wire_bytes", {"direction": prefix, "wire_mb_per_s": measured / 1e6, "payload_mb_per_s": payload / 1e6}
            )


def generator(use: dict[str, Use]) -> Iterator[Caveat]:
    """Check that the load generator used no more of a CPU than its limit."""
    cpu = use.get("cpu/initiator")
    if cpu is not None and cpu.percent > limit_of("cpu/initiator"):
        yield Caveat("generator_saturated", {"percent": cpu.percent})


def punctual(counters: Counters, window: tuple[int, int], in_flight_max: Mapping[str, int]) -> Iterator[Caveat]:
    """Check that open-loop requests were issued when they were due.

    The criterion is the total lateness as a share of the total latency, which includes it, because
    many requests may be slightly late. Requests that waited because `in_flight_max` others were
    outstanding show that the system serves less than is offered. The machine causes any other
    delay.

    Groups with an open load are judged one by one: the requests of other groups would hide a full
    limit, or stand for one.
    """
    for entity in in_flight_max or (TOTAL,):
        yield from _punctual(counters, window, entity, in_flight_max.get(entity))


def _punctual(counters: Counters, window: tuple[int, int], entity: str, limit: int | None) -> Iterator[Caveat]:
    def rate(name: str) -> float:
        return counters.total_rate(window, engine="initiator", entity=entity, name=name)

    late_ns, latency_ns = rate("late_ns_sum"), rate("read_latency_ns_sum") + rate("write_latency_ns_sum")
    completed = rate("reads") + rate("writes")
    if not (math.isfinite(late_ns) and latency_ns > 0 and completed > 0):
        return
    share, in_flight = late_ns / latency_ns, _in_flight(counters, window, entity)
    if share < LATE_SHARE_MAX:
        return
    if limit is not None and in_flight >= IN_FLIGHT_FULL * limit:
        yield Caveat("rate_not_kept", {"in_flight": round(in_flight), "percent": 100 * share})
        return
    times = {"late_ms": late_ns / completed / 1e6, "latency_ms": latency_ns / completed / 1e6}
    yield Caveat("issued_late" if share < LATE_SHARE_INVALID else "issued_too_late", {"percent": 100 * share} | times)


def issued(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """Check that open-loop requests due in the measuring phase were issued before its end."""
    never = counters.last_total(engine="initiator", entity=TOTAL, name="unissued") or 0.0
    ended_per_s = sum(
        counters.total_rate(window, engine="initiator", entity=TOTAL, name=name) for name in ("reads", "writes")
    )
    if never <= 0 or not math.isfinite(ended_per_s):
        return
    share = never / (never + ended_per_s * (window[1] - window[0]) / 1e9)
    if share >= UNISSUED_SHARE_MAX:
        yield Caveat("not_issued", {"requests": round(never), "percent": 100 * share})


def _in_flight(counters: Counters, window: tuple[int, int], entity: str) -> float:
    """Median of the requests in flight over the samples of the window, summed over nodes."""
    in_flight = 0.0
    for _, series in counters.select(engine="initiator", entity=entity, name="in_flight_now"):
        samples = series.value[(series.at_ns >= window[0]) & (series.at_ns <= window[1])]
        in_flight += float(np.median(samples)) if len(samples) else 0.0
    return in_flight
