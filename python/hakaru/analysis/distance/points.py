"""One point of a load over a distance: its repetitions' numbers as estimates, its bounds, and what limits it.

**The rate** is requests outstanding times their length over the mean latency (Little's law) where fewer than 200 end:
over a long way so few requests end in the measuring time that a count would be off by one at each end. Where Little's
law does not hold, since requests take about as long as the measuring phase, it is what TCP delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru.analysis import metrics as any_metrics
from hakaru.analysis.backup import hops
from hakaru.analysis.backup.copies import finite
from hakaru.analysis.distance import bounds, checks, limiter, measures, timeline
from hakaru.analysis.distance.bounds import Bound
from hakaru.analysis.distance.setup import Setup, of_negotiated, setup_at
from hakaru.analysis.gathered import Gathered
from hakaru.analysis.latency import Latencies
from hakaru.analysis.points import Point
from hakaru.analysis.points import timeline as rates_over_time
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat

UNITS = any_metrics.UNITS | measures.UNITS


@dataclass
class DistancePoint(Point):
    """What came of one combination of levels: a `Point`, its way, the bounds, and the course of TCP's window."""

    setup: Setup
    bounds: list[Bound]
    """The lowest first."""
    lateness_us: float | None

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        assert self.verdict is not None  # every point over a distance is judged by itself
        exchange, path = self.setup.exchange, self.setup.path
        return super().to_json() | {
            "limiter": self.verdict.limiter,
            "resource": self.verdict.resource,
            "distance": {
                "from": self.setup.host,
                "to": self.setup.array,
                "rtt_ms": path.rtt_s * 1e3,
                "rate_bits_per_s": path.rate_bits_per_s,
                "op": exchange.op if exchange else None,
                "request_bytes": exchange.request_bytes if exchange else None,
                "queue_depth": exchange.queue_depth if exchange else None,
                "bounds": [{"bound": b.name, "mb_per_s": b.bytes_per_s / 1e6, **b.numbers} for b in self.bounds],
            },
            "settings": self.setup.settings,
            "fabric_late_us_p99": finite(self.lateness_us),
        }


def analyse(run: RunData, raw: dict[str, Any], nics: list[Nic]) -> DistancePoint:
    """All that is computed about one point of the run."""
    gathered = _Loads(str(run.run.get("origin")), UNITS, setup_at(run.study, raw["factors"]))
    spins = bool((run.study.get("lab") or {}).get("spin"))
    for repetition in run.repetitions(str(raw["point"])):
        if gathered.begins(repetition):
            gathered.add(run, repetition, nics, spins)
    fields, setup, late_us = gathered.point(raw, UNITS), gathered.setup, gathered.late_us
    metrics, used = fields["metrics"], fields["utilisation"]
    growth = float(np.mean(gathered.growth)) if gathered.growth else None
    return DistancePoint(
        **fields,
        setup=setup,
        bounds=gathered.bounds,
        lateness_us=late_us,
        verdict=limiter.judge(
            setup, metrics, used, gathered.bounds, lost=gathered.lost, late_us=late_us, growth=growth
        ),
    )


class _Loads(Gathered):
    """What the repetitions of a point give, one after the other."""

    def __init__(self, origin: str, metrics: Iterable[str], setup: Setup) -> None:
        super().__init__(origin, metrics)
        self.setup = setup
        self.bounds = _bounds(setup)
        self.growth: list[float] = []

    def add(self, run: RunData, repetition: Repetition, nics: list[Nic], spins: bool) -> None:
        """One repetition that gave a result, and what its checks say."""
        self.setup = of_negotiated(self.setup, _agreed(repetition))
        self.bounds = _bounds(self.setup)
        latencies = Latencies.of_table(repetition.histograms, repetition.window)
        values, use, found = measured(repetition, self.setup, latencies, nics, spins=spins)
        values |= _shares(values["mb_per_s"], self.bounds)
        # A tester that falls behind can only slow the load, and no bound lets it be faster: this near the number holds.
        at_bound = values["bound_share_percent"] >= limiter.AT_BOUND_PERCENT
        self.caveats += [c for c in found if not (at_bound and c.name == "fabric_saturated")]
        self.take(repetition, values, use, latencies)
        self.growth += [grown] if (grown := timeline.window_growth(repetition, self.setup)) is not None else []
        if not self.over_time:
            self.over_time = rates_over_time(repetition) | timeline.of_repetition(run, repetition, self.setup)


def measured(
    repetition: Repetition, setup: Setup, latencies: Latencies, nics: list[Nic], *, spins: bool
) -> tuple[dict[str, float], dict[str, Use], list[Caveat]]:
    """What one repetition came to, what it used, and what its checks say."""
    values = any_metrics.of_repetition(repetition, latencies)
    use = hops.use(repetition, nics, setup.hops, spins=spins)
    found = checks.of_repetition(repetition, values, use)
    if setup.exchange is not None:  # a closed load of one size
        few = any_metrics.by_latency(values, repetition.window)
        if not values["iops"] or any(c.name == "littles_law" for c in found):
            few = _delivered(repetition, setup) or few
        values = values | few
    return values | measures.of_repetition(repetition, setup), use, found


def _delivered(repetition: Repetition, setup: Setup) -> dict[str, float]:
    """Rates by what TCP has delivered: for requests that take about as long as the measuring phase, of which latency
    tells only the fast ones and a count next to nothing. Nothing where connections were not counted."""
    series, exchange = measures.sender_series(repetition, setup, "acked_bytes"), setup.exchange
    seconds = (repetition.window[1] - repetition.window[0]) / 1e9
    if not series or exchange is None or seconds <= 0:
        return {}
    lengths = exchange.command_lengths
    share = exchange.request_bytes / sum(exchange.on_stream(length) for length in lengths)
    rate = sum(s.increase(*repetition.window) for s in series) * share / seconds
    found = {"iops": rate / exchange.request_bytes, "mb_per_s": rate / 1e6}
    mine = {f"{exchange.op}_{name}": value for name, value in found.items()}
    return found | mine | {"mib_per_s": rate / (1 << 20)}


def _bounds(setup: Setup) -> list[Bound]:
    return bounds.bounds(setup.path, setup.exchange, setup.window_bytes) if setup.exchange is not None else []


def _agreed(repetition: Repetition) -> dict[str, Any]:
    """The keys that the initiator's sessions hold, as it said when it was ready."""
    for engine in repetition.engines:
        found = engine.get("found") if engine.get("engine") == "initiator" else None
        if isinstance(found, dict) and isinstance(found.get("negotiated"), dict):
            return dict(found["negotiated"])
    return {}


def _shares(mb_per_s: float, found: list[Bound]) -> dict[str, float]:
    link = next((b.bytes_per_s for b in found if b.name == "link"), None)
    least = found[0].bytes_per_s if found else None
    return {
        "payload_percent": 1e8 * mb_per_s / link if link else measures.NAN,
        "bound_mb_per_s": least / 1e6 if least else measures.NAN,
        "bound_share_percent": 1e8 * mb_per_s / least if least else measures.NAN,
    }
