"""The files engine on a real SMB server: trees, loads, refusals, and servers that are lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import files_engine
from tests.engine.files_engine import MARKER, Ended, first_file, trees
from tests.engine.smb_server import SmbServer, need_server, smb_server
from tests.peers.array import Engine


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SmbServer]:
    folder = tmp_path / "share"
    folder.mkdir()
    with smb_server(folder) as running:
        yield running


def task(name: str, destination: dict[str, Any]) -> dict[str, Any]:
    built = {"trees": trees()} if name == "build" else {}
    return {"engine": "files", "task": name, "destination": destination} | built


def load(destination: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return files_engine.load(Path("/"), **settings) | {"destination": destination}


def built(server: SmbServer) -> Path:
    ended = Ended(task("build", server.destination()), server.inside)
    assert ended.code == 0, ended.events
    return server.folder / "trees"


def test_trees_over_smb_are_those_of_a_directory_and_leave_no_trace(server: SmbServer, tmp_path: Path) -> None:
    folder = built(server)
    assert Ended(files_engine.build(tmp_path / "local")).code == 0

    def contents(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.glob("t0*/**/*") if path.is_file()}

    assert contents(folder) == contents(tmp_path / "local")
    verified = Ended(task("verify", server.destination()), server.inside)
    assert (verified.code, verified.values["files_done"], verified.values["files_wrong"]) == (0, 600, 0)
    # The same trees by the file system of the server.
    assert Ended(files_engine.verify(folder)).code == 0
    again = Ended(task("build", server.destination()), server.inside)
    assert again.values["files_kept"] == 600
    assert Ended(task("remove", server.destination()), server.inside).code == 0
    assert list(server.folder.iterdir()) == []


def test_damaged_and_missing_files_are_named(server: SmbServer) -> None:
    folder = built(server)
    wrong, short, missing = sorted(path for path in folder.glob("t00001/**/f*") if path.stat().st_size > 2)[:3]
    content = wrong.read_bytes()
    wrong.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.truncate(short, 1)
    missing.unlink()
    ended = Ended(task("verify", server.destination()), server.inside)
    assert ended.code == 6
    assert "3 files differ" in ended.failure
    for path, problem in (
        (wrong, f"byte {len(content) - 1} is wrong"),
        (short, "it has 1 bytes instead of"),
        (missing, "STATUS_OBJECT_NAME_NOT_FOUND"),
    ):
        place = f"smb://127.0.0.1:445/data/{path.relative_to(server.folder)}"
        assert any(message.startswith(place) and problem in message for message in ended.complaints)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"compound": "none"},
        {"compound": "file"},
        {"compound": "file", "encryption": "required"},
        {"compound": "file", "signing": "required", "dialects": ["3.0.2"]},
        {"compound": "file", "credits": 4},
        {"signing": "required"},
        {"encryption": "required"},
        {"encryption": "required", "ciphers": ["aes_128_ccm"], "compound": "none"},
        {"dialects": ["2.1"], "credits": 1, "compound": "none"},
        {"credits": 8192},
    ],
)
def test_load_uses_every_target_once_and_reports_each_operation(server: SmbServer, settings: dict[str, Any]) -> None:
    built(server)
    ended = Ended(load(server.destination(**settings), verify=True, flush=True), server.inside)
    assert ended.code == 0, ended.events
    values = ended.values
    assert values["files_read"] + values["files_written"] == 600
    assert values["flushes"] == values["files_written"]
    assert values["verified_bytes"] == values["read_bytes"] > 0
    assert (values["errors"], values["units_done"]) == (0, 3)
    (ready,) = ended.of("ready")
    assert ready["found"]["directory"] == "smb://127.0.0.1:445/data/trees"
    facts = ready["found"]["smb"]
    assert facts["dialect"] == (settings["dialects"][0] if "dialects" in settings else "3.1.1")
    assert (facts["signing"] is not None) == ("signing" in settings)
    cipher = settings.get("ciphers", ["aes_128_gcm"])[0]
    assert facts["encryption"] == (cipher if "encryption" in settings else None)
    names = {histogram["name"] for histogram in ended.of("result")[0]["histograms"]}
    assert names == {
        f"{name}_latency_ns"
        for name in ("lookup", "open", "read", "write", "flush", "close", "file_read", "file_write")
    }
    assert Ended(task("verify", server.destination()), server.inside).code == 0


def test_large_files_have_several_transfers_in_flight(server: SmbServer) -> None:
    # Files of 2 KB on average.
    settings = {"trees": trees(scale="1/500"), "build": True, "verify": True, "flush": True, "block_bytes": 512}
    config = load(server.destination(compound="file", folder_cache=True), **settings)
    apart, ahead = Ended(config | {"destination": server.destination()}, server.inside), Ended(config, server.inside)
    assert (apart.code, ahead.code) == (0, 0), ahead.events
    same = ("files_read", "files_written", "reads", "writes", "opens", "closes", "flushes", "read_bytes", "errors")
    assert {name: ahead.values[name] for name in same} == {name: apart.values[name] for name in same}
    assert ahead.values["writes"] > 2 * ahead.values["files_written"] > 0
    # Each folder that has targets is looked up once for its tree, with those above it.
    assert ahead.values["lookups"] == 3 * 9 < apart.values["lookups"]
    assert Ended(task("verify", server.destination()), server.inside).code == 0


def test_load_of_metadata_builds_and_removes_its_trees(server: SmbServer) -> None:
    config = load(server.destination(), build=True, remove=True, profile="metadata")
    ended = Ended(config, server.inside)
    assert ended.code == 0, ended.events
    assert (ended.values["steps"], ended.values["errors"]) == (600, 0)
    assert list(server.folder.iterdir()) == []


def test_failed_operations_are_named_and_cost_only_their_files(server: SmbServer) -> None:
    removed = first_file(built(server))
    removed.unlink()
    ended = Ended(load(server.destination(), read_percent=100), server.inside)
    assert (ended.code, ended.values["errors"], ended.values["files_failed"]) == (0, 1, 1)
    (message,) = ended.complaints
    place = f"smb://127.0.0.1:445/data/{removed.relative_to(server.folder)}"
    assert message.startswith(f"open of {place} failed: STATUS_OBJECT_NAME_NOT_FOUND")


def test_sessions_that_the_server_refuses_are_named(server: SmbServer) -> None:
    built(server)
    wrong = {"kind": "password", "name": "hakaru", "password": {"kind": "text", "text": "wrong"}}
    for destination, code, message in (
        (server.destination(user=wrong), 7, "login refused: STATUS_LOGON_FAILURE"),
        (server.destination(user={"kind": "guest"}), 7, "login refused"),
        (server.destination(share="nowhere"), 7, "share refused: STATUS_BAD_NETWORK_NAME"),
        (server.destination(address="127.0.0.1:446"), 3, "cannot connect to smb://127.0.0.1:446/data/trees"),
        (server.destination(folder="nowhere"), 3, "cannot open smb://127.0.0.1:445/data/nowhere"),
        (server.destination(folder="a/../b"), 2, "destination.folder"),
        (server.destination(folder="a" * 32_760), 2, "destination.folder has 32760 UTF-16 units"),
        (server.destination(credits=2), 2, "destination.credits"),
        (server.destination(address="server"), 2, "destination.address"),
    ):
        ended = Ended(load(destination), server.inside)
        assert ended.code == code, ended.events
        assert message in ended.failure
        assert "wrong" not in ended.failure
    refused = Ended(load(server.destination(), cold=True), server.inside)
    assert (refused.code, "`cold`" in refused.failure) == (2, True)
    archive = Ended(task("build", server.destination(folder="other", share="archive")), server.inside)
    assert archive.code == 3
    assert "cannot open smb://127.0.0.1:445/archive/other: STATUS_ACCESS_DENIED" in archive.failure


def test_other_contents_and_trees_in_use_are_refused(server: SmbServer) -> None:
    folder = server.folder / "foreign"
    folder.mkdir()
    (folder / "letter.txt").write_text("precious")
    ended = Ended(task("build", server.destination(folder="foreign")), server.inside)
    assert ended.code == 2
    assert 'is not empty: it contains "letter.txt"' in ended.failure
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]
    built(server)
    engine = Engine(load(server.destination()), server.inside)
    try:
        refused = Ended(task("build", server.destination()), server.inside)
        assert refused.code == 3
        assert "in use by another process" in refused.failure
        engine.stop()
    finally:
        engine.close()


def test_killed_server_ends_the_load_with_its_reason_and_keeps_what_was_finished(server: SmbServer) -> None:
    config = load(server.destination(), build=True, tools=4, trees=trees(trees=40, targets=1000))
    engine = Engine(config, server.inside)
    try:
        engine.send({"type": "start", "at_ns": 0})
        while (sample := engine.wait_for("sample")["counters"]["files"])["units_done"] < 2:
            pass
        os.kill(server.samba.pid, signal.SIGKILL)
        assert engine.process.stdout is not None
        events = [json.loads(line) for line in engine.process.stdout]
        assert engine.process.wait(60) == 7
    finally:
        engine.close()
    samples = [event for event in events if event["type"] == "sample"]
    assert samples[-1]["counters"]["files"]["units_done"] >= sample["units_done"]
    (fatal,) = [event for event in events if event["type"] == "error" and event["fatal"]]
    assert "of smb://127.0.0.1:445/data/trees/t0" in fatal["message"]
    assert "session with smb://127.0.0.1:445/data/trees: connection lost" in fatal["message"]
    assert "check whether the file server still runs" in fatal["hint"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol error"),
        (b"\0\0\0\x04abcd", "protocol error"),
        (b"", "connection lost (closed by the server)"),
        (None, "no answer in time"),
    ],
)
def test_peers_that_are_no_smb_server_are_named(answer: bytes | None, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []

        def serve() -> None:
            connection, _ = listener.accept()
            accepted.append(connection)
            if answer is not None:
                connection.recv(4096)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        # Only a silent peer is given up; the others have time to answer.
        patience = {"connect_timeout_s": 0.5 if answer is None else 60.0}
        destination = {"kind": "smb", "address": address, "share": "data"} | patience
        ended = Ended(load(destination))
        thread.join()
        for connection in accepted:
            connection.close()
    assert ended.code in (3, 7)
    assert message in ended.failure


def test_full_disk_of_the_server_is_named_and_the_build_continues(tmp_path: Path) -> None:
    need_server()
    folder = tmp_path / "share"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=100", "tmpfs", str(folder)], check=True)
    try:
        with smb_server(folder) as server:
            full = Ended(task("build", server.destination()), server.inside)
            assert full.code == 3
            assert "STATUS_DISK_FULL" in full.failure
            assert "smb://127.0.0.1:445/data/trees/t0" in full.failure
            assert "free some space" in full.failure
            state = json.loads((folder / "trees" / MARKER).read_text())["state"]
            assert state == "building"
            subprocess.run(["mount", "-o", "remount,nr_inodes=2000", str(folder)], check=True)
            assert Ended(task("build", server.destination()), server.inside).code == 0
            assert Ended(task("verify", server.destination()), server.inside).code == 0
    finally:
        subprocess.run(["umount", str(folder)], check=True)
