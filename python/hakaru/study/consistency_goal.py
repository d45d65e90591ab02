"""Checks of the goal and the precision of a study: blocks, metrics, repetitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from hakaru.study import goal as goals
from hakaru.study import kind
from hakaru.study.consistency_points import blocks_of
from hakaru.study.factors import Factors
from hakaru.study.model import Measure, Study
from hakaru.study.part import Level, level_text
from hakaru.study.variables import Change, Problem, Sets
from hakaru.suggest import did_you_mean

NO_NUMBER = ("string_type", "bool_type", "literal_error", "model_type", "dict_type", "list_type")
"""Errors of pydantic at places that take no number."""


def range_problems(study: Study) -> Iterator[Problem]:
    """Problems of ranges, which must be found before points are made."""
    yield from _repetitions(study)
    for place, block in blocks_of(study):
        ranges = block.ranges
        if study.goal is None and ranges:
            message = "a range of levels is searched, and the study has no goal"
            yield (*place, ranges[0]), message, "add `goal: {METRIC: LIMIT}`, or list the levels: `[1, 2, 4, 8]`"
        elif study.goal is not None and len(ranges) > 1:
            message = f"a search has one range, and here are {len(ranges)}: {', '.join(ranges)}"
            yield (*place, ranges[1]), message, "list the levels of the others; each combination gets its own search"
        elif study.goal is not None and not ranges:
            yield place, "the study has a goal, and no factor here has a range to search", _instead(block)
        for name in ranges:
            yield from _order(study, (*place, name), name, block.levels()[name])


def goal_problems(study: Study) -> Iterator[Problem]:
    """Problems of the limits of the goal."""
    if study.goal is None:
        return
    of_kind = kind.of(study)
    if not of_kind.can_search(study):
        hint = "leave it out, and list the levels"
        yield ("goal",), f"studies of kind {study.kind!r} cannot search the level that meets a goal", hint
        return
    metrics = {name: of_kind.better(study, name) for name in of_kind.metrics(study)}
    for metric, message, hint in goals.problems(study.goal, metrics):
        yield ("goal", metric), message, hint


def _repetitions(study: Study) -> Iterator[Problem]:
    measures: list[tuple[tuple[str, ...], Measure]] = [(("measure",), study.measure)]
    if study.quick and study.quick.measure:
        measures.append((("quick", "measure"), study.quick.measure))
    for place, measure in measures:
        field = (*place, "repetitions_max")
        if measure.precision is not None:
            yield from _precision(study, (*place, "precision"), measure)
        if measure.repetitions_max is None:
            continue
        if measure.repetitions_max < measure.repetitions:
            yield (
                field,
                f"fewer than `repetitions`, {measure.repetitions}",
                "it limits what a goal or a precision adds to them",
            )
        elif study.goal is None and measure.precision is None:
            message = "nothing adds repetitions: the study has neither a goal nor a precision"
            yield field, message, "leave it out, or add `precision: 3 %` here"


def _precision(study: Study, place: tuple[str, ...], measure: Measure) -> Iterator[Problem]:
    """Check the requested precision: its metrics, and the limit of repetitions that it needs."""
    if study.goal is not None:
        hint = "leave it out: a goal repeats levels until they are decided"
        yield place, "a study has either a goal or a precision", hint
        return
    if measure.repetitions_max is None:
        hint = f"add `repetitions_max: {max(10, 2 * measure.repetitions)}` beside it"
        yield place, "needs a limit of the repetitions", hint
    metrics = kind.of(study).metrics(study)
    for metric, percent in measure.precisions("").items():
        if metric and metric not in metrics:
            yield (*place, metric), f"no metric {metric!r}", did_you_mean(metric, metrics)
        elif not 0 < percent < 100:
            yield place, f"should be more than 0 % and less than 100 %; got {percent:g} %", ""


def _instead(block: Factors) -> str:
    """A hint for a block that lists the levels: a range instead of the first numeric list."""
    for name, levels in block.levels().items():
        numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
        if len(numbers) == len(levels) > 1:
            return f"write `{name}: {{from: {min(numbers):g}, to: {max(numbers):g}}}` instead of its list"
    return "add a range, such as `vms: {from: 1, to: 32}`, or leave out `goal`"


def _order(study: Study, place: tuple[str | int, ...], name: str, levels: list[Level]) -> Iterator[Problem]:
    """Check that the levels of a factor are numbers, which have an order."""
    variable = study.varied.get(name)
    if variable is None:
        return  # reported as an unknown factor
    if not isinstance(variable, Sets):
        yield place, f"the levels of {name} are names, which have no order to search", f"list them: {name}: […]"
        return
    for target in variable.sets:
        try:
            study.changed([Change(target, levels[0], name, levels[0])])
        except ValidationError as e:
            errors = [error for error in e.errors() if error["input"] == levels[0]]
            if errors and all(error["type"] in NO_NUMBER for error in errors):
                message = f"{target} takes no number such as {level_text(levels[0])}, so {name} has no order to search"
                yield place, message, f"list the levels: `{name}: […]`"
                return
        except ValueError:
            return  # reported at the points
