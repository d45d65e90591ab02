"""Rules of consistency for the initiators that caps and classes with a share name. Pure.

A name is checked against the VMs of all points and not of its own only: a study that varies the
number of VMs has one list of caps for the largest one, and the caps of the others do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from hakaru.kinds.vms.configure import initiator_name
from hakaru.kinds.vms.load import load_at
from hakaru.lab.plan import ImpossibleLabError, plan_lab
from hakaru.study.consistency_points import blocks_of, located
from hakaru.study.document import Path_, dotted
from hakaru.study.model import ArraySpec, Study, quick_form
from hakaru.study.part import level_text
from hakaru.study.variables import Change, PlaceError, Problem, changes_of
from hakaru.suggest import did_you_mean


@dataclass(frozen=True)
class _Point:
    form: Study
    block: Path_
    where: str
    changes: list[Change]
    study: Study
    names: frozenset[str]
    """Initiators of its VMs."""


def problems(study: Study) -> Iterator[Problem]:
    """Names of initiators that no point has. None without groups of VMs, and none if a point has a
    problem of its own, which is reported instead.
    """
    if "initiator_name" not in f"{study.written} {study.quick}":
        return
    try:
        points = [*_points(study)]
    except (ValidationError, PlaceError, ImpossibleLabError, KeyError):
        return
    known = frozenset[str]().union(*(point.names for point in points))
    found: dict[tuple[Path_, str], Problem] = {}
    for point in (p for p in points if load_at(p.study).groups):
        for array in point.study.storage.values():
            for place, name in _named(array):
                if name not in known:
                    problem = _problem(point, place, f"no initiator {name!r}", did_you_mean(name, sorted(known)))
                    found.setdefault(problem[:2], problem)
    yield from found.values()


def _problem(point: _Point, place: Path_, message: str, hint: str) -> Problem:
    """The problem where its value is written: in the level that changes it, or at the place."""
    if all(change.path[0] != place[0] for change in point.changes):
        return place, message, hint
    full = f"{dotted(place)}: {message}"
    return located(point.form, point.changes, place, point.block, point.where, full, hint)


def _points(study: Study) -> Iterator[_Point]:
    """Every point of the full and the quick form. Raises for a point with a problem."""
    quick = quick_form(study)
    for block, factors in blocks_of(study):
        for form in [quick] if block[0] == "quick" else [study] if quick is study else [study, quick]:
            for levels in factors.points():
                changes = changes_of(study.varied, levels)
                changed = form.changed(changes)
                shown = ", ".join(f"{name} {level_text(level)}" for name, level in levels.items())
                yield _Point(form, block, f"at {shown}", changes, changed, _names(changed))


def _names(study: Study) -> frozenset[str]:
    load = load_at(study)
    if not load.groups:
        return frozenset()
    hosts = plan_lab(study.lab).host_names
    return frozenset(initiator_name(load, member, member.host(hosts)) for member in load.members())


def _named(array: ArraySpec) -> Iterator[tuple[Path_, str]]:
    """Place and name of every initiator that a cap or a class with a share names."""
    for i, cap in enumerate(array.caps):
        if cap.initiator_name is not None:
            yield ("array", "caps", i, "initiator_name"), cap.initiator_name
    for i, each in enumerate(array.shares.classes if array.shares else ()):
        if each.initiator_name is not None:
            yield ("array", "shares", "classes", i, "initiator_name"), each.initiator_name
