"""Configuration of every initiator, from a study of VMs, a point and addresses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hakaru.engine import contract
from hakaru.kinds.vms import hypervisor
from hakaru.kinds.vms.configure_iscsi import login_keys, socket_options, target_keys
from hakaru.kinds.vms.load import Closed, Member, Pattern, VmsLoad, load_at
from hakaru.kinds.vms.multipath import chosen_portals
from hakaru.kinds.vms.seating import seat
from hakaru.lab.plan import LabPlan
from hakaru.run.configure import INITIATOR_NAME, MS, US, Reaches, array_configs, port_of, seed_of
from hakaru.study import Expanded, Repetition, Study


@dataclass(frozen=True)
class Unit:
    """An LU and the portals to it. `images`: number of VM images that fit on it; None if
    unknown.
    """

    portals: tuple[str, ...]
    target_name: str
    lun: int
    images: int | None


def lab_arrays(expanded: Expanded, turn: Repetition, lab: LabPlan) -> dict[str, contract.ArrayConfig]:
    """Node → configuration of its array, with the iSCSI settings of the study."""
    end = load_at(expanded.at(turn.point)).iscsi.target
    iscsi_settings = {"login": target_keys(end), "socket": socket_options(end.socket)}
    return {
        node: config.model_copy(update=iscsi_settings) for node, config in array_configs(expanded, turn, lab).items()
    }


Units = Callable[[Member], Sequence[Sequence[Unit]]]
"""The columns of LUs that a VM is dealt to."""


def lab_units(study: Study, portals: Sequence[str]) -> Units:
    """The study's columns of LUs, with the portals of the lab."""
    (array,), load = study.storage.values(), load_at(study)
    used = load.used_portals(portals)
    units = {lu.lun: Unit(used, array.target_name, lu.lun, lu.size // load.image) for lu in array.lus}
    return lambda member: [[units[lun] for lun in column] for column in member.columns]


def initiator_configs(
    expanded: Expanded,
    turn: Repetition,
    hosts: Sequence[str],
    units: Units,
    *,
    allow_writes: bool = True,
    apart: bool = False,
    chap: contract.ChapConfig | None = None,
    reaches: Reaches = lambda host, portal: True,
) -> dict[str, contract.InitiatorConfig]:
    """Host → configuration of its initiator, without hosts that have no VM.

    VM i (from 0) of a group runs on host i mod hosts and uses portal i mod portals, of the portals
    that the host `reaches`; with `paths_per_vm`, it also uses those that follow. `seating` assigns
    its LU and image. The name of the initiator is that of the VM, or that of the host if its VMs
    share sessions. `apart`: the storage is another machine, so an open load may have real-time
    priority.
    """
    measure, load = expanded.measure, load_at(expanded.at(turn.point))
    end, groups = load.iscsi.initiator, list(load.groups)
    limits = hypervisor.limits_of(load.hypervisor)
    vms: dict[str, list[contract.Vm]] = {}
    for member in load.members():
        unit, region = _place(load, units(member), member)
        host = member.host(hosts)
        reached = tuple(portal for portal in unit.portals if reaches(host, portal))
        portal, *others = chosen_portals(reached, member.turn, load.paths_per_vm)
        vm = contract.Vm(
            name=member.name,
            destination=contract.IscsiDestination(
                portal=portal,
                target_name=unit.target_name,
                lun=unit.lun,
                initiator_name=initiator_name(load, member, host),
                other_portals=others,
            ),
            region=region,
            pattern=_pattern(member.pattern),
            load=_pacing(member.pattern),
            seed=seed_of(expanded.seed, turn.name, member.name),
            group=None if member.group is None else groups.index(member.group),
        )
        vms.setdefault(host, []).append(vm)
    return {
        host: contract.InitiatorConfig(
            vms=of_host,
            groups=groups,
            login=login_keys(end),
            socket=socket_options(end.socket),
            sessions_per_vm=end.sessions,
            command_bytes_max=end.command_max,
            commands_max=limits.host.lu_commands if limits.host else end.commands,
            session_commands_max=limits.host.session_commands if limits.host else None,
            share_sessions=limits.host is not None,
            multipath=None if load.paths_per_vm is None else load.multipath.config(),
            guest_queue=_guest_queue(limits.guest),
            command_timeout_s=end.command_timeout / 1e9,
            coalesce_us=end.coalesce // US,
            coalesce_percent=end.coalesce_percent,
            warmup_s=measure.warmup_most_ns / 1e9,
            measure_s=measure.time_ns / 1e9,
            sample_interval_ms=measure.intervals.hosts // MS,
            verify=measure.verify,
            allow_writes=allow_writes,
            real_time=apart and any(isinstance(vm.load, contract.OpenLoad) for vm in of_host),
            chap=chap,
        )
        for host, of_host in vms.items()
    }


def _place(load: VmsLoad, columns: Sequence[Sequence[Unit]], member: Member) -> tuple[Unit, contract.Region]:
    """LU and region of a VM. The study was checked on reading for enough space."""
    assigned_seat = seat([[unit.images for unit in column] for column in columns], member.place)
    if assigned_seat is None:
        raise ValueError(f"no image is left for {member.name}")
    region = contract.Region(offset_bytes=assigned_seat.image * load.image, length_bytes=member.region_bytes)
    return columns[assigned_seat.column][assigned_seat.lu], region


def initiator_name(load: VmsLoad, member: Member, host: str) -> str:
    """iSCSI name of the initiator of a VM that runs on a host."""
    return f"{INITIATOR_NAME}:{host if hypervisor.limits_of(load.hypervisor).host else member.name}"


def _pattern(pattern: Pattern) -> contract.Pattern:
    return contract.Pattern(
        sizes=[contract.SizeWeight(bytes=s.size, weight=s.weight) for s in pattern.sizes],
        read_percent=pattern.read_percent,
        random_percent=pattern.random_percent,
        align_bytes=pattern.align,
    )


def _guest_queue(guest: hypervisor.Guest | None) -> contract.GuestQueue | None:
    if guest is None:
        return None
    return contract.GuestQueue(
        ring_descriptors=guest.ring,
        segments_max=guest.segments,
        indirect=guest.indirect,
        in_flight_max=guest.in_flight,
    )


def _pacing(pattern: Pattern) -> contract.Load:
    load = pattern.load
    if isinstance(load, Closed):
        return contract.ClosedLoad(queue_depth=load.queue_depth)
    return contract.OpenLoad(rate_per_s=load.rate_per_s, arrivals=load.arrivals, in_flight_max=load.in_flight_max)


def ports(config: contract.InitiatorConfig) -> set[int]:
    """TCP ports of the portals that the VMs log in to."""
    ends = [vm.destination for vm in config.vms if isinstance(vm.destination, contract.IscsiDestination)]
    return {port_of(portal) for end in ends for portal in (end.portal, *end.other_portals)}
