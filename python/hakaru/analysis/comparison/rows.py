"""Metrics of two runs at their common points, each with its difference and a verdict. Pure.

The input is the `points` of two summaries (docs/reference/report-json.md). A metric has a row for
each common point, and if there are several, a row for all of them together. All rows of all
comparisons of a command are judged together (`judge`), because each further test adds a chance of
a false difference. Half of the permitted 5 % is for the chief metrics, whose number is small, and
half for all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hakaru.analysis.comparison import difference
from hakaru.analysis.comparison.difference import Difference, Term
from hakaru.analysis.estimate import SampleMean
from hakaru.study.where import same_level

Better = Literal["higher", "lower"]
Verdict = Literal["better", "worse", "differs", "same", "undecided"]
"""`differs`: neither higher nor lower values of the metric are better."""
Reason = Literal["invalid", "few_repetitions"]

CHIEF = (
    "iops",
    "mb_per_s",
    "mib_per_s",
    "sum_mib_per_s",
    "frames_per_s",
    "files_per_s",
    "latency_ms_mean",
    "latency_ms_p99",
)
"""Metrics that answer most questions, and are shown even without a difference."""
SIGNIFICANCE = 0.05
SAME_WITHIN_PERCENT = 2.0
"""Default: smaller differences between two runs are common even if nothing was changed."""
COUNT_UNITS = (
    *("timeouts", "frames", "packets", "pauses", "jobs"),
    *("requests", "commands", "losses", "switches"),
)
NO_COUNTS = ("outstanding_mean", "packets_per_io")
"""Metrics in one of these units that are means."""
FEW = 20
"""Mean below which the spread of a count cannot be seen in a few repetitions."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A metric at a point, or (`point` None) at all common points together."""

    metric: str
    unit: str
    better: Better | None
    factors: Json | None
    points: int
    before: float | None
    after: float | None
    n: tuple[int, int]
    """Repetitions of each run; of several points, the lowest numbers."""
    difference: Difference | None
    reason: Reason | None
    """Why there is no difference."""
    p_corrected: float | None = None
    verdict: Verdict = "undecided"

    @property
    def is_chief(self) -> bool:
        """Whether the metric is one of `CHIEF`."""
        return self.metric in CHIEF

    @property
    def worse_percent(self) -> float | None:
        """Percent of the first run by which the metric is worse, negative if it is better; None if
        unknown, also if the first run has 0.
        """
        return None if self.difference is None else self._worse_percent(self.difference.change)

    @property
    def worse_percent_at_most(self) -> float | None:
        """The end of the interval at which the metric is worst, in percent; None as above."""
        return None if self.difference is None else self._worse_percent(self._worst_end(self.difference))

    def is_worse_by(self, percent: float) -> bool:
        """Whether the metric is significantly worse, and by more than `percent`. True as well if
        it is worse than 0.
        """
        if self.difference is None or self.p_corrected is None or self.p_corrected >= SIGNIFICANCE:
            return False
        worse = self.worse_percent
        return self._badness(self.difference.change) > 0 if worse is None else worse > percent

    def may_be_worse_by(self, percent: float) -> bool:
        """Whether the interval does not exclude that the metric is worse by more than `percent`,
        or whether there is no interval.
        """
        if self.better is None:
            return False
        if self.difference is None:
            return True
        worst = self.worse_percent_at_most
        return self._badness(self._worst_end(self.difference)) > 0 if worst is None else worst > percent

    def _badness(self, change: float) -> float:
        """The change with a positive sign if it is for the worse; 0 if no direction is."""
        return {"lower": change, "higher": -change, None: 0.0}[self.better]

    def _worst_end(self, found: Difference) -> float:
        return found.low if self.better == "higher" else found.high

    def _worse_percent(self, change: float) -> float | None:
        if self.difference is None or self.better is None:
            return None
        badness = self._badness(change)
        if self.difference.test == "welch_log":
            return badness
        return 100 * badness / self.before if self.before and self.before > 0 else None

    def to_json(self) -> dict[str, Any]:
        """One element of `rows` of `hakaru compare --json`."""
        found = self.difference
        return {
            "metric": self.metric,
            "unit": self.unit,
            "better": self.better,
            "factors": self.factors,
            "points": self.points,
            "before": self.before,
            "after": self.after,
            "n": list(self.n),
            "test": found and found.test,
            "change": found and found.change,
            "change_unit": found and ("percent" if found.test == "welch_log" else self.unit),
            "low": found and found.low,
            "high": found and found.high,
            "p": found and found.p,
            "p_corrected": self.p_corrected,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def common_points(before: Sequence[Json], after: Sequence[Json]) -> list[tuple[Json, Json]]:
    """Pairs of points with the same levels, in the order of the first run."""
    return [(one, other) for one in before for other in after if _same_levels(one["factors"], other["factors"])]


def _same_levels(one: Json, other: Json) -> bool:
    return one.keys() == other.keys() and all(same_level(one[name], other[name]) for name in one)


def rows(
    pairs: Sequence[tuple[Json, Json]], better: Callable[[str], Better | None], metrics: Sequence[str] = ()
) -> list[Row]:
    """Rows of all metrics that both points of a pair have, not yet judged. `metrics`: only these.

    A metric that only repeats an earlier one in another unit is left out.
    """
    names = list(dict.fromkeys(name for pair in pairs for name in pair[0]["metrics"] if name in pair[1]["metrics"]))
    seen: list[str] = []
    found: list[Row] = []
    for name in dict.fromkeys(metrics) or names:
        if not metrics and any(_repeats(pairs, name, earlier) for earlier in seen):
            continue
        of_metric = [row for pair in pairs if (row := _row(pair, name, better(name))) is not None]
        if of_metric:
            seen.append(name)
            found += [*_together(pairs, of_metric), *of_metric]
    return found


def _row(pair: tuple[Json, Json], name: str, better: Better | None) -> Row | None:
    """The row of one point; None if one of the runs has no value there."""
    estimates = [point["metrics"].get(name) or {} for point in pair]
    before, after = (_values(point, name) for point in pair)
    if not before or not after:
        return None
    unit = str(estimates[0].get("unit", ""))
    row = Row(
        metric=name,
        unit=unit,
        better=better,
        factors=pair[0]["factors"],
        points=1,
        before=estimates[0].get("mean"),
        after=estimates[1].get("mean"),
        n=(len(before), len(after)),
        difference=None,
        reason=None,
    )
    if not all(point["valid"] for point in pair):
        return replace(row, reason="invalid")
    if min(row.n) < 2:
        return replace(row, reason="few_repetitions")
    is_count = unit in COUNT_UNITS and name not in NO_COUNTS
    few = is_count and min(sum(before) / len(before), sum(after) / len(after)) < FEW
    sides = [_sample_mean(point, name) for point in pair]
    ratio = None if few else difference.of_ratio(*sides)
    if ratio is not None:
        return replace(row, difference=difference.relative([ratio]))
    return replace(row, difference=difference.absolute(*sides, counts=few))


def _together(pairs: Sequence[tuple[Json, Json]], of_metric: Sequence[Row]) -> Iterator[Row]:
    """The row of all points together, if several points have a ratio."""
    ratios: list[Term] = []
    counted: list[Row] = []
    for pair in pairs:
        row = next((each for each in of_metric if each.factors is pair[0]["factors"]), None)
        if row is None or row.difference is None or row.difference.test != "welch_log":
            continue
        ratio = difference.of_ratio(*(_sample_mean(point, row.metric) for point in pair))
        if ratio is not None:
            ratios.append(ratio)
            counted.append(row)
    if len(ratios) > 1:
        lowest = (min(row.n[0] for row in counted), min(row.n[1] for row in counted))
        found = difference.relative(ratios)
        yield replace(counted[0], factors=None, points=len(ratios), before=None, after=None, n=lowest, difference=found)


def _values(point: Json, name: str) -> list[float]:
    """The metric's value in each repetition that has one."""
    return [float(value) for value in point["repetitions"].get(name) or () if value is not None]


def _sample_mean(point: Json, name: str) -> SampleMean | None:
    return SampleMean.over(_values(point, name), point.get("first_stage"))


def _repeats(pairs: Sequence[tuple[Json, Json]], name: str, earlier: str) -> bool:
    """Whether all values of `name` are those of `earlier` times a constant of the point."""
    compared = False
    for pair in pairs:
        here, there = ([value for point in pair for value in _values(point, each)] for each in (name, earlier))
        if not here and not there:
            continue
        if len(here) != len(there):
            return False
        total, other = sum(map(abs, here)), sum(map(abs, there))
        if (total == 0) != (other == 0):
            return False
        factor = sum(here) / sum(there) if sum(there) else 0.0
        if not all(math.isclose(a, factor * b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(here, there, strict=True)):
            return False
        compared = compared or total > 0
    return compared


def judge(unjudged: Sequence[Row], same_within_percent: float = SAME_WITHIN_PERCENT) -> list[Row]:
    """The rows with corrected p-values and verdicts, in the same order."""
    judged = list(unjudged)
    tested = [i for i, row in enumerate(judged) if row.difference is not None]
    families = [[i for i in tested if judged[i].is_chief is chief] for chief in (True, False)]
    used = [family for family in families if family]
    for family in used:
        corrected = difference.holm([found.p for i in family if (found := judged[i].difference) is not None])
        for i, p in zip(family, corrected, strict=True):
            judged[i] = replace(judged[i], p_corrected=min(1.0, p * len(used)))
    return [replace(row, verdict=_verdict(row, same_within_percent)) for row in judged]


def _verdict(row: Row, same_within_percent: float) -> Verdict:
    found = row.difference
    if found is None or row.p_corrected is None:
        return "undecided"
    margin = same_within_percent
    if found.test == "welch":
        margin *= max(abs(row.before or 0.0), abs(row.after or 0.0)) / 100
    # Between equal constants there is no difference, whatever the margin.
    if found.change == 0.0 and found.low == found.high:
        return "same"
    if row.p_corrected < SIGNIFICANCE and abs(found.change) > margin:
        if row.better is None:
            return "differs"
        return "better" if (found.change > 0) == (row.better == "higher") else "worse"
    return "same" if -margin <= found.low and found.high <= margin else "undecided"
