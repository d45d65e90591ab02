"""The answers of searches for a goal in reports: headline, number at the head, method, lines of
figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.analysis.goals import goal_words, range_words, with_unit
from hakaru.report import charts
from hakaru.report.charts import Line, LinePoint
from hakaru.report.sweep import factor_title
from hakaru.study import Study
from hakaru.study.goal import Limit
from hakaru.wording import say

Json = dict[str, Any]

AROUND_PX2 = 300
"""Area of a marker that shows around the marker of a line."""


def findings(summary: Json) -> list[Json]:
    """The findings about the goal, one for each search."""
    return [finding for finding in summary["findings"] if finding["kind"] == "goal"]


def tiles(summary: Json, language: str) -> list[Json]:
    """The answer of the first search, for the head of the report."""
    return [
        {
            "title": say(language, f"tile.goal.{goal['find']}"),
            "value": range_words(goal, language),
            "small": _limits(goal, language),
        }
        for goal in (summary.get("goals") or [])[:1]
    ]


def method(summary: Json, study: Study, language: str) -> list[str]:
    """A sentence about each search."""
    return [
        say(
            language,
            "method.goal",
            {
                "factor": factor_title(goal["over"], language),
                "goal": _limits(goal, language),
                "most": study.measure.most,
                "confidence": f"{100 * goal['confidence']:.3g} %",
                "repetitions": goal["repetitions"],
                "repetitions_most": goal["repetitions_most"],
            },
        )
        for goal in summary.get("goals") or []
    ]


def lines(goal: Json | None, values: Mapping[str, Sequence[LinePoint]], language: str) -> list[Line]:
    """Lines for a figure, to be drawn below its own: each limit of the goal over all levels, and
    the value at the answer.

    `values`: the metrics of the figure, by level. Limits of other metrics are left out.
    """
    drawn: list[Line] = []
    for limit in goal["limits"] if goal is not None else ():
        points = values.get(limit["metric"])
        if not points or goal is None:
            continue
        value = with_unit(limit["metric"], limit["value"], language)
        ends: list[LinePoint] = [(points[i][0], limit["value"], None, None) for i in (0, -1)]
        drawn.append(Line(say(language, "label.goal", {"value": value}), ends, charts.QUIET, (5, 3), "none"))
        at_answer = [point for point in points if point[0] == goal["answer"]]
        if at_answer:
            label = say(language, "label.goal.answer", {"answer": range_words(goal, language)})
            around = Line(label, at_answer, charts.QUIET, marker="diamond", hollow=True, marker_size=AROUND_PX2)
            drawn.append(around)
    return drawn


def _limits(goal: Mapping[str, Any], language: str) -> str:
    return goal_words([Limit(**limit) for limit in goal["limits"]], language)
