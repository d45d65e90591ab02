"""Comparisons of run directories: `compare` reads and analyses the runs, and judges all of their
differences together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hakaru.analysis import kind
from hakaru.analysis.comparison.conditions import Condition, differing
from hakaru.analysis.comparison.rows import SAME_WITHIN_PERCENT, Better, Row, common_points, judge, rows
from hakaru.analysis.run_data import RunData
from hakaru.analysis.summary import analyse
from hakaru.errors import UsageError
from hakaru.suggest import did_you_mean

Json = dict[str, Any]


@dataclass(frozen=True)
class Compared:
    """A run compared with its baseline."""

    before: Json
    """`run` of the summary of the baseline."""
    after: Json
    """`run` of the summary of the other run."""
    conditions: Sequence[Condition]
    only_before: Sequence[Json]
    only_after: Sequence[Json]
    """Factors of the points that only one of the runs has."""
    points: int
    """Common points."""
    rows: Sequence[Row]
    points_before: Sequence[Json]
    points_after: Sequence[Json]
    """`points` of the summaries, for figures; not in `to_json`."""

    def to_json(self) -> Json:
        """One element of `comparisons` of `hakaru compare --json`."""
        return {
            "before": self.before,
            "after": self.after,
            "conditions": [condition.to_json() for condition in self.conditions],
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "points": self.points,
            "rows": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True)
class _Analysed:
    data: RunData
    summary: Json


def compare(
    baseline: Path,
    others: Sequence[Path],
    metrics: Sequence[str] = (),
    same_within_percent: float = SAME_WITHIN_PERCENT,
) -> list[Compared]:
    """Compare each of the other runs with the baseline. `metrics`: only these, default: all.

    Raises UsageError for runs of different kinds or without a common point, and for unknown
    metrics.
    """
    first = _read(baseline)
    better = kind.of(first.data).better
    unjudged = [_unjudged(first, _read(other), metrics, better) for other in others]
    judged = iter(judge([row for each in unjudged for row in each.rows], same_within_percent))
    return [replace(each, rows=[next(judged) for _ in each.rows]) for each in unjudged]


def _read(directory: Path) -> _Analysed:
    data = RunData.read(directory)
    return _Analysed(data, analyse(data))


def _unjudged(
    first: _Analysed, second: _Analysed, metrics: Sequence[str], better: Callable[[str], Better | None]
) -> Compared:
    kinds = [side.data.kind for side in (first, second)]
    names = [side.summary["run"]["run"] for side in (first, second)]
    if kinds[0] != kinds[1]:
        message = f"{names[0]} is of kind {kinds[0]}, {names[1]} of kind {kinds[1]}"
        raise UsageError(f"{message}: they have no metric in common", "compare runs of the same study")
    points = [side.summary["points"] for side in (first, second)]
    pairs = common_points(*points)
    if not pairs:
        hint = "compare runs that have points with the same levels; `hakaru runs` lists the runs"
        raise UsageError(f"{names[0]} and {names[1]} have no point in common", hint)
    known = dict.fromkeys(name for pair in pairs for name in pair[0]["metrics"] if name in pair[1]["metrics"])
    for metric in metrics:
        if metric not in known:
            raise UsageError(f"--metric {metric}: the runs have no such metric", did_you_mean(metric, known))
    common = [[pair[side]["point"] for pair in pairs] for side in (0, 1)]
    only = [[p["factors"] for p in points[side] if p["point"] not in common[side]] for side in (0, 1)]
    return Compared(
        before=first.summary["run"],
        after=second.summary["run"],
        conditions=differing(first.data, second.data),
        only_before=only[0],
        only_after=only[1],
        points=len(pairs),
        rows=rows(pairs, better, metrics),
        points_before=points[0],
        points_after=points[1],
    )
