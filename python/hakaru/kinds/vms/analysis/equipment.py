"""Values of hosts, network interfaces and array that publications print beside the rates.

Packets are those that the operating system of the hosts counts at its interfaces in the lab, in
both directions: a packet of segmentation offload, up to 64 KiB, counts once.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hakaru.analysis.counters import Counters, Series
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Nic, Use
from hakaru.kinds.vms.analysis.metrics import cpu_rate
from hakaru.kinds.vms.entities import TOTAL

NAN = float("nan")

UNITS: dict[str, str] = {
    "array_mb_per_s": "MB/s",
    "array_mb_per_s_max": "MB/s",
    "controller_percent": "percent",
    "busiest_drive_percent": "percent",
    "initiator_cpu_percent": "percent",
    "packets_per_s": "1/s",
    "packets_per_io": "packets",
    "packets": "packets",
    "packet_errors": "packets",
}
"""Every metric of the equipment and its unit, in the order of the report."""


@dataclass(frozen=True)
class HostValues:
    """One host in one repetition, or the mean over repetitions."""

    host: str
    vms: float
    sessions: float
    iops: float
    mb_per_s: float

    def to_json(self) -> dict[str, Any]:
        """One element of `hosts` of a point of the report."""
        return asdict(self)


def of_repetition(
    repetition: Repetition, use: dict[str, Use], nics: list[Nic], requests_per_s: float
) -> dict[str, float]:
    """Metric → value; NaN if it was not counted."""
    counters, window = repetition.counters, repetition.window
    hosts = counters.nodes("initiator")
    packets, errors = _packets(counters, window, [nic for nic in nics if nic.node in hosts])
    packets_per_s = packets / ((window[1] - window[0]) / 1e9)
    return _array(counters, window) | {
        "controller_percent": _percent(use, "controller"),
        "busiest_drive_percent": _percent(use, "drives"),
        "initiator_cpu_percent": cpu_rate(counters, window, "initiator") / 1e7 / len(hosts) if hosts else NAN,
        "packets_per_s": packets_per_s,
        "packets_per_io": packets_per_s / requests_per_s if requests_per_s > 0 else NAN,
        "packets": packets,
        "packet_errors": errors,
    }


def hosts_of(repetition: Repetition) -> list[HostValues]:
    """Every host, in the order of their names."""
    counters, window = repetition.counters, repetition.window
    reports = {str(e.get("node")): e.get("found") or {} for e in repetition.engines if e.get("engine") == "initiator"}

    def rate(node: str, *names: str) -> float:
        series = [counters.get(node, "initiator", TOTAL, name) for name in names]
        rates = [s.rate(*window) for s in series if s is not None]
        return sum(rate for rate in rates if math.isfinite(rate))

    return [
        HostValues(
            node,
            float(reports.get(node, {}).get("vms", 0)),
            float(reports.get(node, {}).get("sessions", 0)),
            rate(node, "reads", "writes"),
            rate(node, "read_bytes", "write_bytes") / 1e6,
        )
        for node in counters.nodes("initiator")
    ]


def mean_hosts(repetitions: list[list[HostValues]]) -> list[HostValues]:
    """Mean of every host over repetitions."""
    by_host: dict[str, list[HostValues]] = {}
    for each in (values for repetition in repetitions for values in repetition):
        by_host.setdefault(each.host, []).append(each)
    return [
        HostValues(host, *(float(np.mean([getattr(v, name) for v in values])) for name in _HOST_NUMBERS))
        for host, values in by_host.items()
    ]


_HOST_NUMBERS = ("vms", "sessions", "iops", "mb_per_s")


def _percent(use: dict[str, Use], resource: str) -> float:
    return use[resource].percent if resource in use else NAN


def _array(counters: Counters, window: tuple[int, int]) -> dict[str, float]:
    """Throughput at the array, both directions together: mean, and that of the highest sample
    interval.
    """
    series = [
        s for name in ("read_bytes", "write_bytes") for _, s in counters.select(engine="array", entity="lu/", name=name)
    ]
    rates = _interval_rates(series, window)
    return {
        "array_mb_per_s": sum(s.rate(*window) for s in series) / 1e6 if series else NAN,
        "array_mb_per_s_max": float(rates.max()) / 1e6 if len(rates) else NAN,
    }


def _interval_rates(series: list[Series], window: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Sum of the rates of several counters in each sample interval of the window."""
    if not series:
        return np.array([])
    instants = series[0].at_ns[(series[0].at_ns >= window[0]) & (series[0].at_ns <= window[1])]
    totals = np.array([sum(s.at(int(instant)) for s in series) for instant in instants])
    return np.diff(totals) / (np.diff(instants) / 1e9)


def _packets(counters: Counters, window: tuple[int, int], nics: list[Nic]) -> tuple[float, float]:
    """Packets of interfaces in the measuring phase, and those that were dropped or had errors; NaN
    if no interface was monitored.
    """

    def grown(*names: str) -> float:
        series = [counters.get(nic.node, "watch", f"nic/{nic.name}", name) for nic in nics for name in names]
        counted = [s.increase(*window) for s in series if s is not None]
        return sum(counted) if counted else NAN

    return grown("rx_packets", "tx_packets"), grown("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
