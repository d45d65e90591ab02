"""VMs whose initiator is the kernel of the guest that they run in: logins of open-iscsi, and the
same patterns on its disks. Pure.

The settings of the study apply as far as open-iscsi has them; `problems` refuses the others. Where
the hosts own the sessions (`hypervisor: host:`), the VMs of a host share one session per path, as
they share those of our initiator. With `paths_per_vm`, each VM has one session per path, and
dm-multipath joins their disks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hakaru.engine import contract
from hakaru.guest.login import (
    COMMANDS_MIN,
    MANAGEMENT_COMMANDS,
    KernelDisk,
    KernelLogin,
    PathTimers,
    open_iscsi_settings,
)
from hakaru.guest.multipath import MULTIPATHD, KernelMultipath
from hakaru.guest.recipe import RECIPES
from hakaru.kinds.vms.hypervisor import limits_of
from hakaru.kinds.vms.iscsi import InitiatorEnd, Socket
from hakaru.kinds.vms.load import VmsLoad
from hakaru.kinds.vms.multipath import Multipath
from hakaru.kinds.vms.seating import seat
from hakaru.lab.plan import plan_lab
from hakaru.study.model import Study
from hakaru.study.part import SECOND_NS
from hakaru.study.variables import Problem


class VmsOnDisks:
    """The VMs of one host on disks of their guest instead of LUs."""

    def __init__(self, load: VmsLoad, config: contract.InitiatorConfig) -> None:
        self._load, self._config = load, config

    @property
    def disks(self) -> list[KernelDisk]:
        """The disks that the VMs use, each once: one per session and LU."""
        return list(dict.fromkeys(self._disk(vm) for vm in self._config.vms))

    def on(self, paths: Mapping[KernelDisk, str]) -> contract.InitiatorConfig:
        """The configuration of the VMs on these disks. The limits of sessions are those of the
        kernel.
        """
        config = self._config
        vms = [
            vm.model_copy(
                update={
                    "destination": contract.FileDestination(
                        path=paths[self._disk(vm)], direct=True, multipath=config.multipath is not None
                    )
                }
            )
            for vm in config.vms
        ]
        return contract.InitiatorConfig(
            vms=vms,
            groups=config.groups,
            warmup_s=config.warmup_s,
            measure_s=config.measure_s,
            sample_interval_ms=config.sample_interval_ms,
            verify=config.verify,
            allow_writes=config.allow_writes,
        )

    def _disk(self, vm: contract.Vm) -> KernelDisk:
        return _disk(self._load, self._config, vm.destination)


def _disk(load: VmsLoad, config: contract.InitiatorConfig, destination: contract.Destination) -> KernelDisk:
    assert isinstance(destination, contract.IscsiDestination), "configured by `initiator_configs`"
    host, end = limits_of(load.hypervisor).host, load.iscsi.initiator
    session_commands = host.session_commands if host else None
    if host is None and config.commands_max is not None:
        # The limit of the study is that of the LU, and the session's must not be below it.
        session_commands = config.commands_max + MANAGEMENT_COMMANDS
    settings = open_iscsi_settings(
        config.login,
        lu_commands=config.commands_max,
        session_commands=session_commands,
        window_bytes=end.socket.send_buffer,
        timers=None if config.multipath is None else _timers(load.multipath),
    )
    first, *others = [
        KernelLogin(
            portal,
            destination.target_name,
            destination.initiator_name,
            tuple(settings.items()),
            end.socket.send_buffer,
        )
        for portal in (destination.portal, *destination.other_portals)
    ]
    return KernelDisk(
        first,
        destination.lun,
        end.command_max,
        round(end.command_timeout / 1e9),
        other_logins=tuple(others),
        multipath=None if config.multipath is None else _joined(load.multipath),
    )


def _timers(use: Multipath) -> PathTimers:
    return PathTimers(
        nop_interval_s=use.nop_interval // SECOND_NS,
        nop_timeout_s=use.nop_timeout // SECOND_NS,
        recovery_s=use.recovery // SECOND_NS,
        login_timeout_s=use.login_timeout // SECOND_NS,
    )


def _joined(use: Multipath) -> KernelMultipath:
    return KernelMultipath(
        manager=use.manager,
        policy=use.policy,
        recovery_s=use.recovery // SECOND_NS,
        check_s=use.check / SECOND_NS,
        failback_s=use.failback / SECOND_NS,
        no_path_s=use.no_path // SECOND_NS,
    )


def problems(study: Study, load: VmsLoad) -> Iterator[Problem]:
    """Return the settings that the kernel's initiator does not have, and what it needs."""
    if load.initiator == "hakaru":
        return
    if study.lab.load_guest is None:
        message = "the kernel of a guest is the initiator, and the lab has no guests for the load"
        yield ("load", "initiator"), message, "add `load_guest: {}` to the lab, or to the level of the variable"
    if load.transport == "stream":
        yield ("load", "transport"), "plain streams have no initiator", "use `initiator: hakaru`"
    host = limits_of(load.hypervisor).host
    if host is not None and host.session_commands is not None and host.session_commands < COMMANDS_MIN:
        message = f"open-iscsi has at least {COMMANDS_MIN} commands per session"
        yield ("load", "hypervisor", "host", "session_commands"), message, f"use {COMMANDS_MIN} or more at this point"
    if limits_of(load.hypervisor).guest is not None:
        message = "the queue of a guest's disk is part of our initiator"
        hint = "use `hypervisor: {kind: custom, host: {lu_commands: 32, session_commands: 128}}` at this point"
        yield ("load", "hypervisor"), message, hint
    yield from _end_problems(load.iscsi.initiator)
    if load.paths_per_vm is not None:
        yield from _path_problems(study, load)


def _path_problems(study: Study, load: VmsLoad) -> Iterator[Problem]:
    """Return the settings of paths that open-iscsi and dm-multipath do not have."""
    use, place, defaults = load.multipath, ("load", "multipath"), Multipath()
    with_daemon = use.manager == "multipathd"
    whole = ["nop_interval", "nop_timeout", "recovery", "login_timeout", "no_path"] + ["check"] * with_daemon
    for field in whole:
        if getattr(use, field) % SECOND_NS:
            yield (*place, field), "Linux counts it in whole seconds", "use whole seconds"
    lacking = {
        "retry": "iscsid has an interval of its own between its attempts to log in",
        "stale": "dm-multipath sends the commands of a lost path again after `recovery`, and no write waits",
    }
    if with_daemon:
        lacking["failback"] = "multipathd uses a path as soon as its checker has found it"
    for field, message in lacking.items():
        if getattr(use, field) != getattr(defaults, field):
            yield (*place, field), message, "leave it out at this point, or use `initiator: hakaru`"
    if with_daemon and use.recovery == 0:
        yield (*place, "recovery"), "multipathd cannot set 0", "use 1 s or more, or `manager: table`"
    guest = study.lab.load_guest
    if with_daemon and guest is not None and MULTIPATHD not in RECIPES[guest.recipe].programs:
        message = f"the guest's image {guest.recipe!r} has no multipath-tools, and its kernel has no ALUA"
        images = " or ".join(f"`image: {name}`" for name, recipe in RECIPES.items() if MULTIPATHD in recipe.programs)
        yield (*place, "manager"), message, f"add {images} to `load_guest`, or use `manager: table`"
    if with_daemon and (shared := _shared_lu(study, load)) is not None:
        message = f"multipathd would join the paths of several VMs of {shared[0]}, which use LU {shared[1]}"
        yield (*place, "manager"), message, "give each VM an LU of its own, or use `manager: table`"


def _shared_lu(study: Study, load: VmsLoad) -> tuple[str, int] | None:
    """Return the first host and LU that several VMs of the point use. None if there is none, or the
    study is not at a point.
    """
    if not load.groups and (load.vms is None or load.pattern not in load.patterns):
        return None
    (array,), hosts = study.storage.values(), plan_lab(study.lab).host_names
    used: set[tuple[str, int]] = set()
    for member in load.members():
        place = seat([[array.lu(lun).size // load.image for lun in column] for column in member.columns], member.place)
        if place is None:
            continue
        each = member.host(hosts), member.columns[place.column][place.lu]
        if each in used:
            return each
        used.add(each)
    return None


def _end_problems(end: InitiatorEnd) -> Iterator[Problem]:
    place = ("load", "iscsi", "initiator")
    hint = "leave it out at this point, or use `initiator: hakaru`"
    defaults = InitiatorEnd()
    for field in ("sessions", "coalesce"):
        if getattr(end, field) != getattr(defaults, field):
            yield (*place, field), "open-iscsi has no such setting", hint
    if end.max_outstanding_r2t != defaults.max_outstanding_r2t:
        yield (*place, "max_outstanding_r2t"), "open-iscsi always offers 1", hint
    if end.command_timeout < 1_000_000_000 or end.command_timeout % 1_000_000_000:
        yield (*place, "command_timeout"), "Linux counts it in whole seconds", "use whole seconds"
    yield from _socket_problems((*place, "socket"), end.socket, hint)


def _socket_problems(place: tuple[str, ...], socket: Socket, hint: str) -> Iterator[Problem]:
    if socket.send_buffer != socket.receive_buffer:
        message = "open-iscsi has one size for both buffers of a socket"
        yield place, message, "give `send_buffer` and `receive_buffer` the same size, or leave both out"
    if socket.pacing is not None:
        yield (*place, "pacing"), "open-iscsi has no such setting", hint
    for field in ("congestion_control", "not_sent_low_water"):
        if getattr(socket, field) is not None:
            yield (*place, field), "open-iscsi has no such setting", f"{hint}; `lab.tcp` applies to guests as well"
    if not socket.no_delay:
        yield (*place, "no_delay"), "open-iscsi always sends at once", hint
