"""The trials of one repetition: counts, places of the losses, and CPU use while each ran.

Each place of losses has a counter of its own, which no other place is derived from:

    input      the tester's interface: the device's end of the cable did not accept the frame;
               ports in a guest's memory: the guest had no receive buffer for it
    host       TAPs, bridges and cables in front of a guest, or the fabric in front of its memory
    device     interfaces of the device: of its namespace, of the guest, or of hakaru's switch
    output     the device's interface: the tester's end of the cable did not accept the frame
    receiver   receive ring of the tester (PACKET_STATISTICS), drops of its interface
    damaged    frames that arrived with a wrong checksum, length or pattern
    late       frames that arrived after the end of their trial

`unlocated` is the rest of the lost frames. It is negative if the counters have more: they count
frames of any kind, also such as the trial did not send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru import lost_packets
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.kinds.packets import names

BUSY = ("user_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns")
IDLE = ("idle_ns", "iowait_ns")
SAMPLES_MIN = 4
"""Samples within a trial from which on its CPU use is computed: three intervals."""
PLACES = names.LOSS_PLACES[:-1]
"""Places with counters, in the order of a frame's way."""
SWITCH_DROPPED = "dropped_"
"""Beginning of the names of counters of frames that a channel or switch of the fabric dropped."""


@dataclass(frozen=True)
class Trial:
    """One trial through the device, or over the tester's loop. Counts are of all directions."""

    purpose: str
    frames_per_s: float
    seconds: float
    sent: int
    received: int
    lost: int
    lost_at: Mapping[str, int]
    """Place of `PLACES` → frames lost there, by the counters of that place."""
    reordered: int
    """Received frames whose number is lower than one of the same flow received before."""
    duplicated: int
    """Further copies of received frames."""
    is_valid: bool
    judged_sent: int
    """Sent frames without those that were due in times that are not judged."""
    judged_lost: int
    """Those of them that were lost."""
    excluded_s: float
    """Time that is not judged, because processors of the tester's machine stopped."""
    longest_stop_s: float
    cpu_percent: Mapping[str, float]
    """Processor → use while the trial ran, from samples within it; empty if it has too few."""
    samples: int
    """Samples of the processors within the trial."""
    surplus: int
    """Frames received beyond those sent, by stream: 0 unless the counts are wrong."""
    generator_percent: float
    """CPU use of the busiest thread of the tester, including time in which it polls."""

    @property
    def unlocated(self) -> int:
        """Lost frames that no counter has; negative if the counters have more than were lost."""
        return self.lost - sum(self.lost_at.values())

    @property
    def cpu_missing(self) -> str | None:
        """Reason why there is no CPU use; None if there is."""
        if self.cpu_percent:
            return None
        return f"{self.samples} samples within the trial; {SAMPLES_MIN} are needed"

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
            "judged_sent": self.judged_sent,
            "judged_lost": self.judged_lost,
            "excluded_s": self.excluded_s,
            "lost_at": dict(self.lost_at),
            "lost_unlocated": self.unlocated,
            "reordered": self.reordered,
            "duplicated": self.duplicated,
            "valid": self.is_valid,
            "cpu_percent": dict(self.cpu_percent),
            "machine_percent": self.machine_percent,
            "busiest_cpu": busiest[0] if busiest else None,
            "busiest_cpu_percent": busiest[1] if busiest else None,
            "cpu_missing": self.cpu_missing,
        }


def of_log(log: Sequence[Mapping[str, Any]], counters: Counters) -> list[Trial]:
    """All trials of a repetition, in their order."""
    # Frames that come too late are counted in the trial after theirs.
    late = [sum(int(port["late"]) for port in entry["ports"]) for entry in log[1:]]
    switch = _switch_losses(log, counters)
    return [_trial(*each, counters) for each in zip(log, [*late, 0], switch, strict=True)]


def _trial(entry: Mapping[str, Any], late: int, in_switch: int, counters: Counters) -> Trial:
    def total(part: str, *counts: str) -> int:
        return sum(int(item[name]) for item in entry[part] for name in counts)

    def by_counters(place: str) -> int:
        return sum(int(lost) for name, lost in entry["device_losses"].items() if name.startswith(f"{place}/"))

    # None if stops cannot be found.
    stops = entry["stops"] or {"excluded_ns": 0, "longest_ns": 0}
    excluded = {name: total("streams", name) for name in ("excluded", "excluded_unsent", "excluded_lost")}
    window = (int(entry["start_ns"]), int(entry["end_ns"]))
    # A frame that the tester's end of a cable refuses may be counted at both ends.
    refused_twice = min(by_counters("output"), total("ports", "rx_dropped"))
    cpu_percent, samples = _cpu(counters, window)
    return Trial(
        purpose=str(entry["purpose"]),
        frames_per_s=float(entry["frames_per_s"]),
        seconds=float(entry["seconds"]),
        sent=total("streams", "sent"),
        received=total("streams", "received"),
        lost=total("streams", "lost"),
        lost_at={
            "input": total("ports", "tx_dropped") + by_counters("input"),
            "host": by_counters("host"),
            "device": by_counters("device") + in_switch,
            "output": by_counters("output") - refused_twice,
            "receiver": total("ports", "rx_dropped", "ring_dropped"),
            "damaged": total("streams", "corrupted"),
            "late": late,
        },
        reordered=total("streams", "reordered"),
        duplicated=total("streams", "duplicated"),
        is_valid=bool(entry.get("is_valid", not entry["faults"])),
        judged_sent=total("streams", "sent") - excluded["excluded"] + excluded["excluded_unsent"],
        judged_lost=total("streams", "lost") - excluded["excluded_lost"],
        excluded_s=stops["excluded_ns"] / 1e9,
        longest_stop_s=stops["longest_ns"] / 1e9,
        cpu_percent=cpu_percent,
        samples=samples,
        surplus=sum(max(0, int(stream["received"]) - int(stream["sent"])) for stream in entry["streams"]),
        generator_percent=_generator_percent(entry),
    )


def _switch_losses(log: Sequence[Mapping[str, Any]], counters: Counters) -> list[int]:
    """Frames that hakaru's switch lost in each trial.

    The switch reports samples. The last one before the next trial begins counts as the end of a
    trial, since no frame is under way then. Only the end of the last trial has a sample after it.
    """
    all_names = {key.name for key in counters.keys(engine="fabric")}
    # The kernel's counter of the same interface, `output`, has the frames of `lost_after`.
    own = set(lost_packets.LOST) - {"lost_after"}
    lost = [name for name in all_names if name.startswith(SWITCH_DROPPED) or name in own]
    series = [
        found
        for name in lost
        for entity in ("link/", "switch/", "interface/")
        for _, found in counters.select(engine="fabric", entity=entity, name=name)
    ]
    starts = [int(entry["start_ns"]) for entry in log]

    def at(series: Series, instant_ns: int) -> float:
        place = int(np.searchsorted(series.at_ns, instant_ns, side="right")) - 1
        return float(series.value[max(0, place)])

    losses = []
    for start_ns, next_ns in zip(starts, [*starts[1:], 1 << 62], strict=True):
        losses.append(round(sum(at(each, next_ns) - at(each, start_ns) for each in series)))
    return losses


def _generator_percent(entry: Mapping[str, Any]) -> float:
    threads = [int(port[name]) for port in entry["ports"] for name in ("transmit_cpu_ns", "receive_cpu_ns")]
    return max(threads, default=0) / (float(entry["seconds"]) * 1e7)


def _cpu(counters: Counters, window: tuple[int, int]) -> tuple[dict[str, float], int]:
    """Use of each processor in percent, from the first to the last sample within the window, and
    the number of these samples. Only one watch of a machine reports processors.

    Nothing is interpolated: a sample of before the trial would mix its use with that of a pause.
    """
    selected = counters.select(engine="watch", entity="cpu/", name=BUSY[0])
    processors = [(key, series) for key, series in selected if key.node not in counters.guests]
    used: dict[str, float] = {}
    within: list[int] = []
    for key, series in processors:
        instants = series.at_ns[(series.at_ns >= window[0]) & (series.at_ns <= window[1])]
        within.append(len(instants))
        if len(instants) < SAMPLES_MIN:
            continue
        inner = (int(instants[0]), int(instants[-1]))
        busy, idle = (_rate(counters, inner, key, parts) for parts in (BUSY, IDLE))
        if math.isfinite(busy + idle) and busy + idle > 0:
            used[key.entity.removeprefix("cpu/")] = 100.0 * busy / (busy + idle)
    return dict(sorted(used.items())), min(within, default=0)


def _rate(counters: Counters, window: tuple[int, int], processor: Key, parts: Sequence[str]) -> float:
    found = [counters.get(processor.node, processor.engine, processor.entity, name) for name in parts]
    rates = [series.rate(*window) for series in found if series is not None]
    return sum(rate for rate in rates if math.isfinite(rate)) if any(map(math.isfinite, rates)) else math.nan
