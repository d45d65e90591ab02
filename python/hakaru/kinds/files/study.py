"""The model of a study of files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hakaru.kinds.files import chain, events, seats
from hakaru.kinds.files.load import FilesLoad, approximate_bytes, load_at
from hakaru.kinds.files.names import metrics_of
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study, valid_quick_form
from hakaru.study.variables import Problem, Sets


class FilesStudy(StudyKind):
    """The part of the kind `files` that studies use."""

    load = FilesLoad
    extends_warm_up = True

    @property
    def factors(self) -> Mapping[str, str]:
        """The numbers of tools, servers and clients, how sessions with file servers work, cold
        caches, and the layers of a chain.
        """
        sessions = ("signing", "encryption", "compound", "folder_cache", "credits", "dialect")
        smb = {name: f"load.to.smb.{name}" for name in sessions}
        layers = {name: f"load.to.chain.{place}" for name, place in chain.FACTORS.items()}
        own = {name: f"load.{name}" for name in ("tools", "servers", "clients", "cold")}
        return own | smb | layers

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return metrics_of(load_at(study)).keys()

    def problems(self, study: Study) -> Iterator[Problem]:
        """Hosts without tools, caches and guests that the load cannot use."""
        load = load_at(study)
        lab = plan_lab(study.lab)
        if load.to.chain is not None:
            yield from _chain_problems(study, load, load.to.chain)
        elif load.to.smb is None and len(lab.loading_names) > 1:
            yield ("lab", "hosts"), "a directory belongs to one host", "use one host; more tools give more load"
        if load.to.smb is not None and study.lab.device is not None:
            yield ("lab", "device"), "a lab with a device has no node for a file server", "use hosts and an array"
        elif load.to.smb is not None and load.servers == load.clients == 1 and not _varies_seats(study):
            yield from _unused(load, lab)
        if study.measure.verify:
            yield ("measure", "verify"), "blocks of files have no stamps", "use `load.verify`"
        yield from _late_in_quick_form(study)

    def point_problems(self, study: Study) -> Iterator[Problem]:
        """The same, servers and clients that the lab lacks, and tools without a tree."""
        yield from self.problems(study)
        load = load_at(study)
        if study.lab.device is None:
            yield from seats.problems(load, plan_lab(study.lab))
        if load.users is not None and study.measure.time is None:
            yield ("measure", "time"), "users never run out of files", "set it, such as `time: 60 s`"
        if load.repeat and study.measure.time is None:
            yield ("measure", "time"), "a load that repeats its trees never ends", "set it, such as `time: 60 s`"
        if load.tools > load.tree.trees:
            message = f"{load.tools} tools for {load.tree.trees} trees"
            yield ("load", "tools"), message, "use at most one tool per tree, or more `load.tree.trees`"
        for found in (events.problems(load.events, load.to.chain), events.late(load.events, study.measure.time)):
            for place, message, hint in found:
                yield ("load", *place), message, hint
        if load.to.directory is not None and study.lab.load_guest is not None:
            message = "tools in a guest do not reach a directory of this machine"
            yield ("lab", "load_guest"), message, "leave it out, or write `smb` or `chain` instead of `directory`"


def _late_in_quick_form(study: Study) -> Iterator[Problem]:
    """Events after the measuring phase of the quick form, which may have events of its own."""
    if study.quick is None or study.quick.measure is None:
        return
    has_own = "load.events" in study.quick.changes
    form = valid_quick_form(study) if has_own else study
    if form is None:
        return
    for place, message, hint in events.late(load_at(form).events, study.quick.measure.time):
        yield ("quick", "changes", "load.events") if has_own else ("load", *place), message, hint


def _varies_seats(study: Study) -> bool:
    """Whether points differ in the number of servers or clients, so that some leave hosts idle."""
    blocks = [*study.factors, *((study.quick.factors if study.quick else None) or [])]
    places: set[str] = set()
    for variable in study.variables.values():
        places.update(*([variable.sets] if isinstance(variable, Sets) else variable.values()))
    if places & {"load.servers", "load.clients"}:
        return True
    return any({"servers", "clients"} & block.levels().keys() for block in blocks)


def _unused(load: FilesLoad, lab: LabPlan) -> Iterator[Problem]:
    """Hosts and arrays of the lab that one client and one file server leave idle."""
    if (count := seats.unused_hosts(load, lab)) > 0:
        message = f"the file server has one client; hosts of the lab without tools: {count}"
        yield ("lab", "hosts"), message, "use fewer hosts, or set `load.clients` or `load.servers`"
    if load.to.chain is None and (arrays := len(lab.array_names)) > 1:
        message = f"one file server in a lab of {arrays} arrays, whose nodes file servers run in"
        yield ("lab", "arrays"), message, "list one array, or set `load.servers`"


def _chain_problems(study: Study, load: FilesLoad, chained: chain.ChainPart) -> Iterator[Problem]:
    """Problems of a chain in this lab, and settings of the load that it cannot follow."""
    hosts = study.lab.hosts if isinstance(study.lab.hosts, int) else len(study.lab.hosts)
    if load.to.smb is None and hosts > 2 and not _varies_seats(study):
        message = "the lab has hosts that neither the file server nor the tools use"
        yield ("lab", "hosts"), message, "use one host, or two: that of the tools, and that of the file server"
    if load.to.smb is not None and hosts < 2:
        message = "tools outside the guest need a host of their own"
        yield ("lab", "hosts"), message, "use two hosts: first that of the tools, then that of the file server"
    if study.lab.arrays is not None and (count := len(study.lab.arrays)) > load.servers and not _varies_seats(study):
        message = (
            f"the lab has {count} arrays, and the disk of each file server is on one; file servers: {load.servers}"
        )
        yield ("lab", "arrays"), message, "list one array for each file server"
    if load.keep:
        yield ("load", "keep"), "the disk is new in each repetition", "leave out `keep`"
    yield from chain.problems(study, chained, approximate_bytes(load))


STUDY = FilesStudy()
