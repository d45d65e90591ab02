"""Tunings: a run of `hakaru tune`, whose points are the settings that it tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hakaru.kind import Kind

if TYPE_CHECKING:
    from hakaru.run.kind import RunKind
    from hakaru.study.kind import StudyKind


class Tuning(Kind):
    """The kind `tuning`: studies and runs are those of VMs."""

    name = "tuning"
    in_studies = False

    @property
    def study(self) -> StudyKind:
        """Its part of a study."""
        from hakaru.kinds.vms.study import STUDY

        return STUDY

    @property
    def run(self) -> RunKind:
        """Its part of a run."""
        from hakaru.kinds.vms.run import RUN

        return RUN


KIND = Tuning()
