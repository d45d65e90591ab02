"""The kernel of a guest as initiator: its logins, VMs on its disks, and settings that it lacks."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.guest.login import open_iscsi_settings
from hakaru.guest.multipath import KernelMultipath
from hakaru.kinds.vms import study as vms_study
from hakaru.kinds.vms.load import load_at
from hakaru.kinds.vms.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.run.kind import KernelLoad
from hakaru.study.expand import Expanded, expand
from hakaru.study.model import Study

from tests.study.shipped import shipped

LEVEL = {"lab.load_guest": {}, "load.initiator": "kernel"}


def points(vms: int, changes: dict[str, Any] | None = None) -> Expanded:
    """One point with the kernel as initiator, and with changes of the study."""
    written = dict(shipped("initiators").study.written)
    written["variables"] = {"initiator": {"open-iscsi": LEVEL | (changes or {})}}
    written["factors"] = [{"pattern": ["random-32k"], "initiator": ["open-iscsi"], "vms": [vms]}]
    return expand(Study.model_validate(written | {"quick": None}))


def configured(vms: int, changes: dict[str, Any] | None = None) -> tuple[Study, dict[str, contract.InitiatorConfig]]:
    expanded = points(vms, changes)
    (point,) = expanded.points
    study = expanded.at(point)
    loads = RUN.loads(expanded, expanded.repetitions[0], plan_lab(study.lab))
    return study, {node: config for node, config in loads.items() if isinstance(config, contract.InitiatorConfig)}


def kernel_load_of(study: Study, config: contract.EngineConfig) -> KernelLoad:
    kernel_load = RUN.kernel_load(study, config)
    assert kernel_load is not None
    return kernel_load


def test_vms_of_a_host_share_one_session_and_have_a_disk_for_each_lu() -> None:
    study, loads = configured(4)
    assert list(loads) == ["host-1", "host-2"]
    disks = kernel_load_of(study, loads["host-1"]).disks
    # VMs 1 and 3 run on the first host, and both use LU 0.
    (disk,) = disks
    assert (disk.lun, disk.command_bytes_max, disk.command_timeout_s) == (0, 512 << 10, 30)
    assert disk.login.initiator_name.endswith(":host-1") and disk.login.portal == "10.77.0.1:3260"
    settings = dict(disk.login.settings)
    assert (settings["node.session.queue_depth"], settings["node.session.cmds_max"]) == ("32", "128")


def test_vms_load_the_disks_with_their_own_patterns_and_regions() -> None:
    study, loads = configured(4)
    config = loads["host-1"]
    kernel_load = kernel_load_of(study, config)
    on_disks = kernel_load.on(dict.fromkeys(kernel_load.disks, "/dev/sda"))
    assert isinstance(on_disks, contract.InitiatorConfig)
    for before, after in zip(config.vms, on_disks.vms, strict=True):
        assert after.destination == contract.FileDestination(path="/dev/sda", direct=True)
        assert after.model_copy(update={"destination": before.destination}) == before
    assert (on_disks.measure_s, on_disks.warmup_s) == (config.measure_s, config.warmup_s)
    # The engine refuses limits of sessions for files.
    assert not on_disks.share_sessions and on_disks.guest_queue is None


def test_vms_without_a_hypervisor_log_in_with_their_own_names() -> None:
    study, loads = configured(4, {"load.hypervisor": {"kind": "none"}})
    names = [disk.login.initiator_name.rpartition(":")[2] for disk in kernel_load_of(study, loads["host-1"]).disks]
    assert names == ["vm01", "vm03"]


@pytest.mark.parametrize(("commands", "session"), [(1, "32"), (16, "32"), (32, "64"), (128, "256")])
def test_session_of_one_vm_holds_the_commands_of_its_lu(commands: int, session: str) -> None:
    """Linux keeps 15 of cmds_max for other tasks."""
    changes = {"load.hypervisor": {"kind": "none"}, "load.iscsi.initiator.commands": commands}
    study, loads = configured(1, changes)
    (disk,) = kernel_load_of(study, loads["host-1"]).disks
    settings = dict(disk.login.settings)
    assert settings["node.session.queue_depth"] == str(commands)
    assert settings["node.session.cmds_max"] == session


def test_hakarus_initiator_needs_no_disks() -> None:
    expanded = expand(shipped("initiators").study, only={"initiator": {"hakaru-in-guest"}})
    study = expanded.at(expanded.points[0])
    config = RUN.loads(expanded, expanded.repetitions[0], plan_lab(study.lab))
    assert study.lab.load_guest is not None
    assert [RUN.kernel_load(study, each) for each in config.values()] == [None] * len(config)


def test_records_of_open_iscsi_have_the_values_of_the_study() -> None:
    keys = contract.LoginKeys(initial_r2t=True, header_digest=True, max_burst_length=1 << 20)
    settings = open_iscsi_settings(keys, lu_commands=4096, session_commands=129, window_bytes=4 << 20)
    assert settings["node.session.iscsi.InitialR2T"] == "Yes"
    assert settings["node.conn[0].iscsi.HeaderDigest"] == "CRC32C,None"
    assert settings["node.session.iscsi.MaxBurstLength"] == str(1 << 20)
    assert settings["node.conn[0].tcp.window_size"] == str(4 << 20)
    # Its own limits: 1024 commands per LU, and a power of two per session.
    assert (settings["node.session.queue_depth"], settings["node.session.cmds_max"]) == ("1024", "256")
    assert "node.session.queue_depth" not in open_iscsi_settings(keys)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"lab.load_guest": None}, "initiator"),
        ({"load.hypervisor.host.session_commands": 16}, "session_commands"),
        ({"load.hypervisor": {"kind": "preset", "name": "kvm-83"}}, "hypervisor"),
        ({"load.transport": "stream"}, "transport"),
        ({"load.iscsi.initiator.coalesce": "64 us"}, "coalesce"),
        ({"load.iscsi.initiator.max_outstanding_r2t": 8}, "max_outstanding_r2t"),
        ({"load.iscsi.initiator.command_timeout": "1500 ms"}, "command_timeout"),
        ({"load.iscsi.initiator.socket": {"send_buffer": "1 MiB"}}, "socket"),
        ({"load.iscsi.initiator.socket": {"congestion_control": "bbr"}}, "congestion_control"),
        ({"load.iscsi.initiator.socket": {"no_delay": False}}, "no_delay"),
    ],
)
def test_settings_that_the_kernel_lacks_are_refused(changes: dict[str, Any], place: str) -> None:
    expanded = points(1, changes)
    changed = expanded.at(expanded.points[0])
    problems = list(vms_study.STUDY.point_problems(changed))
    assert place in {str(path[-1]) for path, _, _ in problems}, problems
    assert load_at(changed).initiator == "kernel"


PATHS: dict[str, Any] = {
    "lab.paths": 2,
    "load.hypervisor": {"kind": "none"},
    "load.paths_per_vm": 2,
    "load.multipath": {"policy": "failover", "nop_interval": "2 s", "nop_timeout": "3 s", "recovery": "4 s"},
}


def test_each_vm_has_a_session_per_path_and_the_kernel_joins_their_disks() -> None:
    study, loads = configured(4, PATHS)
    config = loads["host-1"]
    disks = kernel_load_of(study, config).disks
    first, second = plan_lab(study.lab).portals()
    # VMs 1 and 3 run on the first host. VM i begins with path i mod paths.
    assert [[login.portal for login in disk.logins] for disk in disks] == [[first, second]] * 2
    for disk, name in zip(disks, ("vm01", "vm03"), strict=True):
        assert {login.initiator_name.rpartition(":")[2] for login in disk.logins} == {name}
        for login in disk.logins:
            settings = dict(login.settings)
            assert settings["node.conn[0].timeo.noop_out_interval"] == "2"
            assert settings["node.conn[0].timeo.noop_out_timeout"] == "3"
            assert settings["node.session.timeo.replacement_timeout"] == "4"
            assert settings["node.conn[0].timeo.login_timeout"] == "5"
        assert disk.multipath == KernelMultipath("table", "failover", 4, 5, 0, 30)
    on_disks = kernel_load_of(study, config).on(dict.fromkeys(disks, "/dev/mapper/paths-0"))
    assert isinstance(on_disks, contract.InitiatorConfig)
    # The engine of the guest has no sessions of its own, and reports the kernel's paths.
    assert on_disks.multipath is None
    destination = contract.FileDestination(path="/dev/mapper/paths-0", direct=True, multipath=True)
    assert [vm.destination for vm in on_disks.vms] == [destination] * 2


def test_one_session_has_the_timers_of_open_iscsi() -> None:
    study, loads = configured(1, {"load.hypervisor": {"kind": "none"}})
    (disk,) = kernel_load_of(study, loads["host-1"]).disks
    assert disk.multipath is None and disk.other_logins == ()
    assert not any("timeo" in name for name, _ in disk.login.settings)


DAEMON = PATHS | {"lab.load_guest": {"image": "generic"}, "load.multipath": {"manager": "multipathd"}}


@pytest.mark.parametrize(
    ("vms", "changes", "place", "message"),
    [
        (1, {"load.multipath.nop_interval": "1500 ms"}, "nop_interval", "whole seconds"),
        (1, {"load.multipath.no_path": "500 ms"}, "no_path", "whole seconds"),
        (1, {"load.multipath.retry": "2 s"}, "retry", "interval of its own"),
        (1, {"load.multipath.stale": "2 s"}, "stale", "no write waits"),
        (
            1,
            {"lab.load_guest": {}, "load.multipath.manager": "multipathd"},
            "manager",
            "'cloud' has no multipath-tools",
        ),
        (1, DAEMON | {"load.multipath.check": "1500 ms"}, "check", "whole seconds"),
        (1, DAEMON | {"load.multipath.failback": "2 s"}, "failback", "as soon as"),
        (1, DAEMON | {"load.multipath.recovery": "0 s"}, "recovery", "cannot set 0"),
        (3, DAEMON | {"load.columns": [[0]]}, "manager", "several VMs of host-1, which use LU 0"),
        (1, DAEMON | {"load.initiator": "hakaru"}, "manager", "directs its paths itself"),
    ],
)
def test_settings_of_paths_that_the_kernel_lacks_are_refused(
    vms: int, changes: dict[str, Any], place: str, message: str
) -> None:
    expanded = points(vms, PATHS | changes)
    changed = expanded.at(expanded.points[0])
    ((found, text, hint),) = vms_study.STUDY.point_problems(changed)
    assert found[-1] == place and message in text and hint


@pytest.mark.parametrize("changes", [{}, DAEMON, {"load.multipath.check": "1500 ms"}])
def test_settings_of_paths_that_the_kernel_has_are_accepted(changes: dict[str, Any]) -> None:
    expanded = points(2, PATHS | changes)
    assert [*vms_study.STUDY.point_problems(expanded.at(expanded.points[0]))] == []
