"""From a study, a point and addresses to the configuration of every backup engine. Pure.

Job i (from 0) runs on host i mod hosts, and reaches an array through its portal i mod portals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.engine import contract
from hakaru.run.configure import INITIATOR_NAME, MS, Reaches
from hakaru.study import Expanded, Repetition
from hakaru.study.model import Backup, Study

ENDS = ("source", "destination")


@dataclass(frozen=True)
class Target:
    """An LU as jobs reach it."""

    portals: tuple[str, ...]
    target_name: str
    lun: int


def lab_targets(study: Study, portals: Mapping[str, Sequence[str]]) -> dict[str, list[Target]]:
    """`source` and `destination`: the LUs that jobs are dealt to; `portals` by array."""
    backup = the_backup(study)
    names = study.arrays or dict.fromkeys(portals, study.array)
    found = {}
    for side, end in zip(ENDS, (backup.source, backup.destination), strict=True):
        array = names[end.array]
        assert array is not None, "checked when the study was read: it has `array` or `arrays`"
        found[side] = [Target(tuple(portals[end.array]), array.target_name, lun) for lun in end.lus]
    return found


def the_backup(study: Study) -> Backup:
    """What a study of backups copies."""
    assert study.backup is not None, "only studies that copy have backup engines"
    return study.backup


def job_names(backup: Backup) -> list[str]:
    """`vm01`, `vm02`, …: a job copies the image of a VM."""
    width = max(2, len(str(backup.jobs)))
    return [f"vm{i + 1:0{width}}" for i in range(backup.jobs)]


def backup_configs(
    expanded: Expanded,
    turn: Repetition,
    hosts: Sequence[str],
    targets: Mapping[str, Sequence[Target]],
    *,
    chap: contract.ChapConfig | None = None,
    reaches: Reaches = lambda host, portal: True,
) -> dict[str, contract.BackupConfig]:
    """Host → its engine; a host without a job is left out."""
    backup = the_backup(expanded.at(turn.point))
    jobs: dict[str, list[contract.BackupJob]] = {}
    for i, name in enumerate(job_names(backup)):
        host = hosts[i % len(hosts)]
        reached = {end: [_reached(one, host, reaches) for one in of_end] for end, of_end in targets.items()}
        jobs.setdefault(host, []).append(_job(backup, i, name, reached))
    return {
        host: contract.BackupConfig(
            jobs=of_host,
            chap=chap,
            time_limit_s=backup.time_limit / 1e9,
            sample_interval_ms=expanded.measure.sample_interval // MS,
        )
        for host, of_host in jobs.items()
    }


def _reached(target: Target, host: str, reaches: Reaches) -> Target:
    return replace(target, portals=tuple(portal for portal in target.portals if reaches(host, portal)))


def _job(backup: Backup, i: int, name: str, targets: Mapping[str, Sequence[Target]]) -> contract.BackupJob:
    source, source_offset = _lu(backup, i, name, targets["source"])
    destination, destination_offset = _lu(backup, i, name, targets["destination"])
    zstd = backup.compression == "zstd"
    return contract.BackupJob(
        name=name,
        source=source,
        source_offset_bytes=source_offset,
        destination=destination,
        destination_offset_bytes=destination_offset,
        length_bytes=backup.image,
        block_bytes=backup.block,
        depth=backup.depth,
        streams=backup.streams,
        rate_limit_bytes_per_s=None if backup.rate_limit is None else backup.rate_limit // 8,
        compression=contract.Zstd(level=backup.compression_level) if zstd else contract.NoCompression(),
        verify=backup.verify,
    )


def _lu(backup: Backup, i: int, name: str, targets: Sequence[Target]) -> tuple[contract.Lu, int]:
    """LU of a job at one end, and the first byte of its image there."""
    target = targets[i % len(targets)]
    lu = contract.Lu(
        portal=target.portals[i % len(target.portals)],
        target_name=target.target_name,
        lun=target.lun,
        initiator_name=f"{INITIATOR_NAME}:{name}",
    )
    return lu, (i // len(targets)) * backup.image
