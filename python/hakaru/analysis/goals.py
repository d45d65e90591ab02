"""The answers of the searches for a goal: the last level that meets it, as a range.

The levels are judged as during the run, by the same numbers, so the report and the search agree.

answer   the highest (or lowest) level whose means meet the goal
low      the last level towards the easy end of the range that surely meets it
high     the last level towards the hard end that does not surely miss it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hakaru.analysis import kind, sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import RunData
from hakaru.caveats import Caveat
from hakaru.search import LevelRange, Verdict
from hakaru.study.goal import GoalSearch, Limit
from hakaru.units import unit_in
from hakaru.wording import LANGUAGES, MISSING, number, say

TESTER_CAVEATS = ("generator_saturated", "issued_too_late")
"""Caveats of points at which the load generator was at its limit."""


@dataclass(frozen=True)
class Answer:
    """The answer of one search."""

    over: str
    where: Mapping[str, Any]
    goal: GoalSearch
    levels: Sequence[float]
    """All levels of the search, the easiest first."""
    points: Mapping[int, Point]
    """The measured ones, by their steps."""
    found: LevelRange
    caveats: list[Caveat] = field(default_factory=list)

    def level(self, step: int | None) -> float | None:
        """The level of a step."""
        return None if step is None else self.levels[step]

    @property
    def point(self) -> Point | None:
        """The point of the answer."""
        return None if self.found.answer is None else self.points[self.found.answer]

    def to_json(self) -> dict[str, Any]:
        """One element of `goals` of the report."""
        found = self.found
        return {
            "over": self.over,
            "where": dict(self.where),
            "find": self.goal.find,
            "limits": [vars(limit) for limit in self.goal.limits],
            "confidence": self.goal.confidence,
            "verdict": found.verdict.value.replace(" ", "_"),
            "answer": self.level(found.answer),
            "low": self.level(found.low),
            "high": self.level(found.high),
            "missing": self.level(found.missing),
            "point": self.point.id if self.point else None,
            "points": [self.points[step].id for step in sorted(self.points)],
            "levels": list(self.levels),
            "repetitions": sum(_repetitions(point) for point in self.points.values()),
            "repetitions_most": self.goal.over(len(self.levels)).repetitions_most,
        }


def _repetitions(point: Point) -> int:
    return max((estimate.n for estimate in point.metrics.values()), default=0)


def answers_of(run: RunData, analysed: Sequence[Point]) -> list[Answer]:
    """The answers of all searches of a run, in the order of the study; empty without a goal."""
    goal = run.study.goal
    if goal is None:
        return []
    measure, analysis = run.study.measure, kind.of(run)
    search = goal.search({m: analysis.better(m) for m in goal.written}, measure.repetitions, measure.most)
    by_id = {point.id: point for point in analysed}
    answers = []
    for described in run.searches:
        steps = search.steps(described.points)
        points = {step: by_id[point["point"]] for step, point in enumerate(steps) if point["point"] in by_id}
        judged = {
            step: search.judge(point.metrics if point.valid else {}, len(run.records(point.id)))
            for step, point in points.items()
        }
        levels = [float(point["factors"][described.over]) for point in steps]
        where = {name: level for name, level in steps[0]["factors"].items() if name != described.over}
        found = search.over(len(steps)).outcome(judged)
        answers.append(Answer(described.over, where, search, levels, points, found, _caveats(search, found, levels)))
    return answers


def _caveats(search: GoalSearch, found: LevelRange, levels: Sequence[float]) -> list[Caveat]:
    caveats = []
    if found.contradiction is not None:
        missed, met = (levels[step] for step in found.contradiction)
        caveats.append(Caveat("goal_not_monotone", {"missed": missed, "met": met}))
    if found.verdict is Verdict.UNFINISHED:
        caveats.append(
            Caveat("goal_unfinished", {"levels": replace(search, budget=None).over(len(levels)).levels_most})
        )
    if found.verdict is Verdict.TESTER_LIMIT and found.missing is not None:
        caveats.append(Caveat("goal_tester_limit", {"level": levels[found.missing]}))
    return caveats


def findings_of(answers: Sequence[Answer]) -> list[Finding]:
    """A finding for each search."""
    findings = []
    for answer in answers:
        texts = {
            language: sentences.in_series(language, answer.where, _text(answer, language), len(answers) > 1)
            for language in LANGUAGES
        }
        evidence = {name: value for name, value in answer.to_json().items() if name != "levels"}
        findings.append(Finding("goal", dict(answer.where), texts, None, evidence))
    return findings


def _text(answer: Answer, language: str) -> str:
    """The answer in sentences: the level with its range, the values on both sides of it, and the
    reasons for the range.
    """
    found, find = answer.found, answer.goal.find
    if not answer.points:
        return say(language, "finding.goal.nothing", {"goal": goal_words(answer.goal.limits, language)})
    message = f"finding.goal.{find}"
    unjudged = found.missing if found.verdict is Verdict.TESTER_LIMIT else None
    if found.answer is None:
        message = "finding.goal.none" if found.verdict is Verdict.BELOW_RANGE else "finding.goal.nothing"
    elif found.verdict is Verdict.AT_LEAST:
        message = f"finding.goal.all.{find}"
    values = {
        "goal": goal_words(answer.goal.limits, language),
        "answer": range_words(answer.to_json(), language),
        "easiest": _level(answer, 0, language),
        "hardest": _level(answer, -1, language),
    }
    parts = [say(language, message, values)]
    parts += [_values(answer, step, language) for step in (found.answer, found.missing) if step not in (None, unjudged)]
    parts += [] if unjudged is not None else _which(answer, language)
    if answer.goal.most == 1:
        parts.append(say(language, "finding.goal.once"))
    else:
        parts += _reasons(answer, language)
    if unjudged is not None:
        parts.append(_unjudged(answer, unjudged, language))
    if found.missing is not None and _is_tester_busy(answer.points[found.missing]):
        parts.append(say(language, "finding.goal.tester", {"level": _level(answer, found.missing, language)}))
    if found.verdict is Verdict.UNFINISHED:
        parts.append(say(language, "finding.goal.unfinished"))
    return sentences.sentences(language, *parts)


def _which(answer: Answer, language: str) -> Iterator[str]:
    """A sentence on the limits missed first beyond the answer, if there are several limits."""
    step, limits = answer.found.missing, answer.goal.limits
    if step is None or len(limits) < 2:
        return
    means = {limit: answer.points[step].metrics.get(limit.metric) for limit in limits}
    missed = [limit for limit, each in means.items() if each and each.mean is not None and not limit.holds(each.mean)]
    if missed:
        values = {"level": _level(answer, step, language), "limits": goal_words(missed, language)}
        yield say(language, "finding.goal.which", values)


def _unjudged(answer: Answer, step: int, language: str) -> str:
    """A sentence on why the points of a level cannot be judged."""
    point = answer.points[step]
    invalid = [sentences.caveat(language, each) for each in point.caveats if each.severity == "invalid"]
    lacking = [limit.metric for limit in answer.goal.limits if point.mean(limit.metric) is None]
    names = say(language, "list.separator").join(sentences.metric(language, metric) for metric in lacking)
    reason = invalid[0] if invalid else say(language, "finding.goal.lacking", {"metric": names})
    return say(language, "finding.goal.unjudged", {"level": _level(answer, step, language), "reason": reason})


def _is_tester_busy(point: Point) -> bool:
    return any(caveat.name in TESTER_CAVEATS for caveat in point.caveats)


def _reasons(answer: Answer, language: str) -> Iterator[str]:
    """Sentences about the ends of the range, where they are not next to the answer."""
    found, find = answer.found, answer.goal.find
    if found.answer is not None and found.low != found.answer:
        message = "finding.goal.sure.none" if found.low is None else f"finding.goal.sure.{find}"
        yield say(language, message, {"level": _level(answer, found.low or 0, language)})
    if found.missing is not None and found.sure_miss != found.missing:
        message = "finding.goal.missed.none" if found.sure_miss is None else f"finding.goal.missed.{find}"
        yield say(language, message, {"level": _level(answer, found.sure_miss or 0, language)})


def _level(answer: Answer, step: int, language: str) -> str:
    return sentences.level(language, answer.over, answer.levels[step])


def _values(answer: Answer, step: int, language: str) -> str:
    """The values of the goal's metrics at a level, with their intervals."""
    level, metrics = _level(answer, step, language), answer.points[step].metrics
    known = [(limit.metric, metrics[limit.metric]) for limit in answer.goal.limits if limit.metric in metrics]
    texts = [_value(metric, estimate, language) for metric, estimate in known if estimate.mean is not None]
    if not texts:
        return say(language, "finding.goal.no_value", {"level": level})
    values = say(language, "list.separator").join(texts)
    return say(language, "finding.goal.values", {"level": level, "values": values})


def _value(metric: str, estimate: Estimate, language: str) -> str:
    values = {
        "metric": sentences.metric(language, metric),
        "mean": with_unit(metric, estimate.mean, language),
        "n": estimate.n,
    }
    if estimate.low is None or estimate.high is None:
        return say(language, "finding.goal.value.single", values)
    ends = {"low": number(estimate.low, language), "high": with_unit(metric, estimate.high, language)}
    return say(language, "finding.goal.value", values | ends)


def with_unit(metric: str, value: float | None, language: str) -> str:
    """A value with the unit of its metric: `18.2 ms`."""
    return f"{number(value, language)}{sentences.unit(unit_in(metric))}"


def goal_words(limits: Iterable[Limit], language: str) -> str:
    """The limits in words: `99th percentile response time at most 20 ms`."""
    texts = []
    for limit in limits:
        values = {
            "metric": sentences.metric(language, limit.metric),
            "value": with_unit(limit.metric, limit.value, language),
        }
        texts.append(say(language, f"goal.limit.{limit.side}", values))
    return say(language, "list.separator").join(texts)


def range_words(goal: Mapping[str, Any], language: str) -> str:
    """The answer of an element of `goals` with its range: `7 VMs (6 to 8)`. `–` without one."""
    if goal["answer"] is None:
        return MISSING
    answer = sentences.level(language, goal["over"], goal["answer"])
    rising = goal["find"] == "highest"
    low, high = (goal["low"], goal["high"]) if rising else (goal["high"], goal["low"])
    values = {"answer": answer, "low": low, "high": high}
    if goal["verdict"] == "at_least":
        # Nothing beyond the end of the search was measured.
        values |= {"high": goal["answer"]} if rising else {"low": goal["answer"]}
    low, high = values["low"], values["high"]
    if low == high == goal["answer"]:
        return answer
    if low is None and high is None:
        return say(language, "goal.range.unknown", values)
    if low is None or high is None:
        return say(language, f"goal.range.{'fewer' if low is None else 'more'}", values)
    return say(language, "levels.range", values)
