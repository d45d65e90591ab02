"""Results of one repetition: rates and latencies of all VMs together.

Definitions (docs/methodology/metrics.md): a rate is the growth of a cumulative counter over the
measuring phase, divided by its length; a mean latency is the growth of the sum of latencies divided
by the growth of the number of requests; percentiles come from merged histograms. A repetition
without a request has rate 0 and no latency (NaN).
"""

from __future__ import annotations

import math

from hakaru.analysis.counters import Counters
from hakaru.analysis.latency import PERCENTILES, Latencies, percentiles_ms
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.entities import TOTAL

UNITS: dict[str, str] = {
    "iops": "1/s",
    "read_iops": "1/s",
    "write_iops": "1/s",
    "mb_per_s": "MB/s",
    "read_mb_per_s": "MB/s",
    "write_mb_per_s": "MB/s",
    "mib_per_s": "MiB/s",
    "latency_ms_mean": "ms",
    "read_latency_ms_mean": "ms",
    "write_latency_ms_mean": "ms",
    **{f"latency_ms_{name}": "ms" for name in PERCENTILES},
    **{f"{kind}_latency_ms_{name}": "ms" for kind in ("read", "write") for name in PERCENTILES},
    "outstanding_mean": "requests",
    "errors_per_s": "1/s",
    "initiator_cpu_us_per_io": "µs",
    "array_cpu_us_per_io": "µs",
}
"""Every metric and its unit, in the order of the report."""
RATES = ("iops", "read_iops", "write_iops", "mb_per_s", "read_mb_per_s", "write_mb_per_s", "mib_per_s")
"""Metrics that are derived from counts of whole requests."""


def quotient(above: float, below: float) -> float:
    """The quotient; NaN if `below` is not positive."""
    return above / below if below > 0 else float("nan")


def counted(counters: Counters, window: tuple[int, int]) -> dict[str, float]:
    """Metrics of one repetition that follow from its counters alone; NaN for those that it
    lacks.
    """

    def rate(name: str) -> float:
        return counters.total_rate(window, engine="initiator", entity=TOTAL, name=name)

    reads, writes = rate("reads"), rate("writes")
    read_ns, write_ns = rate("read_latency_ns_sum"), rate("write_latency_ns_sum")
    read_mb, write_mb = rate("read_bytes") / 1e6, rate("write_bytes") / 1e6
    return {
        "iops": reads + writes,
        "read_iops": reads,
        "write_iops": writes,
        "mb_per_s": read_mb + write_mb,
        "read_mb_per_s": read_mb,
        "write_mb_per_s": write_mb,
        "mib_per_s": (read_mb + write_mb) * 1e6 / (1 << 20),
        "latency_ms_mean": quotient(read_ns + write_ns, reads + writes) / 1e6,
        "read_latency_ms_mean": quotient(read_ns, reads) / 1e6,
        "write_latency_ms_mean": quotient(write_ns, writes) / 1e6,
        "outstanding_mean": rate("outstanding_ns") / 1e9,
        "errors_per_s": rate("errors"),
    }


def of_repetition(repetition: Repetition, latencies: Latencies) -> dict[str, float]:
    """Metric → value; NaN if the repetition has none."""
    counters, window = repetition.counters, repetition.window
    values = counted(counters, window)
    for prefix, histogram in (("", latencies.all()), ("read_", latencies.read), ("write_", latencies.write)):
        percentiles = percentiles_ms(histogram, PERCENTILES.values())
        values |= {f"{prefix}latency_ms_{name}": ms for name, ms in zip(PERCENTILES, percentiles, strict=True)}
    for engine in ("initiator", "array"):
        values[f"{engine}_cpu_us_per_io"] = quotient(cpu_rate(counters, window, engine) / 1e3, values["iops"])
    return values


def cpu_rate(counters: Counters, window: tuple[int, int], engine: str) -> float:
    """CPU time of all processes of an engine, in ns per second; NaN if not counted. Busy polling
    does not count, as in `analysis.utilisation`: a process that polls has no work.
    """

    def rate(name: str) -> float:
        return counters.total_rate(window, engine=engine, entity="process", name=name)

    used, polled = rate("cpu_user_ns") + rate("cpu_system_ns"), rate("busy_poll_ns")
    # The two are counted at slightly different instants. Engines without the counter do not poll.
    return max(used - polled, 0.0) if math.isfinite(polled) else used


def of_stream(delivered_bytes_per_s: float) -> dict[str, float]:
    """The metrics of plain TCP streams: their rate. All others are NaN."""
    mb_per_s = delivered_bytes_per_s / 1e6
    known = {"mb_per_s": mb_per_s, "write_mb_per_s": mb_per_s, "mib_per_s": delivered_bytes_per_s / (1 << 20)}
    return dict.fromkeys(UNITS, float("nan")) | known


COUNTED_MIN = 200
"""Number of requests from which a count is accurate to half a percent."""


def by_latency(values: dict[str, float], window: tuple[int, int]) -> dict[str, float]:
    """Rates of a closed load that follow from its outstanding requests and their latency (Little's
    law).

    A count over a few seconds is off by up to one request at each end. If a request takes half a
    second, this error exceeds the difference between settings, and the rate may exceed that of the
    link. Requests outstanding over latency has no such error once the load is steady. The result is
    empty if 200 or more requests ended, because their latency includes waiting before the measuring
    phase. It is also empty if requests failed or none ended.
    """
    outstanding, latency_ms = values["outstanding_mean"], values["latency_ms_mean"]
    completed = values["iops"] * (window[1] - window[0]) / 1e9
    known = math.isfinite(outstanding) and math.isfinite(latency_ms) and latency_ms > 0
    if not known or not 0 < completed < COUNTED_MIN or values["errors_per_s"] > 0:
        return {}
    factor = outstanding / (latency_ms / 1e3) / values["iops"]
    return {name: values[name] * factor for name in RATES}
