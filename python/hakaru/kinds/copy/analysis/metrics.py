"""Results of one repetition of a backup: rates of the jobs, and the state of their TCP connections.

A job's rate is its own bytes over its own time, as publications give it; `mb_per_s` is their sum.
The wall-clock rate, all bytes over the time until the last job was done, is what the path was used
to (`path_percent`).
"""

from __future__ import annotations

from hakaru.analysis.latency import PERCENTILES, Latencies, percentiles_ms
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.tcp_clocks import timer_wait_s
from hakaru.kinds.copy.analysis.setup import Setup

UNITS: dict[str, str] = {
    "mb_per_s": "MB/s",
    "wall_mb_per_s": "MB/s",
    "path_percent": "percent",
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
}
"""Every metric of a backup and its unit, in the order of the report; `mb_per_s/NAME` of each job
comes on top.
"""

NAN = float("nan")


def grown_total(
    repetition: Repetition, *, engine: str, entity: str, name: str, node: str | None = None
) -> float | None:
    """Sum of `grown` over all counters of that name; None where there is none."""
    found = repetition.counters.select(engine=engine, entity=entity, name=name, node=node)
    values = [series.grown(*repetition.window) for _, series in found]
    return sum(values) if values else None


def _values(repetition: Repetition) -> list[dict[str, float]]:
    """`result.values` of each backup engine."""
    found = [e.get("values") or {} for e in repetition.engines if e.get("engine") == "backup"]
    return [{k: float(v) for k, v in values.items() if isinstance(v, (int, float))} for values in found]


def jobs(repetition: Repetition) -> dict[str, tuple[float, float]]:
    """Job → bytes copied, seconds taken; the time measured for one that says none (it was cut
    off).
    """
    found: dict[str, tuple[float, float]] = {}
    measured = (repetition.window[1] - repetition.window[0]) / 1e9
    for values in _values(repetition):
        for name, octets in values.items():
            if name.startswith("bytes/"):
                job = name.removeprefix("bytes/")
                found[job] = (octets, values.get(f"seconds/{job}") or measured)
    return dict(sorted(found.items()))


def of_repetition(repetition: Repetition, setup: Setup, latencies: Latencies) -> dict[str, float]:
    """Metric → value; NaN where the repetition has none."""
    values, copied = _values(repetition), jobs(repetition)
    rates = {f"mb_per_s/{job}": octets / seconds / 1e6 for job, (octets, seconds) in copied.items() if seconds > 0}
    octets = sum(b for b, _ in copied.values())
    longest = max((s for _, s in copied.values()), default=NAN)
    wall = octets / longest if longest > 0 else NAN
    # Compressed, fewer bytes go over the path than images have.
    packed = sum(v for each in values for n, v in each.items() if n.startswith("written_bytes/"))
    path = setup.payload_bytes_per_s
    read, write = (_latency(repetition, kind) for kind in ("read", "write"))
    found = {
        "mb_per_s": sum(rates.values()) if rates else NAN,
        "wall_mb_per_s": wall / 1e6,
        "path_percent": 100 * (packed or octets) / longest / path if path and longest > 0 else NAN,
        "first_done_s": min((v["first_done_s"] for v in values if v.get("first_done_s")), default=NAN),
        "last_done_s": max((v["last_done_s"] for v in values if v.get("last_done_s")), default=NAN),
        "jobs_done": sum(v.get("jobs_done", 0.0) for v in values) if values else NAN,
        "read_latency_ms_mean": read,
        "write_latency_ms_mean": write,
        "cpu_wait_percent": _cpu_wait(repetition),
        "errors": _or_nan(grown_total(repetition, engine="backup", entity="backups", name="errors")),
    }
    found |= _waiting(repetition, setup, sum(s for _, s in copied.values()))
    for name, histogram in (("read", latencies.read), ("write", latencies.write)):
        shown = percentiles_ms(histogram, PERCENTILES.values())
        found |= {f"{name}_latency_ms_{p}": ms for p, ms in zip(PERCENTILES, shown, strict=True)}
    return found | rates


def _cpu_wait(repetition: Repetition) -> float:
    """Time in which some process of this machine waited for a processor (the kernel's pressure
    clock), percent.
    """
    found = repetition.counters.select(engine="watch", entity="machine", name="pressure_cpu_ns")
    return next((series.rate(*repetition.window) / 1e7 for _, series in found), NAN)


def _or_nan(value: float | None) -> float:
    return NAN if value is None else value


def _latency(repetition: Repetition, kind: str) -> float:
    spent = grown_total(repetition, engine="backup", entity="backups", name=f"{kind}_latency_ns_sum")
    count = grown_total(repetition, engine="backup", entity="backups", name=f"{kind}s")
    return spent / count / 1e6 if spent is not None and count else NAN


def socket_total(repetition: Repetition, end: str, name: str) -> float | None:
    """Sum over the jobs' connections to the `source` or `destination`."""
    found = [
        series.grown(*repetition.window)
        for key, series in repetition.counters.select(engine="backup", entity="tcp/", name=name)
        if key.entity.endswith(f"/{end}")
    ]
    return sum(found) if found else None


def _waiting(repetition: Repetition, setup: Setup, job_seconds: float) -> dict[str, float]:
    """Retransmissions and timeouts on the way to the destination, and how long connections waited
    for them.
    """
    again = socket_total(repetition, "destination", "retransmitted_bytes")
    sent = socket_total(repetition, "destination", "sent_bytes")
    timeouts = socket_total(repetition, "destination", "timeouts")
    wait = timeout_wait_s(repetition)
    time = job_seconds * setup.streams
    return {
        "retransmitted_percent": 100 * again / sent if again is not None and sent else NAN,
        "timeouts": _or_nan(timeouts),
        "timeout_wait_s": _or_nan(wait),
        "timeout_wait_percent": min(100.0, 100 * wait / time) if wait is not None and time > 0 else NAN,
    }


def timeout_wait_s(repetition: Repetition) -> float | None:
    """Time that connections to the destination lost to retransmission timeouts, at least; None
    where none counts.
    """
    return timer_wait_s(
        socket_total(repetition, "destination", "timeout_recoveries"),
        socket_total(repetition, "destination", "timeout_wait_ns"),
        socket_total(repetition, "destination", "timeouts"),
    )
