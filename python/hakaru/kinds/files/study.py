"""The model of a study of files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hakaru.kinds.files import chain
from hakaru.kinds.files.load import FilesLoad, approximate_bytes, load_at
from hakaru.kinds.files.names import metrics_of
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study
from hakaru.study.variables import Problem


class FilesStudy(StudyKind):
    """The part of the kind `files` that studies use."""

    load = FilesLoad

    @property
    def factors(self) -> Mapping[str, str]:
        """The number of tools, how sessions with file servers work, and the layers of a chain."""
        smb = {name: f"load.to.smb.{name}" for name in ("signing", "compound", "credits", "dialect")}
        layers = {name: f"load.to.chain.{place}" for name, place in chain.FACTORS.items()}
        return {"tools": "load.tools"} | smb | layers

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return metrics_of(load_at(study)).keys()

    def problems(self, study: Study) -> Iterator[Problem]:
        """Hosts that share a directory, caches and guests that the load cannot use."""
        load = load_at(study)
        hosts = study.lab.hosts if isinstance(study.lab.hosts, int) else len(study.lab.hosts)
        if load.to.chain is not None:
            yield from _chain_problems(study, load, load.to.chain, hosts)
        elif hosts > 1:
            # Hosts that build their trees end at different times, and would not measure together.
            place = "a directory" if load.to.smb is None else "a share"
            hint = "use one host; more tools give more load"
            yield ("lab", "hosts"), f"{place} belongs to one host", hint
        if load.to.smb is not None and study.lab.arrays is not None and len(study.lab.arrays) > 1:
            yield ("lab", "arrays"), "the load uses one file server", "list one array, in whose node it runs"
        if load.to.smb is not None and load.to.chain is None and load.cold:
            hint = "leave out `cold`: files are in the cache of the server"
            yield ("load", "cold"), "only this machine's own page cache can be dropped", hint
        if load.to.smb is not None and study.lab.device is not None:
            yield ("lab", "device"), "a lab with a device has no node for a file server", "use hosts and an array"
        if study.measure.verify:
            yield ("measure", "verify"), "blocks of files have no stamps", "use `load.verify`"

    def point_problems(self, study: Study) -> Iterator[Problem]:
        """The same, and tools without a tree."""
        yield from self.problems(study)
        load = load_at(study)
        if load.tools > load.tree.trees:
            message = f"{load.tools} tools for {load.tree.trees} trees"
            yield ("load", "tools"), message, "use at most one tool per tree, or more `load.tree.trees`"


def _chain_problems(study: Study, load: FilesLoad, chained: chain.ChainPart, hosts: int) -> Iterator[Problem]:
    """Problems of a chain in this lab, and settings of the load that it cannot follow."""
    if hosts > 2:
        message = "the lab has hosts that neither the file server nor the tools use"
        yield ("lab", "hosts"), message, "use one host, or two: that of the tools, and that of the file server"
    if load.to.smb is not None and hosts < 2:
        message = "tools outside the guest need a host of their own"
        yield ("lab", "hosts"), message, "use two hosts: first that of the tools, then that of the file server"
    if study.lab.arrays is not None and len(study.lab.arrays) > 1:
        yield ("lab", "arrays"), "the disk is on an LU of one array", "list one array"
    for field in ("cold", "keep"):
        if getattr(load, field):
            yield ("load", field), "the disk is new in each repetition", f"leave out `{field}`"
    yield from chain.problems(study, chained, approximate_bytes(load))


STUDY = FilesStudy()
