"""Results of one repetition of a backup: rates of the jobs, and the state of their TCP connections.

`mib_per_s` is the wall-clock rate: all bytes over the time until the last job was done. It
determines the use of the path (`path_percent`). A job's own rate is its bytes over its own time;
`sum_mib_per_s` adds up these rates, as publications do. Jobs that do not run to the same end make
this sum larger than the wall-clock rate, and it may exceed what the path carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hakaru.analysis.latency import PERCENTILES, Latencies, percentiles_ms
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.tcp_clocks import timer_wait_s
from hakaru.kinds.copy.analysis.setup import Setup

UNITS: dict[str, str] = {
    "mib_per_s": "MiB/s",
    "sum_mib_per_s": "MiB/s",
    "path_percent": "percent",
    "fastest_to_slowest": "",
    "jain_index": "",
    "first_done_s": "s",
    "last_done_s": "s",
    "jobs_done": "jobs",
    "retransmitted_percent": "percent",
    "timeouts": "timeouts",
    "timeout_wait_s": "s",
    "timeout_wait_percent": "percent",
    "dropped_frames": "frames",
    "marked_frames": "frames",
    "pauses": "pauses",
    "read_latency_ms_mean": "ms",
    "write_latency_ms_mean": "ms",
    **{f"{kind}_latency_ms_{name}": "ms" for kind in ("read", "write") for name in PERCENTILES},
    "errors": "requests",
    "cpu_wait_percent": "percent",
    "baseline_gbit_per_s": "Gbit/s",
}
"""Every metric of a copy and its unit, in the order of the report. `names.of_jobs` lists the
metrics of single jobs, which are added to these.
"""

NAN = float("nan")
MIB = 1 << 20


def grown_total(
    repetition: Repetition, *, engine: str, entity: str, name: str, node: str | None = None
) -> float | None:
    """Sum of `grown` over all selected counters; None if there are none."""
    selected = repetition.counters.select(engine=engine, entity=entity, name=name, node=node)
    values = [series.grown(*repetition.window) for _, series in selected]
    return sum(values) if values else None


def _values(repetition: Repetition) -> list[dict[str, float]]:
    """`result.values` of each backup engine."""
    engine_values = [e.get("values") or {} for e in repetition.engines if e.get("engine") == "backup"]
    return [{k: float(v) for k, v in values.items() if isinstance(v, (int, float))} for values in engine_values]


def jobs(repetition: Repetition, *, warms_up: bool) -> dict[str, tuple[float, float]]:
    """Job → bytes copied, seconds taken, both after the warm-up; 0 seconds if it was done before
    the warm-up ended. A job that was cut off reports no time and gets the measured time.
    """
    copied = _whole_jobs(repetition)
    if warms_up and copied:
        warmup_s = warmup_taken_s(repetition)
        for job, (octets, seconds) in copied.items():
            copied[job] = (octets - _read_before(repetition, job), max(0.0, seconds - warmup_s))
    return dict(sorted(copied.items()))


def warmup_taken_s(repetition: Repetition) -> float:
    """Time from the start of the copy to that of the measuring phase, seconds; 0 without a job."""
    # The slowest job ends with the measuring phase.
    whole = [seconds for _, seconds in _whole_jobs(repetition).values()]
    return max(whole) - measured_s(repetition) if whole else 0.0


def measured_s(repetition: Repetition) -> float:
    """Time of the measuring phase, seconds."""
    return (repetition.window[1] - repetition.window[0]) / 1e9


def _whole_jobs(repetition: Repetition) -> dict[str, tuple[float, float]]:
    """Job → bytes copied, seconds taken, both from the start of the copy."""
    return {
        (job := name.removeprefix("bytes/")): (octets, values.get(f"seconds/{job}") or measured_s(repetition))
        for values in _values(repetition)
        for name, octets in values.items()
        if name.startswith("bytes/")
    }


def _read_before(repetition: Repetition, job: str) -> float:
    """Bytes that a job had read when the warm-up ended."""
    selected = repetition.counters.select(engine="backup", entity=f"backup/{job}", name="read_bytes")
    return sum(series.at(repetition.window[0]) for _, series in selected)


def of_repetition(repetition: Repetition, setup: Setup, latencies: Latencies) -> dict[str, float]:
    """Metric → value; NaN if the repetition has none."""
    values, copied = _values(repetition), jobs(repetition, warms_up=setup.warmup_s > 0)
    rates = {job: octets / seconds / MIB for job, (octets, seconds) in copied.items() if seconds > 0}
    octets, total = sum(b for b, _ in copied.values()), sum(v.get("bytes", 0.0) for v in values)
    longest = max((s for _, s in copied.values()), default=NAN)
    wall = octets / longest if longest > 0 else NAN
    # With compression, fewer bytes pass the path than the images have.
    compressed = sum(v for engine_values in values for n, v in engine_values.items() if n.startswith("written_bytes/"))
    passed = octets * compressed / total if compressed and total else octets
    path = setup.payload_bytes_per_s
    read, write = (_latency(repetition, kind) for kind in ("read", "write"))
    metrics = {
        "mib_per_s": wall / MIB,
        "sum_mib_per_s": sum(rates.values()) if rates else NAN,
        "path_percent": 100 * passed / longest / path if path and longest > 0 else NAN,
        "first_done_s": min((v["first_done_s"] for v in values if v.get("first_done_s")), default=NAN),
        "last_done_s": _last_done_s(values, setup),
        "jobs_done": sum(v.get("jobs_done", 0.0) for v in values) if values else NAN,
        "read_latency_ms_mean": read,
        "write_latency_ms_mean": write,
        "cpu_wait_percent": _cpu_wait(repetition),
        "errors": _or_nan(grown_total(repetition, engine="backup", entity="backups", name="errors")),
    }
    # Jobs that were done in the warm-up have no rate. The time of jobs that take turns includes
    # that of those before them, so their rates neither add up nor show how fair the copy was.
    is_whole = len(rates) == len(copied) and not setup.takes_turns
    metrics |= _fairness([*rates.values()] if is_whole else [])
    if setup.takes_turns:
        metrics["sum_mib_per_s"] = NAN
    metrics |= _waiting(repetition, setup, sum(s for _, s in copied.values()))
    for name, histogram in (("read", latencies.read), ("write", latencies.write)):
        percentiles = percentiles_ms(histogram, PERCENTILES.values())
        metrics |= {f"{name}_latency_ms_{p}": ms for p, ms in zip(PERCENTILES, percentiles, strict=True)}
    metrics |= {f"mib_per_s/{job}": rate for job, rate in rates.items()}
    for rank, job in enumerate(sorted(rates, key=lambda job: -rates[job]) if is_whole else [], 1):
        octets_of_job, seconds = copied[job]
        metrics |= {
            f"ranked_mib_per_s/{rank}": rates[job],
            f"ranked_mib/{rank}": octets_of_job / MIB,
            f"ranked_seconds/{rank}": seconds,
        }
    return metrics


def _last_done_s(values: Sequence[Mapping[str, float]], setup: Setup) -> float:
    """Time until the last job was done, seconds; NaN if one was cut off. Each engine reports that
    of its own jobs, if all of them were done.
    """
    if sum(each.get("jobs_done", 0.0) for each in values) < setup.jobs:
        return NAN
    return max((each["last_done_s"] for each in values if each.get("last_done_s")), default=NAN)


def _fairness(rates: Sequence[float]) -> dict[str, float]:
    """The ratio of the fastest to the slowest job, and Jain's index: 1 if all rates are equal, 1/n
    if one of n jobs gets everything (Jain, Chiu and Hawe 1984).
    """
    if len(rates) < 2 or min(rates) <= 0:
        return {"fastest_to_slowest": NAN, "jain_index": NAN}
    squares = len(rates) * sum(rate**2 for rate in rates)
    return {"fastest_to_slowest": max(rates) / min(rates), "jain_index": sum(rates) ** 2 / squares}


def _cpu_wait(repetition: Repetition) -> float:
    """Time in which some process of a machine waited for a CPU (pressure stall information),
    percent; of several load hosts, that of the one that waited most.
    """
    counters = repetition.counters
    selected = counters.select(engine="watch", entity="machine", name="pressure_cpu_ns")
    rates = (series.rate(*repetition.window) / 1e7 for key, series in selected if key.node not in counters.guests)
    return max(rates, default=NAN)


def _or_nan(value: float | None) -> float:
    return NAN if value is None else value


def _latency(repetition: Repetition, kind: str) -> float:
    spent = grown_total(repetition, engine="backup", entity="backups", name=f"{kind}_latency_ns_sum")
    count = grown_total(repetition, engine="backup", entity="backups", name=f"{kind}s")
    return spent / count / 1e6 if spent is not None and count else NAN


def socket_total(repetition: Repetition, end: str, name: str) -> float | None:
    """Growth of a counter, summed over the jobs' connections to the `source` or `destination`; None
    without counters.
    """
    growths = [
        series.grown(*repetition.window)
        for key, series in repetition.counters.select(engine="backup", entity="tcp/", name=name)
        if key.entity.endswith(f"/{end}")
    ]
    return sum(growths) if growths else None


def _waiting(repetition: Repetition, setup: Setup, job_seconds: float) -> dict[str, float]:
    """Retransmissions and timeouts on the path to the destination, and the time that connections
    waited for timers.
    """
    retransmitted = socket_total(repetition, "destination", "retransmitted_bytes")
    sent = socket_total(repetition, "destination", "sent_bytes")
    timeouts = socket_total(repetition, "destination", "timeouts")
    wait = timeout_wait_s(repetition)
    connection_seconds = job_seconds * setup.streams
    return {
        "retransmitted_percent": 100 * retransmitted / sent if retransmitted is not None and sent else NAN,
        "timeouts": _or_nan(timeouts),
        "timeout_wait_s": _or_nan(wait),
        "timeout_wait_percent": min(100.0, 100 * wait / connection_seconds)
        if wait is not None and connection_seconds > 0
        else NAN,
    }


def timeout_wait_s(repetition: Repetition) -> float | None:
    """Lower bound of the time that connections to the destination lost to retransmission timeouts,
    in seconds; None without counters.
    """
    return timer_wait_s(
        socket_total(repetition, "destination", "timeout_recoveries"),
        socket_total(repetition, "destination", "timeout_wait_ns"),
        socket_total(repetition, "destination", "timeouts"),
    )
