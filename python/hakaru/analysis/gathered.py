"""Values gathered over the repetitions of a point, and the fields common to all kinds of points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hakaru.analysis import checks, emulated, rule_book
from hakaru.analysis.estimate import Estimate, SampleMean
from hakaru.analysis.latency import Latencies, curve
from hakaru.analysis.points import estimates, members
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat, worst_of_each
from hakaru.study.model import Measure


class Gathered:
    """Values of the repetitions that gave a result. `metrics`: names of the metrics that all of
    them have.
    """

    def __init__(self, origin: str, metrics: Iterable[str]) -> None:
        self.origin = origin
        self._accelerators: set[str] = set()
        self.values: dict[str, list[float]] = {name: [] for name in metrics}
        self.uses: list[dict[str, Use]] = []
        self._gauges: list[rule_book.GaugeValues] = []
        self.caveats: list[Caveat] = []
        self.over_time: dict[str, list[float | None]] = {}
        self._latencies = Latencies.none()
        self._lost: list[float] = []
        self._late: list[float] = []
        self._failed = 0

    def accept(self, repetition: Repetition) -> bool:
        """Store the caveats of a repetition and return whether it gave a result."""
        self.caveats += repetition.caveats
        if repetition.done:
            self.origin = repetition.origin
            self._accelerators.update(repetition.accelerators)
        else:
            self._failed += 1
        return repetition.done

    def add_values(
        self, repetition: Repetition, values: Mapping[str, float], use: dict[str, Use], latencies: Latencies
    ) -> None:
        """Add the values of one repetition."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)
        self.uses.append(use)
        self.caveats += checks.sampled(repetition.counters, repetition.window)
        self._gauges.append(rule_book.of_repetition(repetition.counters, repetition.window))
        self._latencies.add(latencies)
        self._lost.append(emulated.lost_outside(repetition))
        late_us = emulated.lateness_us(repetition)
        self._late += [] if late_us is None else [late_us]

    @property
    def lost(self) -> float:
        """Packets that the fabric lost outside its model, mean over repetitions."""
        return float(np.mean(self._lost)) if self._lost else 0.0

    @property
    def late_us(self) -> float | None:
        """99th percentile of the lateness of frames in the fabric, µs, in the worst repetition;
        None if not reported.
        """
        return max(self._late, default=None)

    def point_fields(
        self, raw: Mapping[str, Any], measure: Measure, units: Mapping[str, str], rate: str = "mb_per_s"
    ) -> dict[str, Any]:
        """The fields of a `Point`. `raw`: the description of the point in the run; `measure`: of
        the study; `units`: every metric and its unit, in order.

        `rate`: the metric by which repetitions are compared.
        """
        planned = raw.get("repetitions")
        repetitions_planned = planned if isinstance(planned, int) else self._failed + len(self.uses)
        caveats = [*self.caveats, *checks.of_point(self.values, repetitions_planned, self._failed, rate)]
        # Most metrics depend on those with a requested precision, so all have the same first stage.
        first_stage = measure.first_stage if measure.precisions(rate) else None
        latencies = {"all": self._latencies.all(), "read": self._latencies.read, "write": self._latencies.write}
        return {
            "id": str(raw["point"]),
            "factors": dict(raw["factors"]),
            "origin": self.origin,
            "metrics": {
                name: Estimate.of(SampleMean.over(self.values.get(name, []), first_stage), unit)
                for name, unit in units.items()
            },
            "utilisation": estimates(self.uses),
            "members": members(self.uses),
            "per_repetition": self.values,
            "caveats": worst_of_each(caveats),
            "service_ms": None,
            "distribution": {name: curve(histogram) for name, histogram in latencies.items()},
            "over_time": self.over_time,
            "rule_book": rule_book.judge(rule_book.BOOK, self._gauges),
            "chief": rate,
            "first_stage": first_stage,
            "accelerators": tuple(sorted(self._accelerators)),
        }
