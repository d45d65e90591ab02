"""Checks of every point of a study, as a study with the changes of the point's levels. Pure.

A problem is reported at its cause: at the change of the variable's level, or, for a variable that
sets places, at the level in the block of factors; else at the block, with the point named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from hakaru.study.document import Path_, dotted
from hakaru.study.explain import explain
from hakaru.study.factors import Factors
from hakaru.study.model import Measure, Study, quick_form
from hakaru.study.part import level_text
from hakaru.study.variables import Change, PlaceError, Problem, Sets, changes_of

OneStudy = Callable[[Study], list[Problem]]


def forms_of(study: Study) -> Iterator[tuple[Path_, list[Factors]]]:
    """Blocks of the full form and, if it has its own, of the quick form, each with the place of the
    list.
    """
    yield ("factors",), study.factors
    if study.quick and study.quick.factors:
        yield ("quick", "factors"), study.quick.factors


def measures_of(study: Study) -> Iterator[tuple[Path_, Measure]]:
    """`measure` of the full form and, if it has its own, of the quick form, each with its place."""
    yield ("measure",), study.measure
    if study.quick and study.quick.measure:
        yield ("quick", "measure"), study.quick.measure


def blocks_of(study: Study) -> Iterator[tuple[Path_, Factors]]:
    """Every block with its place."""
    for place, blocks in forms_of(study):
        for i, block in enumerate(blocks):
            yield (*place, i), block


def point_problems(study: Study, one_study: OneStudy) -> Iterator[Problem]:
    """The first problem of each point."""
    base = study
    if study.quick and study.quick.changes:
        changes = [Change(place, value) for place, value in study.quick.changes.items()]
        problem = _problem(study, changes, one_study, ("quick",), "in the quick form")
        if problem:
            yield problem
            return
        base = quick_form(study)
    seen: set[str] = set()
    for place, block in blocks_of(study):
        # The quick form runs the same blocks with its changes, unless it has blocks of its own.
        for form in {id(s): s for s in (study, base) if place[0] != "quick" or s is base}.values():
            for factors in block.points():
                changes = changes_of(study.varied, factors)
                key = f"{id(form)} {sorted((c.place, repr(c.value)) for c in changes)}"
                if key in seen:
                    continue
                seen.add(key)
                shown = ", ".join(f"{name} {level_text(level)}" for name, level in factors.items())
                problem = _clash(changes, place, factors) or _problem(form, changes, one_study, place, f"at {shown}")
                if problem:
                    yield problem


def _clash(changes: list[Change], place: Path_, factors: dict[str, Any]) -> Problem | None:
    """Problem of two variables of a point that change the same place, so that the value would
    depend on their order.
    """
    for i, change in enumerate(changes):
        for other in changes[:i]:
            shorter = min(len(change.path), len(other.path))
            if change.variable != other.variable and change.path[:shorter] == other.path[:shorter]:
                message = f"{other.variable} and {change.variable} both change {change.place}"
                return place, message, "vary them in separate blocks"
    return None


def _problem(study: Study, changes: list[Change], one_study: OneStudy, block: Path_, where: str) -> Problem | None:
    """The first problem of the study with these changes."""
    try:
        written = study.with_changes(changes)
    except PlaceError as e:
        return _place_of(study, e.change, block), f"{e.change.place}: {e.message}", e.hint
    try:
        problems = one_study(Study.model_validate(written))
    except ValidationError as e:
        first = next(explain(written, Study, e))
        return located(study, changes, first.path, block, where, first.message, first.hint)
    if not problems:
        return None
    path, message, hint = problems[0]
    return located(study, changes, path, block, where, f"{dotted(path)}: {message}", hint)


def located(
    study: Study, changes: list[Change], path: Path_, block: Path_, where: str, message: str, hint: str
) -> Problem:
    """A problem of the point that `changes` lead to, at the change that concerns `path`; at the
    nearest one of several. `block` is the place of the point's block of factors.
    """
    parts = tuple(str(part) for part in path)
    related = [c for c in changes if c.path[: len(parts)] == parts or parts[: len(c.path)] == c.path]
    nearest = max(related, key=lambda c: len(c.path), default=None)
    # If the error concerns a part that encloses several changes (the entire lab), any of them may
    # be the cause.
    is_cause = nearest is not None and (len(related) == 1 or len(nearest.path) <= len(parts))
    if nearest is not None and is_cause:
        return _place_of(study, nearest, block), message, hint
    return block, f"{where}: {message}", hint


def _place_of(study: Study, change: Change, block: Path_) -> Path_:
    """The place where a change is written."""
    if not change.variable:
        return ("quick", "changes", change.place)
    if isinstance(study.varied[change.variable], Sets):
        blocks = study.factors if block[0] == "factors" else (study.quick and study.quick.factors) or []
        levels = blocks[int(block[-1])].levels()[change.variable] if blocks else []
        return (*block, change.variable, levels.index(change.level)) if change.level in levels else block
    return ("variables", change.variable, level_text(change.level), change.place)
