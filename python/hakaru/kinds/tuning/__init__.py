"""Runs of `hakaru tune`. The points of a run are the settings that it tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hakaru.kind import Kind

if TYPE_CHECKING:
    from hakaru.run.kind import RunKind
    from hakaru.study.kind import StudyKind


class Tuning(Kind):
    """The kind `tuning`, with the study and run parts of the kind `vms`."""

    name = "tuning"
    in_studies = False

    @property
    def study(self) -> StudyKind:
        """The study part of the kind `vms`."""
        from hakaru.kinds.vms.study import STUDY

        return STUDY

    @property
    def run(self) -> RunKind:
        """The run part of the kind `vms`."""
        from hakaru.kinds.vms.run import RUN

        return RUN


KIND = Tuning()
