"""What a study of copies may say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import get_args

from hakaru.study import consistency_backup
from hakaru.study.consistency import arrays_of
from hakaru.study.kind import StudyKind
from hakaru.study.model import Study
from hakaru.study.variables import Problem
from hakaru.study.verdicts import Verdict

METRICS = frozenset(
    {"mb_per_s", "path_percent", "first_done_s", "last_done_s", "retransmitted_percent", "timeouts", "timeout_wait_s"}
    | {"dropped_frames"}
)
"""Metrics that references and expectations may name; a test holds that analysis computes them all."""


class CopyStudy(StudyKind):
    """The part of the kind `copy` that studies use."""

    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""
        return METRICS

    def verdicts(self, study: Study) -> Collection[str]:
        """Names of bottlenecks that an expectation may use."""
        return frozenset(get_args(Verdict))

    def problems(self, study: Study) -> Iterator[Problem]:
        """A copy has its own start and end."""
        for field in ("warmup", "time"):
            if getattr(study.measure, field) is not None:
                message = "a backup is measured from its first read to its last write"
                yield ("measure", field), message, "leave it out; `backup.time_limit` bounds it"

    def point_problems(self, study: Study) -> Iterator[Problem]:
        """LUs, room, blocks, contents."""
        assert study.backup is not None
        yield from consistency_backup.problems(study.backup, arrays_of(study))


STUDY = CopyStudy()
