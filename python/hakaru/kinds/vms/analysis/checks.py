"""Checks of the repetitions of a load of VMs. Each gives caveats; nothing is corrected or left out
silently.

Limits (docs/methodology/checks.md):
    steady state      range under 20 % and |slope| x time under 10 % of the mean, over 1 s samples
                      (SNIA PTS; the slope is taken without its sign, so that a falling rate does
                      not pass)
    warm-up           no shorter than a request takes
    Little's law      |N - X R| under 5 % of N
    bytes             initiators and array agree to the byte once nothing is in flight
    wire              the array's NICs carried at least the payload and at most what headers explain
    generator         initiator process under 90 % of a CPU
    punctual          open-loop requests waited to be issued for under a sixteenth of their latency

Two checks need many requests: over a long way a request of megabytes takes half a second, so that a
count over some seconds is off by one at each end. Steadiness is judged where 20 requests and more
end in a second; Little's law holds up to one request. Bytes on the wire are compared where the
kernel shapes links; where a fabric does, it counts frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from hakaru.analysis import checks, emulated, hops
from hakaru.analysis.counters import Counters, Floats, Series
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat
from hakaru.kinds.vms.entities import TOTAL

STEADY_SAMPLES_MIN = 5
BORDER_SLACK = 0.05  # of the distance of samples
STEADY_RANGE_MAX = 0.20
STEADY_SLOPE_MAX = 0.10
LITTLE_MAX = 0.05
COVERED_MIN = 0.90
OFTEN_PER_S = 20.0
CPU_LIMIT_PERCENT = 90.0
LATE_SHARE_MAX = 1 / 16
"""As for responses that were gathered (`hakaru.kinds.vms.iscsi`)."""
LATE_SHARE_INVALID = 0.25
IN_FLIGHT_FULL = 0.9
# A write's answer, an R2T, TCP acknowledgements: bytes per request and per byte of the other
# direction.
WIRE_BYTES_PER_IO = 1024
WIRE_SHARE = 0.12


def of_repetition(
    repetition: Repetition,
    metrics: dict[str, float],
    use: dict[str, Use],
    nics: list[Nic],
    *,
    in_flight_max: int | None = None,
) -> list[Caveat]:
    """Every check of one repetition that was done. `metrics`: of any load, as counted.

    `in_flight_max`: requests that an open load may have in flight, all VMs together; None for a
    closed load.
    """
    counters, window = repetition.counters, repetition.window
    found = [*clock(counters), *parts(counters), *coverage(counters, window)]
    if metrics["iops"] >= OFTEN_PER_S or not math.isfinite(metrics["iops"]):
        found += steady(counters, window)
    found += [*errors(counters), *warmed_up(counters, window, metrics)]
    found += [*_littles_law_of_many(metrics, window), *bytes_conserved(counters)]
    if not counters.nodes("fabric"):
        found += wire(counters, window, nics)
    found += [
        *generator(use),
        *punctual(counters, window, in_flight_max),
        *hops.conserved(counters),
        *emulated.of_repetition(repetition, use),
    ]
    return [*found, *checks.machine(counters, window, use), *checks.dropped(counters, window)]


def _littles_law_of_many(metrics: dict[str, float], window: tuple[int, int]) -> Iterator[Caveat]:
    """Check Little's law as for any load. A count that differs by one request at an end passes."""
    ended = metrics["iops"] * (window[1] - window[0]) / 1e9
    product = metrics["iops"] * metrics["latency_ms_mean"] / 1e3
    outstanding = metrics["outstanding_mean"]
    if math.isfinite(product) and ended > 0 and abs(outstanding - product) * ended <= product:
        return
    yield from littles_law(metrics)


def clock(counters: Counters) -> Iterator[Caveat]:
    """Counters grow with time."""
    for name in ("reads", "writes"):
        for _, series in counters.select(engine="initiator", entity=TOTAL, name=name):
            if not series.grows():
                yield Caveat("clock_stepped")
                return


def parts(counters: Counters) -> Iterator[Caveat]:
    """The sum over VMs equals the total, in the last sample that has both: exactly, both count
    requests.
    """
    for name in ("reads", "writes", "read_bytes", "write_bytes"):
        for node in counters.nodes("initiator"):
            total = counters.get(node, "initiator", TOTAL, name)
            vms = [s for _, s in counters.select(engine="initiator", node=node, entity="vm/", name=name)]
            if total is None or not vms:
                continue
            at = min(int(s.at_ns[-1]) for s in (total, *vms))
            summed = sum(s.at(at) for s in vms)
            if abs(summed - total.at(at)) >= 0.5:  # counters are whole numbers: any difference is at least 1
                yield Caveat("total_not_sum", {"name": name, "total": total.at(at), "sum": summed, "node": node})
                return


def coverage(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """Samples cover the measuring phase."""
    for _, series in counters.select(engine="initiator", entity=TOTAL, name="reads"):
        start, end = series.clip(*window)
        share = (end - start) / (window[1] - window[0])
        if share < COVERED_MIN:
            yield Caveat("window_not_covered", {"percent": 100 * share})
            return


def iops_over_time(counters: Counters, window: tuple[int, int]) -> Floats:
    """Requests per second of all VMs in each interval between samples inside the window."""
    rates: list[Floats] = []
    for node in counters.nodes("initiator"):
        both = [counters.get(node, "initiator", TOTAL, n) for n in ("reads", "writes")]
        inside = [_whole_intervals(s, window) for s in both if s is not None]
        if inside:
            rates.append(np.sum([np.diff(s.value) / (np.diff(s.at_ns) / 1e9) for s in inside], axis=0))
    shortest = min((len(r) for r in rates), default=0)
    return np.sum([r[:shortest] for r in rates], axis=0) if shortest else np.zeros(0)


def _whole_intervals(series: Series, window: tuple[int, int]) -> Series:
    """Samples of the window, a full interval apart.

    Those that a timer let fall just outside of a border count as on it. An engine's last sample
    comes when it ends, soon after the one before: no rate is taken over such a moment.
    """
    distance = float(np.median(np.diff(series.at_ns))) if len(series.at_ns) > 1 else 0.0
    slack = distance * BORDER_SLACK
    inside = (series.at_ns >= window[0] - slack) & (series.at_ns <= window[1] + slack)
    at, value = series.at_ns[inside], series.value[inside]
    keep = np.concatenate(([True], np.diff(at) > distance / 2)) if len(at) else np.zeros(0, dtype=bool)
    return Series(at[keep], value[keep])


def steady(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """The rate neither swings nor drifts while it is measured."""
    rates = iops_over_time(counters, window)
    if len(rates) < STEADY_SAMPLES_MIN:
        yield Caveat("too_short_to_judge", {"samples": len(rates)})
        return
    mean = float(np.mean(rates))
    if mean <= 0:
        return
    swing = float(np.ptp(rates)) / mean
    slope = float(stats.linregress(np.arange(len(rates)), rates).slope)
    drift = abs(slope) * (len(rates) - 1) / mean
    if swing >= STEADY_RANGE_MAX or drift >= STEADY_SLOPE_MAX:
        yield Caveat("not_steady", {"range_percent": 100 * swing, "drift_percent": 100 * drift})


def warmed_up(counters: Counters, window: tuple[int, int], metrics: dict[str, float]) -> Iterator[Caveat]:
    """Queues were full when measuring began: the first requests had been answered, not only sent.

    Those that find the queue still filling are answered sooner than any later one, and would lower
    the latency.
    """
    begun = [int(s.at_ns[0]) for _, s in counters.select(engine="initiator", entity=TOTAL, name="reads")]
    latency_ms = metrics["latency_ms_mean"]
    if not begun or not math.isfinite(latency_ms):
        return
    warmup_ms = (window[0] - max(begun)) / 1e6
    if warmup_ms < latency_ms:
        yield Caveat("warmup_short", {"warmup_ms": max(0.0, warmup_ms), "latency_ms": latency_ms})


def errors(counters: Counters) -> Iterator[Caveat]:
    """Requests that ended in an error, from the first to the last sample."""
    count = counters.last_total(engine="initiator", entity=TOTAL, name="errors")
    if count:
        yield Caveat("io_errors", {"errors": count})


def littles_law(metrics: dict[str, float]) -> Iterator[Caveat]:
    """Requests outstanding are the rate times the time that each takes."""
    outstanding, product = metrics["outstanding_mean"], metrics["iops"] * metrics["latency_ms_mean"] / 1e3
    if not (math.isfinite(outstanding) and math.isfinite(product) and outstanding > 0):
        return
    off = abs(outstanding - product) / outstanding
    if off >= LITTLE_MAX:
        yield Caveat("littles_law", {"percent": 100 * off, "outstanding": outstanding, "product": product})


def bytes_conserved(counters: Counters) -> Iterator[Caveat]:
    """Compare the bytes that initiators and array counted in the whole repetition. They may differ
    by the requests that were cut off at the end, and by no others.
    """
    open_ = counters.last_total(engine="initiator", entity=TOTAL, name="in_flight_now") or 0.0
    for kind in ("read", "write"):
        ours = counters.last_total(engine="initiator", entity=TOTAL, name=f"{kind}_bytes")
        theirs = counters.last_total(engine="array", entity="lu/", name=f"{kind}_bytes")
        requests = counters.last_total(engine="initiator", entity=TOTAL, name=f"{kind}s")
        if ours is None or theirs is None:
            continue
        failed = counters.last_total(engine="initiator", entity=TOTAL, name="errors") or 0.0
        slack = (open_ + failed) * (ours / requests if requests else 0.0)
        if abs(ours - theirs) > slack:
            yield Caveat("bytes_not_conserved", {"kind": kind, "initiator": ours, "array": theirs})


def wire(counters: Counters, window: tuple[int, int], nics: list[Nic]) -> Iterator[Caveat]:
    """Bytes of the array's NICs against the payload that initiators counted, over the same time."""
    array_nodes = set(counters.nodes("array"))
    for kind, prefix, other in (("read", "tx", "write"), ("write", "rx", "read")):
        carried = [
            counters.get(n.node, "watch", f"nic/{n.name}", f"{prefix}_bytes") for n in nics if n.node in array_nodes
        ]
        rates = [s.rate(*window) for s in carried if s is not None]
        payload = counters.total_rate(window, engine="initiator", entity=TOTAL, name=f"{kind}_bytes")
        back = counters.total_rate(window, engine="initiator", entity=TOTAL, name=f"{other}_bytes")
        ios = sum(counters.total_rate(window, engine="initiator", entity=TOTAL, name=n) for n in ("reads", "writes"))
        if not rates or not math.isfinite(payload) or ios <= 0:
            continue
        measured, most = sum(rates), payload * (1 + WIRE_SHARE) + back * WIRE_SHARE + ios * WIRE_BYTES_PER_IO
        # Payload that was in flight when the window began or ended: a few per cent of a short
        # window.
        if measured < payload * 0.97 or measured > most * 1.03:
            yield Caveat(
                "wire_bytes", {"direction": prefix, "wire_mb_per_s": measured / 1e6, "payload_mb_per_s": payload / 1e6}
            )


def generator(use: dict[str, Use]) -> Iterator[Caveat]:
    """The load generator was not itself the limit."""
    cpu = use.get("cpu/initiator")
    if cpu is not None and cpu.percent > CPU_LIMIT_PERCENT:
        yield Caveat("generator_saturated", {"percent": cpu.percent})


def punctual(counters: Counters, window: tuple[int, int], in_flight_max: int | None) -> Iterator[Caveat]:
    """Open-loop requests were issued when they were due.

    Judged by the time that passed until then, as a share of the latencies, which include it: many
    requests may be late by little. Requests that had to wait because `in_flight_max` others were
    outstanding show that the system serves less than is offered; other delays are the machine's.
    """

    def rate(name: str) -> float:
        return counters.total_rate(window, engine="initiator", entity=TOTAL, name=name)

    late_ns, latency_ns = rate("late_ns_sum"), rate("read_latency_ns_sum") + rate("write_latency_ns_sum")
    ended = rate("reads") + rate("writes")
    if not (math.isfinite(late_ns) and latency_ns > 0 and ended > 0):
        return
    share, in_flight = late_ns / latency_ns, _in_flight(counters, window)
    if share < LATE_SHARE_MAX:
        return
    if in_flight_max is not None and in_flight >= IN_FLIGHT_FULL * in_flight_max:
        yield Caveat("rate_not_kept", {"in_flight": round(in_flight), "percent": 100 * share})
        return
    times = {"late_ms": late_ns / ended / 1e6, "latency_ms": latency_ns / ended / 1e6}
    yield Caveat("issued_late" if share < LATE_SHARE_INVALID else "issued_too_late", {"percent": 100 * share} | times)


def _in_flight(counters: Counters, window: tuple[int, int]) -> float:
    """Requests in flight in half of the samples of the window or more, all nodes together."""
    found = 0.0
    for _, series in counters.select(engine="initiator", entity=TOTAL, name="in_flight_now"):
        inside = series.value[(series.at_ns >= window[0]) & (series.at_ns <= window[1])]
        found += float(np.median(inside)) if len(inside) else 0.0
    return found
