"""Comparison of the expectations of the study (`expect:`) with the results. A breach ends the run
with exit code 4.

`held` is None if an expectation is neither held nor breached. This is so if the points are missing
(the quick form leaves some out), are invalid or have no value. It is also so if an expectation is
not met but the results do not exclude it: the 95 % intervals overlap the expected range, or the
bottleneck is undetermined or the test setup. A bound that a point does not keep, and the ratio of
two points, are open, too, if the test setup was the bottleneck of such a point. So is the ratio if
the processors of only one were emulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hakaru.analysis import scorecard
from hakaru.analysis.bottleneck import SweepVerdict
from hakaru.analysis.direction import better
from hakaru.analysis.estimate import Estimate, ratio_or_zero
from hakaru.analysis.points import Point
from hakaru.analysis.reference import Compared
from hakaru.analysis.rows import Row
from hakaru.analysis.rules.rule import UNDETERMINED, Verdict
from hakaru.analysis.sweep import Sweep, sweep_over
from hakaru.study.where import selects
from hakaru.wording import LANGUAGES, say

FOUND = ("below_percent", "level", "value", "found", "worst_percent", "row")
"""Parts of the evidence that exist if points were measured."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one expectation. `held` is None if it could not be judged. `message` is a
    catalogue id.
    """

    expect: dict[str, Any]
    held: bool | None
    message: str
    evidence: dict[str, Any]
    over: str = ""
    """The factor of the levels in the evidence."""


@dataclass(frozen=True)
class Results:
    """The results that expectations are compared with."""

    sweeps: list[Sweep]
    """Sweeps with a verdict of their own."""
    verdicts: list[SweepVerdict]
    """One per sweep."""
    compared: Compared
    """Published numbers and their measured counterparts."""
    points: list[Point] = field(default_factory=list)
    """Every point of the run. Those in no sweep have their own verdicts."""

    @property
    def valid(self) -> list[Point]:
        """The points whose numbers may be used."""
        return [p for p in self.points if p.valid]

    def at(self, where: Mapping[str, Any]) -> list[Point]:
        """Valid points that `where` selects."""
        return [p for p in self.valid if selects(where, p.factors)]


def evaluate(expectations: list[dict[str, Any]], results: Results) -> list[Outcome]:
    """Outcomes of the expectations of the study, in its order."""
    known = [e for e in expectations if e.get("kind") in _JUDGES]
    return [_with_reason(_JUDGES[e["kind"]](e, results), results) for e in known]


def _with_reason(outcome: Outcome, results: Results) -> Outcome:
    """An outcome without a result, with the reason if the points that it names are invalid."""
    found = {name: value for name, value in outcome.evidence.items() if name in FOUND and value not in (None, [])}
    if outcome.held is not None or found:
        return outcome
    places = [outcome.expect[name] for name in ("where", "of", "to") if outcome.expect.get(name)]
    if not any(not p.valid and any(selects(where, p.factors) for where in places) for p in results.points):
        return outcome
    return replace(outcome, evidence=outcome.evidence | {"not_judged": _invalid()})


def _invalid() -> dict[str, str]:
    return {language: say(language, "expect.not_judged.invalid") for language in LANGUAGES}


def _sweep(expect: dict[str, Any], results: Results, metric: str) -> Sweep | None:
    """The valid points of a sweep; None if the highest of all is invalid, so the peak is
    unknown.
    """
    over, where = expect["over"], expect.get("where") or {}
    whole = sweep_over(results.points, over, where)
    peak = whole.peak(metric) if whole else None
    return sweep_over(results.valid, over, where) if peak is None or peak.valid else None


def _peak(expect: dict[str, Any], results: Results) -> Outcome:
    metric = expect["metric"]
    sweep = _sweep(expect, results, metric)
    peak = sweep.peak(metric) if sweep else None
    evidence: dict[str, Any] = {"low": expect["low"], "high": expect["high"], "metric": metric}
    if sweep is None or peak is None:
        return Outcome(expect, None, "expect.peak", evidence)
    inside = [p for p in sweep.measured(metric) if expect["low"] <= sweep.level(p) <= expect["high"]]
    # A single level is always the peak, so the result means nothing.
    if not inside or len(sweep.measured(metric)) < 2:
        return Outcome(expect, None, "expect.peak", evidence)
    evidence |= {"level": sweep.level(peak), "value": peak.mean(metric)}
    held: bool | None = peak in inside
    least = _ends(peak.metrics[metric])[0]
    if not held and any(_ends(p.metrics[metric])[1] >= least for p in inside):
        held = None
    return Outcome(expect, held, "expect.peak", evidence)


def _ends(estimate: Estimate) -> tuple[float, float]:
    """Ends of the 95 % interval; the mean twice if there is no interval."""
    mean = estimate.mean or 0.0
    return (mean, mean) if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def _reference(expect: dict[str, Any], results: Results) -> Outcome:
    """Judge rows of the scorecard: all rows of a table and metric, or one row."""
    percent, where = expect["percent"], expect.get("where") or {}
    if expect.get("id") is not None:
        row = next((row for row in results.compared.rows if row.id == expect["id"]), None)
        evidence: dict[str, Any] = {"percent": percent, "id": expect["id"]}
        evidence |= {"row": scorecard.row_json(row)} if row is not None else {}
        evidence |= {"open": "invalid"} if row is not None and not row.measured.valid else {}
        return Outcome(expect, _within(row, percent) if row is not None else None, "expect.row", evidence)
    rows = [r for r in results.compared.rows if r.table == expect["table"] and r.metric == expect["metric"]]
    selected = [row for row in rows if selects(where, row.levels)]
    measured = [row for row in selected if row.error_percent is not None]
    rows = [row for row in measured if row.measured.valid]
    evidence = {"percent": percent, "metric": expect["metric"], "levels": len(rows)}
    if not rows:
        reasons = _invalid() if measured else next((row.not_judged for row in selected if row.not_judged), None)
        evidence |= {"not_judged": reasons} if reasons else {}
        return Outcome(expect, None, "expect.reference", evidence)
    worst = max(rows, key=lambda row: abs(row.error_percent or 0.0))
    evidence |= {"worst_percent": worst.error_percent or 0.0, "level": worst.level}
    evidence |= {"value_low": worst.measured.low, "value_high": worst.measured.high}
    # A row whose entire interval lies outside is a breach. A row whose interval reaches inside
    # leaves the outcome open.
    held = _together(_within(row, percent) for row in rows)
    return Outcome(expect, held, "expect.reference", evidence, worst.over or "")


def _together(outcomes: Iterable[bool | None]) -> bool | None:
    """The outcome of several: a breach decides, then one that is open."""
    found = set(outcomes)
    return False if False in found else None if None in found else True


def _within(row: Row, percent: float) -> bool | None:
    """Whether a row lies within `percent` of the published value, above or below it. None if it was
    not measured at valid points, or if it does not but its interval overlaps that range.
    """
    if row.error_percent is None or not row.measured.valid:
        return None
    if abs(row.error_percent) <= percent:
        return True
    low, high, published = row.measured.low, row.measured.high, row.published
    if low is None or high is None or not isinstance(published, int | float):
        return False
    tolerance = abs(published) * percent / 100
    return None if low <= published + tolerance and high >= published - tolerance else False


def _below_peak(expect: dict[str, Any], results: Results) -> Outcome:
    metric = expect["metric"]
    sweep = _sweep(expect, results, metric)
    evidence: dict[str, Any] = {k: expect[k] for k in ("at", "low_percent", "high_percent", "metric")}
    peak = sweep.peak(metric) if sweep else None
    at_level = [p for p in sweep.measured(metric) if sweep.level(p) == expect["at"]] if sweep else []
    if sweep is None or peak is None or not at_level or not peak.mean(metric) or len(sweep.measured(metric)) < 2:
        return Outcome(expect, None, "expect.below_peak", evidence)
    below = 100 * (1 - (at_level[0].mean(metric) or 0.0) / (peak.mean(metric) or 1.0))
    evidence |= {"below_percent": below}
    held: bool | None = expect["low_percent"] <= below <= expect["high_percent"]
    least, most = _below_at(peak, at_level[0], metric)
    if not held and least <= expect["high_percent"] and most >= expect["low_percent"]:
        held = None
    return Outcome(expect, held, "expect.below_peak", evidence)


def _below_at(peak: Point, point: Point, metric: str) -> tuple[float, float]:
    """Return the least and the greatest distance of a point below the peak that the intervals
    allow, in percent; without intervals, the distance of the means. A peak that may be 0 allows any
    distance.
    """
    high, low = peak.metrics[metric], point.metrics[metric]

    def below(at_peak: float | None, at_point: float | None) -> float:
        return 100 * (1 - (at_point or 0.0) / at_peak) if at_peak and at_peak > 0 else -math.inf

    if None in (high.low, high.high, low.low, low.high):
        return below(high.mean, low.mean), below(high.mean, low.mean)
    return below(high.low, low.high), below(high.high, low.low)


def _limiter(expect: dict[str, Any], results: Results) -> Outcome:
    found = _verdicts(dict(expect.get("where") or {}), results)
    evidence: dict[str, Any] = {"resources": list(expect["resources"]), "found": [v.limiter for v in found]}
    others = [v for v in found if v.limiter not in expect["resources"]]
    # A saturated test setup or an undetermined bottleneck neither confirms nor refutes the
    # expectation.
    inconclusive = all(v.test_setup_limited or v.limiter == UNDETERMINED for v in others)
    held = None if not found or (others and inconclusive) else not others
    return Outcome(expect, held, "expect.limiter", evidence)


def _verdicts(where: dict[str, Any], results: Results) -> list[Verdict]:
    """Verdicts on the sweeps that `where` selects. If `where` has a level of the swept factor,
    verdicts on the points at that level. Also verdicts on selected points in no sweep.
    """
    in_sweeps = {p.id for sweep in results.sweeps for p in sweep.points}
    unswept = [p for p in results.at(where) if p.id not in in_sweeps]
    found = [p.verdict for p in unswept if p.evidence.mb_per_s is not None]
    judged = [
        (sweep, verdict, [p for p in sweep.measured() if p.valid and selects(where, p.factors)])
        for sweep, verdict in zip(results.sweeps, results.verdicts, strict=True)
    ]
    # A point may lie on two sweeps. The verdict on one that is selected as a whole includes it.
    whole = {p.id for sweep, _, chosen in judged if sweep.over not in where for p in chosen}
    for sweep, verdict, chosen in judged:
        if sweep.over in where:
            found += [p.verdict for p in chosen if p.id not in whole]
        elif chosen and (peak := sweep.peak()) is not None and peak.valid:
            found.append(verdict.verdict)
    return found


def _bound(expect: dict[str, Any], results: Results) -> Outcome:
    """Judge every point. The outcome is open if the interval of one reaches inside, or if the test
    setup was the bottleneck of one outside, and no other is entirely outside. The evidence has the
    farthest of the points that decide.
    """
    metric, least, most = expect["metric"], expect.get("at_least"), expect.get("at_most")
    evidence: dict[str, Any] = {"metric": metric, "at_least": least, "at_most": most}
    measured = [p for p in results.at(expect.get("where") or {}) if p.mean(metric) is not None]
    if not measured:
        return Outcome(expect, None, "expect.bound", evidence)
    inside = [(_inside(p.mean(metric) or 0.0, *_ends(p.metrics[metric]), least, most), p) for p in measured]
    judged = [(None if held is False and _is_excused(p, metric, most) else held, p) for held, p in inside]
    decided = _together(held for held, _ in judged)
    deciding = [p for held, p in judged if held is decided]
    worst = max(deciding, key=lambda p: _beyond(p.mean(metric) or 0.0, least, most))
    estimate = worst.metrics[metric]
    evidence |= {"value": worst.mean(metric), "point": dict(worst.factors)}
    evidence |= {"value_low": estimate.low, "value_high": estimate.high}
    if decided is None and any(held is False and p is worst for held, p in inside):
        evidence["open"] = worst.open_reason
    return Outcome(expect, decided, "expect.bound", evidence)


def _is_excused(point: Point, metric: str, most: float | None) -> bool:
    """Whether the test setup may be the reason why a point does not keep its bounds. It makes no
    rate higher.
    """
    is_too_fast = most is not None and (point.mean(metric) or 0.0) > most and better(metric) == "higher"
    return point.is_of_test_setup and not is_too_fast


def _ratio(expect: dict[str, Any], results: Results) -> Outcome:
    metric, least, most = expect["metric"], expect.get("at_least"), expect.get("at_most")
    evidence: dict[str, Any] = {"metric": metric, "at_least": least, "at_most": most}
    evidence |= {"of": dict(expect["of"]), "to": dict(expect["to"])}
    sides = [[p for p in results.at(expect[side]) if p.mean(metric) is not None] for side in ("of", "to")]
    if any(len(side) != 1 for side in sides):
        return Outcome(expect, None, "expect.ratio", evidence)
    (of,), (to,) = sides
    ratio = ratio_or_zero(of.sample_mean(metric), to.sample_mean(metric))
    evidence |= {"value": ratio.mean, "of_value": of.mean(metric), "to_value": to.mean(metric)}
    evidence |= {"value_low": ratio.low, "value_high": ratio.high}
    if ratio.mean is None:
        return Outcome(expect, None, "expect.ratio", evidence)
    low, high = (ratio.mean, ratio.mean) if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)
    held = _inside(ratio.mean, low, high, least, most)
    reason = _other_cause(of, to) if held is False else None
    if reason is not None:
        return Outcome(expect, None, "expect.ratio", evidence | {"open": reason})
    return Outcome(expect, held, "expect.ratio", evidence)


def _other_cause(of: Point, to: Point) -> str | None:
    """Return what else two points may differ by: an `open_reason`, or `emulated`; None: nothing."""
    for point in (of, to):
        if point.is_of_test_setup:
            return point.open_reason
    return "emulated" if of.is_emulated != to.is_emulated else None


def _beyond(value: float, least: float | None, most: float | None) -> float:
    """Return the distance of a value beyond its bounds; negative inside them."""
    return max(least - value if least is not None else -math.inf, value - most if most is not None else -math.inf)


def _inside(value: float, low: float, high: float, least: float | None, most: float | None) -> bool | None:
    """Whether the value is within its bounds; None if it is not but its interval reaches inside."""
    if _beyond(value, least, most) <= 0:
        return True
    reaches = (least is None or high >= least) and (most is None or low <= most)
    return None if reaches else False


_JUDGES: dict[str, Callable[[dict[str, Any], Results], Outcome]] = {
    "peak": _peak,
    "reference": _reference,
    "below_peak": _below_peak,
    "limiter": _limiter,
    "bound": _bound,
    "ratio": _ratio,
}
