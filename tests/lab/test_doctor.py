"""Findings of the doctor: they match this machine, and each problem has a remedy."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hakaru import system_calls
from hakaru.doctor import Finding, guests
from hakaru.doctor import checks as doctor
from hakaru.errors import EnvironmentError_
from hakaru.guest.function import Function
from hakaru.guest.nic import MODELS
from hakaru.guest.requirements import Accelerator, Facts

from .conftest import User


def test_doctor_finds_this_machine_fit_for_labs(user: User) -> None:
    """The scenario runs inside a sandbox, where the doctor must work too."""
    done = user.run("diagnose")
    assert done.returncode == 0, done.stderr
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {"namespaces", "links", "engine", "cores", "memory", "disk", "clock", "io_uring", "pdf"} <= set(findings)
    assert findings["namespaces"]["status"] == "ok"
    assert findings["links"]["status"] == "ok", findings["links"]
    assert "took" in findings["links"]["message"]
    assert findings["fabric"]["status"] in ("ok", "warn"), findings["fabric"]
    assert "engine can open" in findings["fabric"]["message"]
    assert findings["netem"]["status"] == "ok", "without netem labs are the fabric's"
    assert findings["file server"]["status"] == "ok", findings["file server"]
    assert "Samba" in findings["file server"]["message"]
    assert "reno" in findings["tcp"]["message"]
    assert findings["engine"]["status"] in ("ok", "warn"), findings["engine"]
    for finding in findings.values():
        assert bool(finding["hint"]) is (finding["status"] != "ok"), finding


def test_guests_are_listed_with_every_model_of_nic(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts(
        (7, 2, 22),
        frozenset({"virtio-net-pci", "e1000"}),
        frozenset({"tap", "vhost-user"}),
        Accelerator("tcg", "there is no KVM"),
    )
    monkeypatch.setattr(guests, "collect_facts", lambda accelerator: facts)
    monkeypatch.setattr(guests, "offered_functions", list)
    monkeypatch.setattr(guests, "has_iommu", lambda: False)
    first, *nics = guests.check_guests()
    assert first == Finding("guests", "ok", "QEMU 7.2.22, accelerator tcg (there is no KVM)")
    by_model = {finding.name.removeprefix("guest nic "): finding.message for finding in nics}
    assert list(by_model) == list(MODELS)
    assert by_model["virtio-net"] == "usable with guest image cloud or file-server or generic"
    assert by_model["e1000"] == "usable with guest image generic"
    assert ", with one pair of queues: `vhost-user` needs `vectors=0`" in by_model["vhost-user"]
    assert by_model["igb"].startswith("not usable: QEMU 7.2.22 has no device `igb`; ")
    assert by_model["vfio"].startswith("not usable: the IOMMU of this machine is missing or switched off")
    assert all(finding.status == "ok" and not finding.hint for finding in nics)


def test_functions_that_a_guest_may_get_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts((7, 2, 22), frozenset({"vfio-pci"}), frozenset(), Accelerator("kvm"))
    monkeypatch.setattr(guests, "has_iommu", lambda: True)
    assert guests.describe("vfio", facts).startswith("not usable: no network adapter has the driver vfio-pci")
    adapter = Function("0000:03:00.0", group="11")
    virtual = Function("0000:04:10.0", physical="0000:04:00.0", group="12")
    usable = "usable on a site with guest image generic: PCI functions "
    assert guests.describe("vfio", facts, [adapter, virtual]) == f"{usable}0000:03:00.0, 0000:04:10.0"
    assert guests.describe("sr-iov", facts, [adapter, virtual]) == f"{usable}0000:04:10.0"
    assert "not a virtual function" in guests.describe("sr-iov", facts, [adapter])


def test_machine_without_qemu_has_one_finding_about_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Facts(None, frozenset(), frozenset(), Accelerator("tcg"))
    monkeypatch.setattr(guests, "collect_facts", lambda accelerator: nothing)
    (finding,) = guests.check_guests()
    message = "qemu-system-x86_64 is not installed; points with guests cannot be measured"
    assert finding == Finding("guests", "ok", message)


def test_forbidden_namespaces_fail_with_their_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EnvironmentError_("user namespaces are switched off", "switch them on")

    monkeypatch.setattr("hakaru.lab.sandbox.check", refuse)
    assert doctor.check_sandbox() == Finding("namespaces", "fail", "user namespaces are switched off", "switch them on")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo usage", "is not a working hakaru-engine"),
        ("exit 1", "is not a working hakaru-engine"),
        ("""echo '{"type":"hello","contract":99,"version":"9"}'""", "does not implement contract 1"),
    ],
)
def test_unusable_engine_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    program = tmp_path / "hakaru-engine"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("HAKARU_ENGINE", str(program))
    finding = doctor.check_engine()
    assert (finding.status, message in finding.message) == ("fail", True)
    assert "pip install" in finding.hint


@pytest.mark.parametrize(
    ("check", "reading", "status"),
    [
        (doctor.check_overcommit, "2", "warn"),
        (doctor.check_overcommit, "0", "ok"),
        (doctor.check_clock, "hpet", "warn"),
        (doctor.check_clock, "tsc", "ok"),
        (doctor.check_crc32c, "flags\t\t: fpu sse4_2 avx", "ok"),
        (doctor.check_crc32c, "Features\t: fp asimd crc32", "ok"),
        (doctor.check_crc32c, "flags\t\t: fpu", "warn"),
    ],
)
def test_settings_of_the_machine_are_judged(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[], Finding], reading: str, status: str
) -> None:
    monkeypatch.setattr("hakaru.doctor.checks._read", lambda path: reading)
    finding = check()
    assert finding.status == status
    assert bool(finding.hint) is (status != "ok")


@pytest.mark.parametrize(
    ("is_permitted", "flags", "status"),
    [(True, "hypervisor", "ok"), (False, "hypervisor", "warn"), (False, "sse4_2", "ok")],
)
def test_stops_that_cannot_be_found_are_a_warning_under_a_hypervisor(
    monkeypatch: pytest.MonkeyPatch, is_permitted: bool, flags: str, status: str
) -> None:
    def set_scheduler(pid: int, policy: int, parameter: os.sched_param) -> None:
        if not is_permitted:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", set_scheduler)
    monkeypatch.setattr("hakaru.doctor.checks._read", lambda path: f"flags\t\t: {flags}")
    finding = doctor.check_stops()
    assert (finding.name, finding.status) == ("processor stops", status)
    assert ("not found" in finding.message) is not is_permitted
    assert ("rtprio" in finding.hint) is (status == "warn")


def test_asking_for_stops_leaves_the_priority_of_the_process() -> None:
    before = os.sched_getscheduler(0)
    doctor.check_stops()
    assert os.sched_getscheduler(0) == before


def test_occupied_port_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(doctor, "_ISCSI_PORT", server.getsockname()[1])
        finding = doctor.check_iscsi_port()
        assert finding.status == "warn" and "Address already in use" in finding.message
    assert doctor.check_iscsi_port().status == "ok"


def test_file_system_without_holes_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    # An unknown mode is refused in the same way as PUNCH_HOLE by a file system without holes.
    monkeypatch.setattr(system_calls, "_FALLOC_FL_PUNCH_HOLE", 1 << 20)
    finding = doctor.check_array_files()
    assert finding.status == "warn" and "UNMAP would not free space" in finding.message
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    finding = doctor.check_array_files()
    assert finding.status == "warn" and "No space left on device" in finding.message and finding.hint


@pytest.mark.parametrize(
    ("kind", "allowed", "status"), [("user", 212_992, "warn"), ("user", 4 << 20, "ok"), ("root", 0, "ok")]
)
def test_small_sockets_of_a_rootless_fabric_are_a_warning_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, kind: str, allowed: int, status: str
) -> None:
    monkeypatch.setattr(doctor, "_try_lab", lambda *_: Finding("fabric", "ok", "it stands"))
    monkeypatch.setattr(doctor, "_read", lambda _: str(allowed))
    monkeypatch.setattr("hakaru.lab.sandbox.kind_here", lambda: kind)
    finding = doctor.check_fabric()
    assert finding.status == status
    assert ("net.core.rmem_max=4194304" in finding.hint) is (status == "warn")
