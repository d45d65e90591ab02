"""The trials of one repetition: counts, places of the losses, and CPU use while each ran."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.counters import Counters

BUSY = ("user_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns")
IDLE = ("idle_ns", "iowait_ns")


@dataclass(frozen=True)
class Trial:
    """One trial through the device, or over the tester's loop. Counts are of all directions."""

    purpose: str
    frames_per_s: float
    seconds: float
    sent: int
    received: int
    lost: int
    at_input: int
    """Lost frames that the device's end of the cable did not accept."""
    at_tester: int
    """Lost frames that the tester's own receiver dropped."""
    corrupted: int
    is_valid: bool
    cpu_percent: Mapping[str, float]
    """Processor → use while the trial ran, interpolated between samples; empty without any."""
    generator_percent: float
    """CPU use of the busiest thread of the tester, including time in which it polls."""

    @property
    def in_device(self) -> int:
        """Lost frames that the device accepted, and that never reached the receiver."""
        return max(0, self.lost - self.at_input - self.at_tester)

    @property
    def loss_percent(self) -> float:
        """Share of the sent frames that were lost."""
        return 100.0 * self.lost / self.sent if self.sent else 0.0

    @property
    def unaccounted(self) -> int:
        """Sent frames that are neither received nor lost: 0, because the engine counts exactly."""
        return self.sent - self.received - self.lost

    @property
    def machine_percent(self) -> float | None:
        """Mean use of all processors."""
        return sum(self.cpu_percent.values()) / len(self.cpu_percent) if self.cpu_percent else None

    @property
    def busiest(self) -> tuple[str, float] | None:
        """The busiest processor and its use."""
        return max(self.cpu_percent.items(), key=lambda item: item[1]) if self.cpu_percent else None

    def to_json(self) -> dict[str, Any]:
        """One element of `trials` of the report."""
        busiest = self.busiest
        return {
            "purpose": self.purpose,
            "frames_per_s": self.frames_per_s,
            "seconds": self.seconds,
            "sent": self.sent,
            "received": self.received,
            "lost": self.lost,
            "lost_at_device_input": self.at_input,
            "lost_in_device": self.in_device,
            "lost_at_tester": self.at_tester,
            "valid": self.is_valid,
            "machine_percent": self.machine_percent,
            "busiest_cpu": busiest[0] if busiest else None,
            "busiest_cpu_percent": busiest[1] if busiest else None,
        }


def of_log(log: Sequence[Mapping[str, Any]], counters: Counters) -> list[Trial]:
    """All trials of a repetition, in their order."""
    return [_trial(entry, counters) for entry in log]


def _trial(entry: Mapping[str, Any], counters: Counters) -> Trial:
    def total(part: str, *names: str) -> int:
        return sum(int(item[name] or 0) for item in entry[part] for name in names)

    window = (int(entry["start_ns"]), int(entry["end_ns"]))
    return Trial(
        purpose=str(entry["purpose"]),
        frames_per_s=float(entry["frames_per_s"]),
        seconds=float(entry["seconds"]),
        sent=total("streams", "sent"),
        received=total("streams", "received"),
        lost=total("streams", "lost"),
        at_input=total("ports", "tx_dropped"),
        at_tester=total("ports", "rx_dropped", "ring_dropped"),
        corrupted=total("streams", "corrupted"),
        is_valid=bool(entry.get("is_valid", not entry["faults"])),
        cpu_percent=_cpu(counters, window),
        generator_percent=_generator_percent(entry),
    )


def _generator_percent(entry: Mapping[str, Any]) -> float:
    threads = [int(port[name]) for port in entry["ports"] for name in ("transmit_cpu_ns", "receive_cpu_ns")]
    return max(threads, default=0) / (float(entry["seconds"]) * 1e7)


def _cpu(counters: Counters, window: tuple[int, int]) -> dict[str, float]:
    """Use of each processor in percent. Only one watch of a machine reports them."""
    processors = sorted({key.entity for key, _ in counters.select(engine="watch", entity="cpu/", name=BUSY[0])})
    used = {}
    for processor in processors:
        busy, idle = (_rate(counters, window, processor, names) for names in (BUSY, IDLE))
        if math.isfinite(busy + idle) and busy + idle > 0:
            used[processor.removeprefix("cpu/")] = 100.0 * busy / (busy + idle)
    return used


def _rate(counters: Counters, window: tuple[int, int], processor: str, names: Sequence[str]) -> float:
    rates = [counters.total_rate(window, engine="watch", entity=processor, name=name) for name in names]
    return sum(rate for rate in rates if math.isfinite(rate)) if any(map(math.isfinite, rates)) else math.nan
