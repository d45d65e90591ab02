"""The doctor: every finding is honest here, and says what to do where something is missing."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hakaru import system_calls
from hakaru.doctor import Finding
from hakaru.doctor import checks as doctor
from hakaru.errors import EnvironmentError_

from .conftest import Someone


def test_doctor_finds_this_machine_fit_for_labs(someone: Someone) -> None:
    """Also from inside a sandbox, where the scenario runs."""
    done = someone.run("diagnose", timeout=120)
    assert done.returncode == 0, done.stderr
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {"namespaces", "links", "engine", "cores", "memory", "disk", "clock", "io_uring", "pdf"} <= set(findings)
    assert findings["namespaces"]["status"] == "ok"
    assert findings["links"]["status"] == "ok", findings["links"]
    assert "took" in findings["links"]["what"]
    assert findings["fabric"]["status"] in ("ok", "warn"), findings["fabric"]
    assert "engine opens" in findings["fabric"]["what"]
    assert findings["netem"]["status"] == "ok", "without netem labs are the fabric's"
    assert "reno" in findings["tcp"]["what"]
    assert findings["engine"]["status"] in ("ok", "warn"), findings["engine"]
    for finding in findings.values():
        assert bool(finding["hint"]) is (finding["status"] != "ok"), finding


def test_forbidden_namespaces_are_found_with_their_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EnvironmentError_("user namespaces are switched off", "switch them on")

    monkeypatch.setattr("hakaru.lab.sandbox.check", refuse)
    assert doctor.check_sandbox() == Finding("namespaces", "fail", "user namespaces are switched off", "switch them on")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo usage", "is no working hakaru-engine"),
        ("exit 1", "is no working hakaru-engine"),
        ("""echo '{"type":"hello","contract":99,"version":"9"}'""", "speaks another contract than 1"),
    ],
)
def test_engine_that_does_not_fit_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    program = tmp_path / "hakaru-engine"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("HAKARU_ENGINE", str(program))
    found = doctor.check_engine()
    assert (found.status, said in found.what) == ("fail", True)
    assert "pip install" in found.hint


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
    found = check()
    assert found.status == status
    assert bool(found.hint) is (status != "ok")


def test_port_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(doctor, "_ISCSI_PORT", other.getsockname()[1])
        found = doctor.check_iscsi_port()
        assert found.status == "warn" and "Address already in use" in found.what
    assert doctor.check_iscsi_port().status == "ok"


def test_file_system_without_holes_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    # A mode that no kernel knows is refused just as a file system without holes refuses PUNCH_HOLE.
    monkeypatch.setattr(system_calls, "_FALLOC_FL_PUNCH_HOLE", 1 << 20)
    found = doctor.check_array_files()
    assert found.status == "warn" and "UNMAP would give no space back" in found.what
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "allowed", "status"), [("user", 212_992, "warn"), ("user", 4 << 20, "ok"), ("root", 0, "ok")]
)
def test_small_sockets_of_a_rootless_fabric_are_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, kind: str, allowed: int, status: str
) -> None:
    monkeypatch.setattr(doctor, "_try_lab", lambda *_: Finding("fabric", "ok", "it stands"))
    monkeypatch.setattr(doctor, "_read", lambda _: str(allowed))
    monkeypatch.setattr("hakaru.lab.sandbox.kind_here", lambda: kind)
    found = doctor.check_fabric()
    assert found.status == status
    assert ("net.core.rmem_max=4194304" in found.hint) is (status == "warn")
