"""Checks of a study that concern several fields.

`problems` is pure and returns places, messages and hints. `load` calls it after validating the
shapes. Storage and lab are checked as written, and as they are at every point
(`consistency_points`); references and expectations against the points and each other
(`consistency_comparisons`); the goal against blocks and metrics (`consistency_goal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hakaru.engine.contract import ArrayModel, NoModel
from hakaru.lab.plan import ImpossibleLabError, LabPlan, check_adjustable, plan_lab
from hakaru.steadiness import PARTS
from hakaru.study import kind, port_groups
from hakaru.study.consistency_comparisons import comparison_problems
from hakaru.study.consistency_goal import goal_problems, range_problems
from hakaru.study.consistency_intervals import interval_problems
from hakaru.study.consistency_points import blocks_of, forms_of, measures_of, point_problems
from hakaru.study.model import POINTS_MAX, ArraySpec, Study
from hakaru.study.part import level_text
from hakaru.study.storage import Placement
from hakaru.study.variables import Problem, Sets, value_at
from hakaru.suggest import did_you_mean
from hakaru.units import format_duration, format_size


def problems(study: Study) -> list[Problem]:
    """All problems of a study, in the order of the checks."""
    of_study = [*_equipment(study), *_factors(study), *_variables(study), *range_problems(study)]
    of_study += [*interval_problems(study), *_steady(study)]
    of_study = of_study or [*kind.of(study).problems(study)]
    # The points of an inconsistent study would only repeat the same problems.
    if of_study:
        return of_study
    lab = plan_lab(study.lab)
    return [
        *point_problems(study, lambda changed: one_study(changed) or [*_adjustment(lab, changed)]),
        *comparison_problems(study),
        *goal_problems(study),
        *_calibrated(study),
    ]


def one_study(study: Study) -> list[Problem]:
    """Problems at one point: lab, storage, load."""
    return _equipment(study) or [*kind.of(study).point_problems(study)]


def _steady(study: Study) -> Iterator[Problem]:
    """Problems of a warm-up that lasts until the rate is steady."""
    for form, measure in measures_of(study):
        place = (*form, "steady")
        if measure.steady is None:
            continue
        if not kind.of(study).extends_warm_up:
            yield place, f"not available for a load of kind {study.kind}", "leave it out"
            return
        if measure.time is None:
            hint = "add `time`, or leave `steady` out"
            yield place, "extends the warm-up of a measurement whose time is given", hint
            continue
        shortest = PARTS * measure.intervals.hosts
        window, room = measure.steady.window_of(measure), measure.steady.within - measure.warmup_ns
        if room < shortest:
            message = f"leaves {format_duration(max(0, room))} after `warmup`"
            hint = f"a window has {PARTS} parts of at least one `sample_interval`: {format_duration(shortest)}"
            yield (*place, "within"), message, hint
        elif window < shortest:
            hint = f"a window has {PARTS} parts of at least one `sample_interval`: write {format_duration(shortest)}"
            yield (*place, "window"), f"{format_duration(window)} is too short to judge a rate", hint
        elif window > room:
            yield (*place, "window"), "ends after `within`", f"write at most {format_duration(room)}"


def _calibrated(study: Study) -> Iterator[Problem]:
    for i, parameter in enumerate(study.calibrated):
        if value_at(study.written, parameter.place) is None:
            message = f"the study has no value at {parameter.place}"
            yield ("calibrated", i, "place"), message, "name the place of a parameter that the study sets"


def _equipment(study: Study) -> list[Problem]:
    """Problems of lab and storage."""
    problems = [*_lab(study)]
    plan = None if problems else plan_lab(study.lab)
    written = study.arrays or ({"": study.array} if study.array else {})
    for name, array in written.items():
        place = ("arrays", name) if name else ("array",)
        problems += _lus(place, array)
        if plan is not None:
            found = port_groups.problems(array.port_groups, len(plan.portals(name or None)))
            problems += [((*place, "port_groups", *at), message, hint) for at, message, hint in found]
    return problems


def _adjustment(lab: LabPlan, changed: Study) -> Iterator[Problem]:
    """Problems of a point that would change the nodes or links of the lab. The lab is built once,
    so a point can change only their settings.
    """
    try:
        check_adjustable(lab, plan_lab(changed.lab))
    except ImpossibleLabError as e:
        yield ("lab", *e.path), e.message, e.hint


def _lab(study: Study) -> Iterator[Problem]:
    try:
        plan = plan_lab(study.lab)
    except ImpossibleLabError as e:
        yield ("lab", *e.path), e.message, e.hint
        return
    names = plan.array_names
    if study.array is not None and len(names) != 1:
        yield ("array",), f"the lab has {len(names)} arrays", f"write `arrays:` with {', '.join(names) or 'each'}"
    for name in study.arrays:
        if name not in names:
            yield ("arrays", name), f"the lab has no array {name!r}", did_you_mean(name, names)
    for name in names:
        if study.arrays and name not in study.arrays:
            yield ("arrays",), f"array {name!r} of the lab is missing", f"add `{name}:` here"


def _lus(place: tuple[str | int, ...], array: ArraySpec) -> Iterator[Problem]:
    for i, lu in enumerate(array.lus):
        if lu.size % lu.block:
            yield (*place, "lus", i, "size"), f"not a multiple of the block length {lu.block}", ""
    placed = [*_placed(array)]
    for part in placed:
        if part.placement is None and not isinstance(array.model, NoModel):
            yield (*place, *part.path), "placement is missing", part.hint
    yield from _overlaps(place, placed)
    model = array.model
    groups = len(model.groups) if isinstance(model, ArrayModel) else None
    for part in placed:
        if groups is not None and part.placement and part.placement.group >= groups:
            message = f"the model has {groups} groups, counted from 0"
            yield (*place, *part.path, "placement", "group"), message, ""


@dataclass(frozen=True)
class _Placed:
    """An LU, or a group of a pool, on the modelled drives. `hint`: remedy if it has no place."""

    path: tuple[str | int, ...]
    name: str
    size: int
    placement: Placement | None
    hint: str


def _placed(array: ArraySpec) -> Iterator[_Placed]:
    """LUs outside pools, and the groups of pools."""
    for i, lu in enumerate(array.lus):
        if lu.pool is None:
            hint = "name the RAID group of the LU: `placement: {group: 0}`"
            yield _Placed(("lus", i), f"LU {lu.lun}", lu.size, lu.placement, hint)
    for i, pool in enumerate(array.pools):
        for j, group in enumerate(pool.groups):
            hint = "name the RAID group of the model: `placement: {group: 0}`"
            yield _Placed(("pools", i, "groups", j), f"pool {pool.name}", group.size, group.placement, hint)


def _overlaps(place: tuple[str | int, ...], placed: Sequence[_Placed]) -> Iterator[Problem]:
    """Problems of two LUs or pools on the same bytes of a RAID group, which the model would treat
    as one place.
    """
    ends: dict[int, tuple[int, str]] = {}
    ordered = [(part.placement.group, part.placement.offset, i) for i, part in enumerate(placed) if part.placement]
    for group, offset, i in sorted(ordered):
        end, name = ends.get(group, (0, ""))
        if offset < end:
            message = f"overlaps with {name} on group {group}"
            yield (*place, *placed[i].path, "placement"), message, f"place it from {format_size(end)} on"
        ends[group] = max(ends.get(group, (0, "")), (offset + placed[i].size, placed[i].name))


def _variables(study: Study) -> Iterator[Problem]:
    kind_factors = kind.of(study).factors
    used = {name for _, block in blocks_of(study) for name in block.levels()}
    for name in study.variables:
        if name in kind_factors:
            message = f"{name!r} is a factor of every study of kind {study.kind}"
            yield ("variables", name), message, "choose another name"
        elif name not in used:
            yield ("variables", name), "never used: no block of `factors` varies it", "use it, or leave it out"


def _factors(study: Study) -> Iterator[Problem]:
    kind_factors = kind.of(study).factors
    for place, block in blocks_of(study):
        for name, levels in block.levels().items():
            if name in kind_factors:
                continue
            if name not in study.variables:
                others = f": neither {', '.join(kind_factors)} nor" if kind_factors else ": not"
                yield (
                    (*place, name),
                    f"no factor {name!r}{others} one of the study's variables",
                    did_you_mean(name, [*kind_factors, *study.variables]),
                )
                continue
            variable = study.variables[name]
            if isinstance(variable, Sets) or name in block.ranges:
                continue
            for i, level in enumerate(levels):
                if level_text(level) not in variable:
                    message = f"variable {name} has no level {level_text(level)!r}"
                    yield (*place, name, i), message, did_you_mean(level_text(level), variable)
    yield from _repeated(study)


def _repeated(study: Study) -> Iterator[Problem]:
    for place, blocks in forms_of(study):
        seen: set[tuple[tuple[str, str], ...]] = set()
        count = 0
        for i, block in enumerate(blocks):
            count += block.size
            if count > POINTS_MAX:
                yield (*place, i), f"more than {POINTS_MAX} points", "leave out levels"
                break
            for point in block.points():
                levels = tuple(sorted((k, level_text(v)) for k, v in point.items()))
                if levels in seen:
                    shown = ", ".join(f"{k} {v}" for k, v in point.items())
                    yield (*place, i), f"the point {shown} is given twice", "leave one out"
                    return
                seen.add(levels)
