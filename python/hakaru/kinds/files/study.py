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
        """The number of tools."""
        return {"tools": "load.tools"}

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return metrics_of(load_at(study)).keys()

    def problems(self, study: Study) -> Iterator[Problem]:
        """Hosts that share a directory."""
        hosts = study.lab.hosts
        if (hosts if isinstance(hosts, int) else len(hosts)) > 1:
            hint = "use one host; more tools give more load"
            yield ("lab", "hosts"), "a directory belongs to one host", hint
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
