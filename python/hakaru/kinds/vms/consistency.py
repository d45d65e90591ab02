"""Rules of consistency for VMs that load an array: images, regions, request sizes, space. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.kinds.vms import events, groups, hypervisor, kernel, multipath
from hakaru.kinds.vms.load import Closed, Open, VmsLoad, load_at
from hakaru.kinds.vms.seating import seats
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.study.consistency_points import measures_of
from hakaru.study.model import ArraySpec, Study, valid_quick_form
from hakaru.study.variables import Problem
from hakaru.suggest import did_you_mean
from hakaru.units import format_size


def problems(study: Study) -> Iterator[Problem]:
    """Return the problems that do not depend on the pattern and the number of VMs."""
    yield from _times(study)
    if len(study.storage) != 1:
        yield _arrays(study)
        return
    if study.lab.guests is not None:
        hint = "leave it out: the load distributes its VMs over the hosts"
        yield ("lab", "guests"), "guests run the jobs of a copy, not a load of VMs", hint
    load, (array,) = load_at(study), study.storage.values()
    if not array.lus:
        place = ("array", "lus") if study.array is not None else ("arrays", *study.storage, "lus")
        yield place, "the array has no disk, and VMs load disks", "add `lus: [{lun: 9, size: 1 GiB}]`"
        return
    for place, message, hint in load.iscsi.problems():
        yield ("load", "iscsi", *place), message, hint
    end = load.iscsi.initiator
    for place, message, hint in hypervisor.problems(
        load.hypervisor, sessions=end.sessions, commands=end.commands, command_max=end.command_max
    ):
        yield ("load", *place), message, hint
    yield from kernel.problems(study, load)
    yield from _places(load, array)
    yield from _quick_events(study)
    yield from groups.problems(load, array, plan_lab(study.lab))
    yield from _patterns(load, array)


def point_problems(study: Study) -> Iterator[Problem]:
    """Return the problems at one point."""
    general = [*problems(study)]
    yield from general
    if not general:
        (array,) = study.storage.values()
        steady = any(measure.steady is not None for _, measure in measures_of(study))
        yield from _point(load_at(study), array, steady=steady)
        yield from groups.point_problems(load_at(study), array)
        lab = plan_lab(study.lab)
        yield from _paths(load_at(study), lab)
        yield from _events(study, lab)


def _times(study: Study) -> Iterator[Problem]:
    for place, measure in measures_of(study):
        for field in ("warmup", "time"):
            if getattr(measure, field) is None:
                yield (*place, field), "missing", f"add `{field}:` here"


def _arrays(study: Study) -> Problem:
    if not study.storage:
        return ("array",), "missing: VMs load an array", "add `array:`"
    message = f"VMs load one array, and the lab has {len(study.storage)}: {', '.join(study.storage)}"
    return ("arrays",), message, "only copies (`load: {kind: copy}`) use several arrays; give the lab one array"


def _places(load: VmsLoad, array: ArraySpec) -> Iterator[Problem]:
    for c, column in enumerate(load.columns):
        for i, lun in enumerate(column):
            if lun not in array.luns:
                yield ("load", "columns", c, i), f"the array has no LU {lun}", f"its LUs are {array.luns}"
    if load.region is not None and not 0 < load.region <= load.image:
        yield ("load", "region"), "must be larger than 0 and at most the image", "a region is a part of a VM's image"
    luns = [lun for column in load.columns for lun in column]
    if len(set(luns)) < len(luns):
        yield ("load", "columns"), "an LU is listed twice", "VMs would write over each other; name each LU once"


def _patterns(load: VmsLoad, array: ArraySpec) -> Iterator[Problem]:
    block = max(lu.block for lu in array.lus)
    command_max = load.iscsi.initiator.command_max
    if command_max is not None and command_max % block:
        yield ("load", "iscsi", "initiator", "command_max"), f"not a multiple of the block length {block}", ""
    for field, size in (("image", load.image), ("region", load.region_bytes)):
        if size % block:
            yield ("load", field), f"not a multiple of the block length {block}", ""
    for name, pattern in load.patterns.items():
        for i, entry in enumerate(pattern.sizes):
            place = ("load", "patterns", name, "sizes", i, "size")
            if entry.size % block:
                yield place, f"not a multiple of the block length {block}", ""
            if entry.size > load.region_bytes:
                yield place, "larger than a VM's region", ""
        if pattern.align is not None and (pattern.align % block or not pattern.align):
            yield ("load", "patterns", name, "align"), f"not a multiple of the block length {block}", ""


def _point(load: VmsLoad, array: ArraySpec, *, steady: bool) -> Iterator[Problem]:
    """Check that the point has a pattern and a number of VMs, and that their images fit."""
    if load.groups:
        return
    for field, value in (("pattern", load.pattern), ("vms", load.vms)):
        if value is None:
            yield ("load", field), "missing", f"add `{field}:` to the block of factors, or here"
    if load.pattern is not None and load.pattern not in load.patterns:
        yield ("load", "pattern"), f"no pattern {load.pattern!r}", did_you_mean(load.pattern, load.patterns)
    elif load.pattern and load.transport == "stream" and load.patterns[load.pattern].read_percent:
        message = f"plain streams only write, and pattern {load.pattern!r} reads"
        yield ("load", "transport"), message, "choose a pattern with `read_percent: 0`"
    elif load.transport == "stream" and steady:
        yield ("measure", "steady"), "not available for plain streams", "leave it out"
    elif load.pattern and load.queue_depth and isinstance(load.patterns[load.pattern].load, Open):
        message = f"pattern {load.pattern!r} has an open load, which has no queue depth"
        yield ("load", "queue_depth"), message, "leave it out"
    elif load.pattern and load.rate_per_s and isinstance(load.patterns[load.pattern].load, Closed):
        message = f"pattern {load.pattern!r} has a closed load, which has no rate"
        yield ("load", "rate_per_s"), message, "leave it out, or give the pattern `load: {kind: open, …}`"
    room = seats([[array.lu(lun).size // load.image for lun in column] for column in load.columns])
    if load.count > room:
        message = f"{load.count} VMs with images of {format_size(load.image)} do not fit; there is room for {room}"
        yield ("load", "vms"), message, "make the LUs larger or the images smaller"


def _events(study: Study, lab: LabPlan) -> Iterator[Problem]:
    """Check the events of the point."""
    load, (array,) = load_at(study), study.storage.values()
    found = events.problems(
        load.events,
        paths_per_vm=load.paths_per_vm,
        measured_ns=study.measure.time_ns,
        lab=lab,
        port_groups=array.port_groups,
    )
    for place, message, hint in found:
        yield ("load", *place), message, hint


def _quick_events(study: Study) -> Iterator[Problem]:
    """Check that the events of the quick form are within its own measuring phase."""
    if study.quick is None or study.quick.measure is None:
        return
    has_own = "load.events" in study.quick.changes
    form = valid_quick_form(study) if has_own else study
    if form is None:
        return
    for place, message, hint in events.late(load_at(form).events, study.quick.measure.time_ns):
        yield ("quick", "changes", "load.events") if has_own else ("load", *place), message, hint


def _paths(load: VmsLoad, lab: LabPlan) -> Iterator[Problem]:
    """Check that the lab has the paths that the point uses, and that every host reaches one."""
    portals = lab.portals()
    if load.paths is not None and load.paths > len(portals):
        message = f"{load.paths} paths, and the lab has {len(portals)}"
        yield ("load", "paths"), message, "use fewer, or add paths to the lab"
        return
    for place, message, hint in multipath.problems(
        paths_per_vm=load.paths_per_vm,
        sessions=load.iscsi.initiator.sessions,
        shares_sessions=hypervisor.limits_of(load.hypervisor).host is not None,
        initiator=load.initiator,
        transport=load.transport,
        manager=load.multipath.manager,
    ):
        yield ("load", *place), message, hint
    used = {portal.rpartition(":")[0] for portal in load.used_portals(portals)}
    if load.transport == "stream" and len(used) > 1:
        message = f"plain streams use one path, and the VMs use {len(used)}"
        yield ("load", "transport"), message, "set `load.paths: 1` for these points and those that they stand beside"
    if load.transport == "stream" and hypervisor.limits_of(load.hypervisor).host is not None:
        hint = "leave out the hypervisor's limits"
        yield ("load", "transport"), "each VM has a plain stream, and the VMs of this hypervisor share sessions", hint
    for host in load.used_hosts(lab.host_names):
        reached = len(used & lab.reachable_addresses(host))
        if reached and (load.paths_per_vm or 1) > reached:
            message = f"{load.paths_per_vm} paths per VM, and {host} reaches {reached} of the paths that the VMs use"
            yield ("load", "paths_per_vm"), message, "use fewer, or add paths to the lab"
        if not reached:
            yield ("load", "paths"), f"{host} reaches none of the first {len(used)} paths", "use more paths"
