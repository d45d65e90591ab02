"""The model of a study of files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hakaru.kinds.files.load import FilesLoad, load_at
from hakaru.kinds.files.names import metrics_of
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study
from hakaru.study.variables import Problem


class FilesStudy(StudyKind):
    """The part of the kind `files` that studies use."""

    load = FilesLoad

    @property
    def factors(self) -> Mapping[str, str]:
        """The number of tools, and how sessions with file servers work."""
        smb = {name: f"load.to.smb.{name}" for name in ("signing", "compound", "credits", "dialect")}
        return {"tools": "load.tools"} | smb

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return metrics_of(load_at(study)).keys()

    def problems(self, study: Study) -> Iterator[Problem]:
        """Hosts that share a directory, caches and guests that the load cannot use."""
        hosts, load = study.lab.hosts, load_at(study)
        if (hosts if isinstance(hosts, int) else len(hosts)) > 1:
            # Hosts that build their trees end at different times, and would not measure together.
            place = "a directory" if load.to.smb is None else "a share"
            hint = "use one host; more tools give more load"
            yield ("lab", "hosts"), f"{place} belongs to one host", hint
        if load.to.smb is not None and study.lab.arrays is not None and len(study.lab.arrays) > 1:
            yield ("lab", "arrays"), "the load uses one file server", "list one array, in whose node it runs"
        if load.to.smb is not None and load.cold:
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


STUDY = FilesStudy()
