"""Rules of consistency for groups of VMs with roles: patterns, LUs, hosts, images. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.kinds.vms.load import VmGroup, VmsLoad
from hakaru.kinds.vms.seating import seats
from hakaru.lab.plan import LabPlan
from hakaru.study.model import ArraySpec
from hakaru.study.variables import Problem
from hakaru.suggest import did_you_mean
from hakaru.units import format_size

REPLACED = ("pattern", "vms", "queue_depth", "rate_per_s")
"""Fields of a load without groups."""
Columns = tuple[tuple[int, ...], ...]


def problems(load: VmsLoad, array: ArraySpec, lab: LabPlan) -> Iterator[Problem]:
    """Return the problems that do not depend on the numbers of VMs; none without groups."""
    if not load.groups:
        return
    if load.transport == "stream":
        yield ("load", "transport"), "plain streams have no groups of VMs", "use `transport: iscsi`"
    if all(group.role != "victim" for group in load.groups.values()):
        yield ("load", "groups"), "no group is a victim", "give the group whose service is judged `role: victim`"
    for name, group in load.groups.items():
        place = ("load", "groups", name)
        if group.pattern not in load.patterns:
            hint = did_you_mean(group.pattern, load.patterns)
            yield (*place, "pattern"), f"no pattern {group.pattern!r}", hint
        yield from _region_problems(load, array, group, (*place, "region"))
        for i, host in enumerate(group.hosts or []):
            if host not in lab.host_names:
                yield (*place, "hosts", i), f"no host {host!r}", did_you_mean(host, lab.host_names)
        for c, column in enumerate(group.columns or []):
            for i, lun in enumerate(column):
                if lun not in array.luns:
                    message, hint = f"the array has no LU {lun}", f"its LUs are {array.luns}"
                    yield (*place, "columns", c, i), message, hint
    yield from _overlaps(load)


def _region_problems(load: VmsLoad, array: ArraySpec, group: VmGroup, place: tuple[str, ...]) -> Iterator[Problem]:
    """Check the region of a group, if it has one of its own."""
    region, block = group.region, max(lu.block for lu in array.lus)
    if region is None:
        return
    if not 0 < region <= load.image:
        yield place, "must be larger than 0 and at most the image", "a region is a part of a VM's image"
    elif region % block:
        yield place, f"not a multiple of the block length {block}", ""
    pattern = load.patterns.get(group.pattern)
    if pattern is not None and any(entry.size > region for entry in pattern.sizes):
        yield place, f"smaller than a request of pattern {group.pattern!r}", "make it larger, or leave it out"


def point_problems(load: VmsLoad, array: ArraySpec) -> Iterator[Problem]:
    """Return the problems at one point; none without groups."""
    if not load.groups:
        return
    for field in REPLACED:
        if getattr(load, field) is not None:
            hint = f"leave `{field}` out: each group has its own pattern and number of VMs"
            yield ("load", field), "the load has groups", hint
    if not load.count:
        yield ("load", "groups"), "no group has a VM at this point", "give one of them `vms: 1` or more"
    for columns, count in _dealt(load).items():
        room = seats([[array.lu(lun).size // load.image for lun in column] for column in columns])
        if count > room:
            message = f"{count} VMs with images of {format_size(load.image)} do not fit; there is room for {room}"
            yield ("load", "groups"), message, "make the LUs larger or the images smaller"


def _overlaps(load: VmsLoad) -> Iterator[Problem]:
    """Check that no two groups with different columns share an LU, where their images would lie at
    the same places.
    """
    default = tuple(map(tuple, load.columns))
    owners: dict[int, Columns] = {}
    for name, group in load.groups.items():
        columns = default if group.columns is None else tuple(map(tuple, group.columns))
        luns = [lun for column in columns for lun in column]
        place = ("load", "groups", name) if group.columns is None else ("load", "groups", name, "columns")
        if len(set(luns)) < len(luns):
            yield place, "an LU is listed twice", "name each LU once"
        shared = [lun for lun in luns if owners.setdefault(lun, columns) != columns]
        if shared:
            message = f"LU {shared[0]} is also in other columns of another group"
            yield place, message, "give both groups the same columns, or LUs of their own"


def _dealt(load: VmsLoad) -> dict[Columns, int]:
    """Columns → number of VMs that are dealt to them."""
    counts: dict[Columns, int] = {}
    for member in load.members():
        counts[member.columns] = counts.get(member.columns, 0) + 1
    return counts
