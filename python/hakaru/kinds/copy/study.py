"""The model of a study of copies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hakaru.analysis.rules.judge import verdicts_of
from hakaru.kinds.copy import consistency, kernel
from hakaru.kinds.copy.load import CopyLoad, load_at
from hakaru.kinds.copy.names import TAPE_UNITS, of_jobs
from hakaru.kinds.copy.rules import STAGES
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study
from hakaru.study.variables import Problem

METRICS = frozenset(
    {
        "mib_per_s",
        "sum_mib_per_s",
        "fastest_to_slowest",
        "jain_index",
        "path_percent",
        "first_done_s",
        "last_done_s",
        "retransmitted_percent",
        "timeouts",
        "timeout_wait_s",
    }
    | {"dropped_frames", "baseline_gbit_per_s"}
)
"""Metrics that references and expectations may name, besides those of single jobs. A test checks
that analysis computes all of them.
"""


class CopyStudy(StudyKind):
    """The part of the kind `copy` that studies use."""

    load = CopyLoad

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        of_tapes = TAPE_UNITS.keys() if load_at(study).destination.tape else frozenset()
        return METRICS | of_tapes | of_jobs(load_at(study).job_names).keys()

    def verdicts(self, study: Study) -> Collection[str]:
        """Names of the bottlenecks that the rules can determine."""
        return verdicts_of(STAGES)

    def problems(self, study: Study) -> Iterator[Problem]:
        """Measuring times, which a copy does not have; LUs, space, blocks and contents."""
        for field in ("warmup", "time"):
            if getattr(study.measure, field) is not None:
                message = "a copy is measured to its last write"
                yield ("measure", field), message, "leave it out; `load.warmup` and `load.time_limit` bound it"
        yield from consistency.problems(load_at(study), study.storage)
        yield from kernel.problems(study, load_at(study))


STUDY = CopyStudy()
