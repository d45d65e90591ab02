"""One point of a load over a distance: its repetitions' numbers as estimates, its bounds, and what limits it.

**The rate** is requests outstanding times their length over the mean latency (Little's law) where fewer than 200 end:
over a long way so few requests end in the measuring time that a count would be off by one at each end. Where Little's
law does not hold, since requests take about as long as the measuring phase, it is what TCP delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru.analysis import checks as any_checks
from hakaru.analysis import emulated, utilisation
from hakaru.analysis import metrics as any_metrics
from hakaru.analysis.backup import hops
from hakaru.analysis.backup.copies import finite
from hakaru.analysis.caveats import Caveat
from hakaru.analysis.distance import bounds, checks, limiter, measures, timeline
from hakaru.analysis.distance.bounds import Bound
from hakaru.analysis.distance.setup import Setup, of_negotiated, setup_at
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.latency import Latencies, curve
from hakaru.analysis.points import Point, estimates, members, worst_of_each
from hakaru.analysis.points import timeline as rates_over_time
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Nic, Use

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
    gathered = _Gathered(setup_at(run.study, raw["factors"]))
    origin, failed = str(run.run.get("origin")), 0
    spins = bool((run.study.get("lab") or {}).get("spin"))
    caveats: list[Caveat] = []
    for repetition in run.repetitions(str(raw["point"])):
        caveats += repetition.caveats
        if not repetition.done:
            failed += 1
            continue
        origin = repetition.origin
        caveats += gathered.add(run, repetition, nics, spins)
    planned = raw.get("repetitions")
    counted = planned if isinstance(planned, int) else failed + len(gathered.uses)
    caveats += any_checks.of_point(gathered.values, counted, failed, "mb_per_s")
    metrics = {name: Estimate.over(gathered.values.get(name, []), unit) for name, unit in UNITS.items()}
    used, merged = estimates(gathered.uses), gathered.latencies
    growth = float(np.mean(gathered.growth)) if gathered.growth else None
    lost = float(np.mean(gathered.lost)) if gathered.lost else 0.0
    return DistancePoint(
        id=str(raw["point"]),
        factors=dict(raw["factors"]),
        origin=origin,
        metrics=metrics,
        utilisation=used,
        members=members(gathered.uses),
        per_repetition=gathered.values,
        caveats=worst_of_each(caveats),
        service_ms=None,
        distribution={"all": curve(merged.all()), "read": curve(merged.read), "write": curve(merged.write)},
        over_time=gathered.over_time,
        setup=gathered.setup,
        bounds=gathered.bounds,
        lateness_us=max(gathered.late, default=None),
        verdict=limiter.judge(
            gathered.setup,
            metrics,
            used,
            gathered.bounds,
            lost=lost,
            late_us=max(gathered.late, default=None),
            growth=growth,
        ),
    )


class _Gathered:
    """What the repetitions of a point give, one after the other."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.bounds = _bounds(setup)
        self.values: dict[str, list[float]] = {name: [] for name in UNITS}
        self.uses: list[dict[str, Use]] = []
        self.lost: list[float] = []
        self.late: list[float] = []
        self.growth: list[float] = []
        self.latencies = Latencies.none()
        self.over_time: dict[str, list[float | None]] = {}

    def add(self, run: RunData, repetition: Repetition, nics: list[Nic], spins: bool) -> list[Caveat]:
        """One repetition that gave a result; what its checks say."""
        self.setup = of_negotiated(self.setup, _agreed(repetition))
        self.bounds = _bounds(self.setup)
        latencies = Latencies.of_table(repetition.histograms, repetition.window)
        values, use, found = measured(repetition, self.setup, latencies, nics, spins=spins)
        values |= _shares(values["mb_per_s"], self.bounds)
        for name, value in values.items():
            self.values[name].append(value)
        self.uses.append(use)
        self.lost.append(emulated.lost_outside(repetition.counters))
        self.late += [late] if (late := emulated.lateness_us(repetition)) is not None else []
        self.growth += [grown] if (grown := timeline.window_growth(repetition, self.setup)) is not None else []
        self.latencies.add(latencies)
        if not self.over_time:
            self.over_time = rates_over_time(repetition) | timeline.of_repetition(run, repetition, self.setup)
        return found


def measured(
    repetition: Repetition, setup: Setup, latencies: Latencies, nics: list[Nic], *, spins: bool
) -> tuple[dict[str, float], dict[str, Use], list[Caveat]]:
    """What one repetition came to, what it used, and what its checks say."""
    values = any_metrics.of_repetition(repetition, latencies)
    use = _use(repetition, setup, nics, spins=spins)
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


def _use(repetition: Repetition, setup: Setup, nics: list[Nic], *, spins: bool) -> dict[str, Use]:
    """How much of each resource was used; links as the fabric counted them, where there is one."""
    use = utilisation.of_repetition(repetition.counters, repetition.window, nics)
    counted = hops.of_repetition(repetition)
    if counted:
        use = {r: u for r, u in use.items() if not r.startswith("link/")}
        for hop in setup.hops:
            busy = counted.get(f"link/{hop.link}/{hop.direction}", {}).get("busy_percent")
            if busy is not None:
                use[f"link/{hop.link}/{hop.source}>{hop.target}"] = Use(busy)
    if spins:  # it takes a whole CPU by design
        use.pop("cpu/fabric", None)
    return use
