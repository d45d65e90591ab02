"""Configuration of every engine that copies, from a study, a point and addresses. Pure.

Job i (from 0) runs on host i mod hosts, and uses portal i mod portals of an array. A job to a tape
runs on the host of its drive, because the jobs of a drive take turns within one engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.engine import contract
from hakaru.kinds.copy.load import CopyLoad, load_at
from hakaru.run.configure import INITIATOR_NAME, MS, Reaches, port_of
from hakaru.study import Expanded, Repetition, Study
from hakaru.study.tape import TapeLibrarySpec

ENDS = ("source", "destination")


@dataclass(frozen=True)
class Target:
    """An LU and the portals to it."""

    portals: tuple[str, ...]
    target_name: str
    lun: int


def lab_targets(study: Study, portals: Mapping[str, Sequence[str]]) -> dict[str, list[Target]]:
    """`source` and `destination` → LUs that jobs are dealt to. `portals` are by array."""
    load = load_at(study)
    targets = {}
    for side, end in zip(ENDS, (load.source, load.destination), strict=True):
        array = study.storage[end.array]
        tape = library_of(study) if side == "destination" else None
        luns = end.lus if tape is None else tape.drive_luns
        targets[side] = [Target(tuple(portals[end.array]), array.target_name, lun) for lun in luns]
    return targets


def library_of(study: Study) -> TapeLibrarySpec | None:
    """The tape library that the copies are written to; None if they are written to disks."""
    end = load_at(study).destination
    return None if end.tape is None else study.storage[end.array].tape_library


def copy_configs(
    expanded: Expanded,
    turn: Repetition,
    hosts: Sequence[str],
    targets: Mapping[str, Sequence[Target]],
    *,
    chap: contract.ChapConfig | None = None,
    reaches: Reaches = lambda host, portal: True,
) -> dict[str, contract.BackupConfig]:
    """Host → configuration of its engine, without hosts that have no job."""
    study = expanded.at(turn.point)
    load, library = load_at(study), library_of(study)
    jobs: dict[str, list[contract.BackupJob]] = {}
    for i, name in enumerate(load.job_names):
        host = hosts[(i if library is None else i % library.drive_count) % len(hosts)]
        reachable = {
            end: [_reachable(target, host, reaches) for target in end_targets] for end, end_targets in targets.items()
        }
        jobs.setdefault(host, []).append(_job(load, i, name, reachable, library))
    return {
        host: contract.BackupConfig(
            jobs=host_jobs,
            chap=chap,
            time_limit_s=load.time_limit / 1e9,
            sample_interval_ms=expanded.measure.intervals.hosts // MS,
        )
        for host, host_jobs in jobs.items()
    }


def _reachable(target: Target, host: str, reaches: Reaches) -> Target:
    return replace(target, portals=tuple(portal for portal in target.portals if reaches(host, portal)))


def _job(
    load: CopyLoad, i: int, name: str, targets: Mapping[str, Sequence[Target]], library: TapeLibrarySpec | None
) -> contract.BackupJob:
    source, source_offset = _lu(load, i, name, targets["source"])
    destination, destination_offset = _lu(load, i, name, targets["destination"])
    zstd = load.compression == "zstd"
    return contract.BackupJob(
        name=name,
        source=source,
        source_offset_bytes=source_offset,
        destination=destination,
        destination_offset_bytes=0 if library else destination_offset,
        length_bytes=load.image,
        block_bytes=load.block,
        depth=load.depth,
        streams=load.streams,
        rate_limit_bytes_per_s=None if load.rate_limit is None else load.rate_limit // 8,
        compression=contract.Zstd(level=load.compression_level) if zstd else contract.NoCompression(),
        verify=load.verify,
        tape=None if library is None else _tape(load, i, library),
    )


def _tape(load: CopyLoad, i: int, library: TapeLibrarySpec) -> contract.TapeDestination | None:
    """How job i is written: to a cartridge of its own, or behind those before it on its drive."""
    tape = load.destination.tape
    if tape is None:
        return None
    drive, appended = i % library.drive_count, tape.cartridges == "appended"
    return contract.TapeDestination(
        changer_lun=library.lun,
        drive=drive,
        cartridge=library.writable[drive if appended else i],
        append=appended,
        fixed_block_bytes=tape.fixed_block,
        filemark_every_bytes=tape.filemark_every,
        immediate_filemarks=tape.immediate_filemarks,
    )


def _lu(load: CopyLoad, i: int, name: str, targets: Sequence[Target]) -> tuple[contract.Lu, int]:
    """LU of a job at one end, and the offset of its image in bytes."""
    target = targets[i % len(targets)]
    lu = contract.Lu(
        portal=target.portals[i % len(target.portals)],
        target_name=target.target_name,
        lun=target.lun,
        initiator_name=f"{INITIATOR_NAME}:{name}",
    )
    return lu, (i // len(targets)) * load.image


def ports(config: contract.BackupConfig) -> set[int]:
    """TCP ports of the portals at both ends."""
    return {port_of(end.portal) for job in config.jobs for end in (job.source, job.destination)}
