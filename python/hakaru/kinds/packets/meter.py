"""Rates of the tester: live, and the result of a search."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.run.meter import Meter, Rates
from hakaru.wording import number

PORT = "port/"


class PacketsMeter(Meter):
    """Frames that the tester sends and receives per second, on all its ports."""

    def __init__(self) -> None:
        self._last: contract.Sample | None = None

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        last, self._last = self._last, sample
        if last is None or sample.at_ns <= last.at_ns:
            return None
        seconds = (sample.at_ns - last.at_ns) / 1e9
        sent, received = (_growth(last, sample, name) / seconds for name in ("tx_frames", "rx_frames"))
        values = {"sent_per_s": round(sent), "received_per_s": round(received)}
        return Rates(f"{number(sent)} frames/s sent, {number(received)} received", values)


def _growth(last: contract.Sample, sample: contract.Sample, name: str) -> float:
    return sum(
        counters.get(name, 0.0) - last.counters.get(entity, {}).get(name, 0.0)
        for entity, counters in sample.counters.items()
        if entity.startswith(PORT)
    )


def rates_of(frames_per_s: float | None, verdict: str) -> Rates:
    """The result of a search as text and as values."""
    text = "no rate found" if frames_per_s is None else f"{number(frames_per_s)} frames/s"
    return Rates(f"{text} ({verdict})", {"frames_per_s": frames_per_s, "verdict": verdict})
