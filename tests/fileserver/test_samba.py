"""Samba in a node of a lab, as root and as an ordinary user, with smbclient in another node."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from hakaru.fileserver.confined import is_listening

from tests.fileserver.conftest import lines_of, need_samba, start
from tests.fileserver.scenario import USERS
from tests.lab.conftest import User
from tests.lab.test_leftovers import BUSY_WITHIN_S, marked_processes


@pytest.fixture(autouse=True)
def samba() -> None:
    need_samba()


def test_clients_store_and_read_files_and_are_refused_what_they_may_not_do(user: User) -> None:
    lines = lines_of(user, "serve", str(user.folder))
    described = lines[0]["described"]
    assert described["software"].startswith("Samba 4.")
    # Every setting that matters is in the record, and no password is.
    for name in ("strict sync", "smb2 max read", "server signing", "server multi channel support"):
        assert name in described["parameters"]
    assert not any(user.password in json.dumps(described) for user in USERS)
    assert [line["identical"] for line in lines if "identical" in line] == [True, True]
    clients = [line for line in lines if "share" in line]
    assert [line["status"] for line in clients] == [0, 0, 0, 1, 1, 0, 0, 1], clients
    refusals = [line["output"] for line in clients if line["status"]]
    assert "NT_STATUS_LOGON_FAILURE" in refusals[0]
    assert "NT_STATUS_ACCESS_DENIED opening remote file \\other" in refusals[1]
    assert "tree connect failed: NT_STATUS_ACCESS_DENIED" in refusals[2]
    assert lines[-1] == {"owned": True, "files": ["file", "public", "signed"]}


def test_killed_server_is_reported_by_its_name(user: User) -> None:
    (error,) = lines_of(user, "kill", str(user.folder), status=7)
    assert error["message"] == "file server fs-1 was lost: Samba ended with signal 9"
    assert "the end of its log: smbd version" in error["hint"]


def test_missing_directory_of_a_share_is_refused(user: User) -> None:
    (error,) = lines_of(user, "missing", str(user.folder), status=3)
    assert error["message"] == f"file server fs-1: {user.folder}/nowhere of share data is not a directory"


def test_step_that_the_machine_refuses_is_named(user: User) -> None:
    (error,) = lines_of(user, "refused", str(user.folder), status=3)
    expected = "file server fs-1 does not start: entering the network of the node failed: Invalid argument"
    assert error["message"] == expected
    assert "hakaru doctor" in error["hint"]


@pytest.mark.parametrize("victim", ["hakaru", "Samba's parent"])
@pytest.mark.parametrize("name", ["hold", "bare"])
def test_nothing_remains_after_sigkill(user: User, name: str, victim: str) -> None:
    if name == "bare" and user.name != "root":
        pytest.skip("an ordinary user can make no network namespace without a sandbox")
    process = start(user, name, str(user.folder))
    assert process.stdout is not None
    json.loads(process.stdout.readline())
    programs = {pid: program_of(pid) for pid in marked_processes(user.mark)}
    servers = {pid for pid, words in programs.items() if words[0].endswith("smbd")}
    parents = {pid for pid, words in programs.items() if any(word.endswith("confined.py") for word in words)}
    holders = {pid for pid, words in programs.items() if words[-2:] == [name, str(user.folder)]}
    assert servers and len(parents) == 1 and holders, programs
    # The command itself is the youngest of the processes of hakaru: supervisor, init, command.
    os.kill(max(holders) if victim == "hakaru" else parents.pop(), signal.SIGKILL)
    deadline = time.monotonic() + BUSY_WITHIN_S
    while (left := marked_processes(user.mark) & (servers | parents)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, {pid: programs[pid] for pid in left}
    process.kill()
    process.communicate()
    assert not list(user.folder.glob("*"))


def program_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1] or [""]


def test_a_port_listens_once_a_socket_does() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not is_listening(port), "it is only bound"
        server.listen()
        assert is_listening(port)
    assert not is_listening(port)
