"""Configuration of every engine that copies, from a study, a point and addresses. Pure.

Job i (from 0) runs on host i mod hosts, and uses portal i mod portals of an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.engine import contract
from hakaru.kinds.copy.load import CopyLoad, load_at
from hakaru.run.configure import INITIATOR_NAME, MS, Reaches, port_of
from hakaru.study import Expanded, Repetition, Study

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
        targets[side] = [Target(tuple(portals[end.array]), array.target_name, lun) for lun in end.lus]
    return targets


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
    load = load_at(expanded.at(turn.point))
    jobs: dict[str, list[contract.BackupJob]] = {}
    for i, name in enumerate(load.job_names):
        host = hosts[i % len(hosts)]
        reachable = {
            end: [_reachable(target, host, reaches) for target in end_targets] for end, end_targets in targets.items()
        }
        jobs.setdefault(host, []).append(_job(load, i, name, reachable))
    return {
        host: contract.BackupConfig(
            jobs=host_jobs,
            chap=chap,
            time_limit_s=load.time_limit / 1e9,
            sample_interval_ms=expanded.measure.sample_interval // MS,
        )
        for host, host_jobs in jobs.items()
    }


def _reachable(target: Target, host: str, reaches: Reaches) -> Target:
    return replace(target, portals=tuple(portal for portal in target.portals if reaches(host, portal)))


def _job(load: CopyLoad, i: int, name: str, targets: Mapping[str, Sequence[Target]]) -> contract.BackupJob:
    source, source_offset = _lu(load, i, name, targets["source"])
    destination, destination_offset = _lu(load, i, name, targets["destination"])
    zstd = load.compression == "zstd"
    return contract.BackupJob(
        name=name,
        source=source,
        source_offset_bytes=source_offset,
        destination=destination,
        destination_offset_bytes=destination_offset,
        length_bytes=load.image,
        block_bytes=load.block,
        depth=load.depth,
        streams=load.streams,
        rate_limit_bytes_per_s=None if load.rate_limit is None else load.rate_limit // 8,
        compression=contract.Zstd(level=load.compression_level) if zstd else contract.NoCompression(),
        verify=load.verify,
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
