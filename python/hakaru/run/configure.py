"""From a study, a point and addresses to the configuration of every engine. Pure.

Shapes are the contract's (`crates/contract`). Everything random gets a seed that follows from the run's seed, the
repetition and whose it is, so a run can be redone exactly and two repetitions never draw the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakaru.engine import contract
from hakaru.run.configure_iscsi import login_keys, socket_options, target_keys
from hakaru.study import Expanded, Repetition
from hakaru.study.model import Closed, InlineModel, Lu, NoModel, Pattern, PresetModel, Study, Vms
from hakaru.study.seating import seat

INITIATOR_NAME = "iqn.2011-10.example.hakaru"
MS = 1_000_000
US = 1000
CAPTURE_RING_BYTES = 64 << 20
"""Half a second of a link of 1 Gbit/s, whole packets."""
CAPTURE_PARTS = 8
"""A capture is kept in so many files at most: what is over its size goes by eighths."""
ONLY = "array"
"""Whose seed the array of a study with `array` gets, whatever the lab calls it."""


Reaches = Callable[[str, str], bool]
"""(host, portal) → whether a way leads from one to the other."""


@dataclass(frozen=True)
class Unit:
    """An LU as VMs reach it. `images`: how many VM images it has room for, None: unknown."""

    portals: tuple[str, ...]
    target_name: str
    lun: int
    images: int | None


def seed_of(*parts: str | int) -> int:
    """A seed below 2^53 (exact in JSON) that follows from `parts`."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11


def array_config(
    expanded: Expanded, turn: Repetition, portals: Sequence[str], name: str = ONLY
) -> contract.ArrayConfig:
    """An array of a lab, listening on `portals`; default: the only one."""
    study = expanded.at(turn.point)
    array = study.arrays[name] if study.arrays else study.only_array
    return contract.ArrayConfig(
        target_name=array.target_name,
        portals=list(portals),
        isolated_network=True,
        login=target_keys(study.iscsi.target),
        socket=socket_options(study.iscsi.target.socket),
        lus=[_lu(lu, seed_of(expanded.seed, name, lu.lun, "fill")) for lu in array.lus],
        model=engine_model(array.model),
        seed=seed_of(expanded.seed, turn.name, name),
        sample_interval_ms=expanded.measure.sample_interval // MS,
    )


def engine_model(model: NoModel | PresetModel | InlineModel) -> contract.Model:
    """A timing model as the engine takes it."""
    if isinstance(model, PresetModel):
        return contract.PresetModel(name=model.name)
    if isinstance(model, NoModel):
        return contract.NoModel()
    return contract.ArrayModel.model_validate(model.model_dump())


def _lu(lu: Lu, fill_seed: int) -> contract.LuConfig:
    place = None
    if lu.placement is not None:
        place = contract.Placement(group=lu.placement.group, offset_bytes=lu.placement.offset)
    return contract.LuConfig(
        lun=lu.lun,
        size_bytes=lu.size,
        block_bytes=lu.block,
        store=contract.MemoryStore(fill_seed=fill_seed, fill_compressible_percent=lu.fill.compressible_percent)
        if lu.fill
        else contract.MemoryStore(),
        placement=place,
    )


def lab_units(study: Study, portals: Sequence[str]) -> list[list[Unit]]:
    """The study's columns of LUs, behind the lab's portals."""
    array, vms = study.only_array, study.seats
    room = {lu.lun: lu.size // vms.image for lu in array.lus}
    return [[Unit(tuple(portals), array.target_name, lun, room[lun]) for lun in column] for column in vms.columns]


def initiator_configs(
    expanded: Expanded,
    turn: Repetition,
    hosts: Sequence[str],
    columns: Sequence[Sequence[Unit]],
    *,
    allow_writes: bool = True,
    chap: contract.ChapConfig | None = None,
    reaches: Reaches = lambda host, portal: True,
) -> dict[str, contract.InitiatorConfig]:
    """Host → its initiator; a host without a VM is left out.

    VM i (from 0) runs on host i mod hosts, through portal i mod portals of those that the host `reaches`, on the LU and
    image that `seating` gives it.
    """
    factors, measure, study = turn.point.factors, expanded.measure, expanded.at(turn.point)
    pattern = study.patterns[factors["pattern"]]
    end = study.iscsi.initiator
    asked, load = _pattern(pattern), _load(pattern, factors.get("queue_depth"))
    width = max(2, len(str(factors["vms"])))
    vms: dict[str, list[contract.Vm]] = {}
    for i in range(factors["vms"]):
        name = f"vm{i + 1:0{width}}"
        unit, region = _place(study.seats, columns, i)
        host = hosts[i % len(hosts)]
        portals = tuple(portal for portal in unit.portals if reaches(host, portal))
        vm = contract.Vm(
            name=name,
            destination=contract.IscsiDestination(
                portal=portals[i % len(portals)],
                target_name=unit.target_name,
                lun=unit.lun,
                initiator_name=f"{INITIATOR_NAME}:{name}",
            ),
            region=region,
            pattern=asked,
            load=load,
            seed=seed_of(expanded.seed, turn.name, name),
        )
        vms.setdefault(host, []).append(vm)
    return {
        host: contract.InitiatorConfig(
            vms=of_host,
            login=login_keys(end),
            socket=socket_options(end.socket),
            sessions_per_vm=end.sessions,
            command_bytes_max=end.command_max,
            commands_max=end.commands,
            command_timeout_s=end.command_timeout / 1e9,
            coalesce_us=end.coalesce // US,
            coalesce_percent=end.coalesce_percent,
            warmup_s=measure.warmup_ns / 1e9,
            measure_s=measure.time_ns / 1e9,
            sample_interval_ms=measure.sample_interval // MS,
            verify=measure.verify,
            allow_writes=allow_writes,
            chap=chap,
        )
        for host, of_host in vms.items()
    }


def watch_config(
    expanded: Expanded,
    *,
    machine: bool,
    tcp_file: Path | None = None,
    capture_file: Path | None = None,
    ports: Sequence[int] = (),
) -> contract.WatchConfig:
    """A watch; one of a machine's watches takes the whole machine's counters too.

    `tcp_file`: where it writes the series of the TCP connections of `ports`, if the study wants one; `capture_file`:
    where their packets go, in parts, if the study wants those.
    """
    watch, tcp, capture = expanded.study.watch, None, None
    if watch is not None and watch.tcp_interval is not None and tcp_file is not None:
        tcp = contract.TcpWatch(
            interval_us=watch.tcp_interval // US, ports=list(ports), trace=watch.tcp_trace, file=str(tcp_file)
        )
    if watch is not None and watch.capture is not None and capture_file is not None:
        capture = contract.Capture(
            interface=watch.capture.interface,
            file=str(capture_file),
            snap_bytes=watch.capture.snap,
            ring_bytes=CAPTURE_RING_BYTES,
            rotate_bytes=watch.capture.keep // CAPTURE_PARTS,
            files_max=CAPTURE_PARTS,
            ports=list(ports),
        )
    return contract.WatchConfig(
        sample_interval_ms=expanded.measure.sample_interval // MS, machine=machine, tcp=tcp, capture=capture
    )


def iscsi_ports(load: contract.InitiatorConfig | contract.BackupConfig) -> set[int]:
    """The portals' ports that a load connects to."""
    portals = []
    if isinstance(load, contract.InitiatorConfig):
        ends = [vm.destination for vm in load.vms]
        portals = [end.portal for end in ends if isinstance(end, contract.IscsiDestination)]
    else:
        portals = [end.portal for job in load.jobs for end in (job.source, job.destination)]
    return {int(portal.rpartition(":")[2]) for portal in portals}


def _place(vms: Vms, columns: Sequence[Sequence[Unit]], i: int) -> tuple[Unit, contract.Region]:
    """LU and region of VM i. That there is room was checked when the study was read."""
    found = seat([[unit.images for unit in column] for column in columns], i)
    assert found is not None, f"no image is left for VM {i}"
    region = contract.Region(offset_bytes=found.image * vms.image, length_bytes=vms.region_bytes)
    return columns[found.column][found.lu], region


def _pattern(pattern: Pattern) -> contract.Pattern:
    return contract.Pattern(
        sizes=[contract.SizeWeight(bytes=s.size, weight=s.weight) for s in pattern.sizes],
        read_percent=pattern.read_percent,
        random_percent=pattern.random_percent,
        align_bytes=pattern.align,
    )


def _load(pattern: Pattern, queue_depth: int | None) -> contract.Load:
    load = pattern.load
    if isinstance(load, Closed):
        return contract.ClosedLoad(queue_depth=queue_depth or load.queue_depth)
    return contract.OpenLoad(rate_per_s=load.rate_per_s, arrivals=load.arrivals, in_flight_max=load.in_flight_max)
