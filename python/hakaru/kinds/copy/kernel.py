"""Jobs whose initiator is the kernel of the guest that they run in: logins of open-iscsi to both
arrays, and the same copies between its disks. Pure.

A job has one session to each array. The settings of the study apply as far as open-iscsi has them;
`problems` refuses the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hakaru.engine import contract
from hakaru.guest.login import MANAGEMENT_COMMANDS, KernelDisk, KernelLogin, open_iscsi_settings
from hakaru.kinds.copy.load import CopyLoad
from hakaru.study.model import Study
from hakaru.study.variables import Problem

QUEUE_DEPTH = 32
"""Commands that open-iscsi has outstanding per LU by default (node.session.queue_depth)."""


class CopyOnDisks:
    """The jobs of one host on disks of their guest instead of sessions."""

    def __init__(self, load: CopyLoad, config: contract.BackupConfig) -> None:
        self._load, self._config = load, config

    @property
    def disks(self) -> list[KernelDisk]:
        """The disks of all jobs, each once: one per session."""
        ends = [end for job in self._config.jobs for end in (job.source, job.destination)]
        return list(dict.fromkeys(self._disk(end) for end in ends))

    def on(self, paths: Mapping[KernelDisk, str]) -> contract.BackupConfig:
        """The configuration of the jobs on these disks."""
        jobs = [
            job.model_copy(
                update={
                    "disks": contract.Disks(
                        source=paths[self._disk(job.source)], destination=paths[self._disk(job.destination)]
                    )
                }
            )
            for job in self._config.jobs
        ]
        return self._config.model_copy(update={"jobs": jobs, "chap": None})

    def _disk(self, lu: contract.Lu) -> KernelDisk:
        # Fewer blocks than the default need no other limit.
        depth = self._load.depth if self._load.depth > QUEUE_DEPTH else None
        settings = open_iscsi_settings(
            self._config.login,
            lu_commands=depth,
            session_commands=None if depth is None else depth + MANAGEMENT_COMMANDS,
        )
        login = KernelLogin(lu.portal, lu.target_name, lu.initiator_name, tuple(settings.items()))
        return KernelDisk(login, lu.lun, command_timeout_s=round(self._config.command_timeout_s))


def problems(study: Study, load: CopyLoad) -> Iterator[Problem]:
    """Return the settings that the kernel's initiator does not have, and what it needs."""
    if load.initiator == "hakaru":
        return
    if study.lab.load_guest is None:
        message = "the kernel of a guest is the initiator, and the lab has no guests for the load"
        yield ("load", "initiator"), message, "add `load_guest: {}` to the lab, or to the level of the variable"
    if load.destination.tape is not None:
        message = "copies to tapes need hakaru's initiator"
        yield ("load", "initiator"), message, "leave it out at this point, or copy to disks"
    if load.streams > 1:
        message = "the streams of a job would share the session of its disk"
        yield ("load", "streams"), message, "leave it out at this point, or use `initiator: hakaru`"
