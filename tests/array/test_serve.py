"""`hakaru array serve` on the real engine: start, requests, end and restart."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path

import pytest
from hakaru.array.state import LOCK, RECORD, SOCKET

from tests.array.serving import MEMORY, ServedArray, array_file, error_of, hakaru, json_of, served, stdout_of, until
from tests.peers.array import need, run


def ended(pid: int) -> bool:
    """Return whether a process has ended, even if it is not yet reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_initiators_see_the_lus_of_the_file(tmp_path: Path) -> None:
    iscsi_ls, iscsi_inq = need("iscsi-ls", "libiscsi-bin"), need("iscsi-inq", "libiscsi-bin")
    rest = MEMORY + "  - {lun: 3, size: 16 MiB, store: {kind: file, path: three.img}}\n"
    with served(array_file(tmp_path, rest)) as array:
        listed = run(iscsi_ls, "-s", f"iscsi://{array.portal}")
        assert "Lun:0" in listed and "Lun:3" in listed and "Lun:1" not in listed
        assert "Vendor:HAKARU" in run(iscsi_inq, array.url(3)).upper().replace("VENDOR", "Vendor")
    assert (tmp_path / "three.img").stat().st_size == 16 << 20


def test_initiators_see_the_lu_settings_of_the_file(tmp_path: Path) -> None:
    readcapacity, inquiry = need("iscsi-readcapacity16", "libiscsi-bin"), need("iscsi-inq", "libiscsi-bin")
    rest = MEMORY + "  - {lun: 1, size: 16 MiB, block: 4096, thin: true, removable: true, store: {kind: memory}}\n"
    with served(array_file(tmp_path, rest)) as array:
        for lun, block, flag in ((0, 512, 0), (1, 4096, 1)):
            capacity = run(readcapacity, array.url(lun))
            assert f"LENGTH IN BYTES:{block}\n" in capacity and f"LBPME:{flag} " in capacity
            assert f"Removable:{flag}\n" in run(inquiry, array.url(lun))


def test_ready_line_comes_when_initiators_can_connect(tmp_path: Path) -> None:
    with served(array_file(tmp_path)) as array:
        host, _, port = array.portal.rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        assert array.ready["event"] == "ready"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_server_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with served(array_file(tmp_path)) as array:
        stderr = array.end(number)
        assert array.process.returncode == 0, stderr
        assert "error" not in stderr
        assert ended(array.engine)
        assert not (array.state / SOCKET).exists()


def test_sigkill_leaves_nothing_running_and_the_next_start_works(tmp_path: Path) -> None:
    file = array_file(tmp_path)
    with served(file) as array:
        array.end(signal.SIGKILL)
        until(lambda: ended(array.engine), "the engine ends with its parent")
        assert (array.state / SOCKET).exists(), "a killed process cannot remove its socket"
        error_of(hakaru("array", "status", file), 3)
    with served(file):
        assert json_of("array", "status", file)["lus"][0]["lun"] == 0


def test_second_start_on_the_same_state_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    file = array_file(tmp_path)
    with served(file) as array:
        message = error_of(hakaru("array", "serve", file), 3)
        assert f"served by process {array.process.pid}" in message
        assert json_of("array", "status", file)["pid"] == array.process.pid, "the first server still runs"


def test_lost_engine_ends_the_server_with_exit_code_7_and_the_reason(tmp_path: Path) -> None:
    with served(array_file(tmp_path)) as array:
        os.kill(array.engine, signal.SIGKILL)
        _, stderr = array.process.communicate(timeout=60)
        assert array.process.returncode == 7
        assert "was lost: ended by SIGKILL" in stderr
        assert not (array.state / SOCKET).exists()


def test_occupied_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        used_address = f"127.0.0.1:{other.getsockname()[1]}"
        file = array_file(tmp_path, portals=json.dumps([used_address]))
        assert used_address in error_of(hakaru("array", "serve", file), 3)
        assert "serve metrics on " + used_address in error_of(
            hakaru("array", "serve", array_file(tmp_path), "--metrics", used_address), 3
        )


def test_data_of_a_file_lu_survive_a_restart(tmp_path: Path) -> None:
    qemu_img = need("qemu-img", "qemu-utils")
    rest = "lus:\n  - {lun: 0, size: 4 MiB, store: {kind: file, path: lu.img}}\n"
    file = array_file(tmp_path, rest)
    written = tmp_path / "written"
    written.write_bytes(os.urandom(4 << 20))
    with served(file) as array:
        run(qemu_img, "convert", "-n", "-f", "raw", "-O", "raw", str(written), array.url())
        array.end()
    with served(file) as array:
        read = tmp_path / "read"
        run(qemu_img, "convert", "-f", "raw", "-O", "raw", array.url(), str(read))
        assert read.read_bytes() == written.read_bytes()


@pytest.mark.parametrize(
    ("path", "problem", "advice"),
    [
        (".", "Is a directory", "name a file inside the directory"),
        ("missing/lu.img", "No such file", "create the directory first"),
        ("/dev/null", "neither a file nor a block device", "block device"),
        ("notes.txt", "already exists, with 5 bytes", "adopt: true"),
    ],
)
def test_unusable_lu_path_is_refused_with_its_place_in_the_file(
    tmp_path: Path, path: str, problem: str, advice: str
) -> None:
    (tmp_path / "notes.txt").write_text("milk\n")
    file = array_file(tmp_path, MEMORY + f"  - {{lun: 3, size: 8 MiB, store: {{kind: file, path: {path}}}}}\n")
    result = hakaru("array", "serve", file)
    message = error_of(result, result.returncode)
    assert result.returncode in (2, 3)
    assert message.startswith(f"{file}:6:") and "lus[1].store.path: " in message
    assert problem in message and advice in message, message
    assert (tmp_path / "notes.txt").read_text() == "milk\n"


def test_unusable_state_directory_is_refused_with_its_place_in_the_file(tmp_path: Path) -> None:
    file = array_file(tmp_path, state="/dev/null")
    message = error_of(hakaru("array", "serve", file), 3)
    assert message.startswith(f"{file}:4:") and "state" in message


def test_state_is_accessible_only_to_its_owner(tmp_path: Path) -> None:
    with served(array_file(tmp_path)) as array:
        assert stat.S_IMODE(array.state.stat().st_mode) == 0o700
        assert stat.S_IMODE((array.state / SOCKET).stat().st_mode) == 0o600
        assert stat.S_IMODE((array.state / LOCK).stat().st_mode) == 0o600


def test_state_directory_may_be_longer_than_a_socket_address(tmp_path: Path) -> None:
    deep = "/".join(["a" * 60] * 4)
    file = array_file(tmp_path, state=deep)
    with served(file) as array:
        assert len(str(array.state / SOCKET)) > 108
        assert json_of("array", "status", file)["pid"] == array.process.pid
        assert json_of("array", "status", array.state)["pid"] == array.process.pid


@pytest.mark.parametrize("record", ["", "{", "[]", '{"format": 2}', '{"format": 1, "more": 1}'])
def test_damaged_record_is_refused_and_left_unchanged(tmp_path: Path, record: str) -> None:
    file = array_file(tmp_path)
    state = tmp_path / "array.state"
    state.mkdir()
    (state / RECORD).write_text(record)
    assert "state.json is damaged or of another version" in error_of(hakaru("array", "serve", file), 3)
    assert (state / RECORD).read_text() == record


def test_systemd_is_notified(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        array = ServedArray(array_file(tmp_path), NOTIFY_SOCKET=str(address))
        assert manager.recv(4096).decode() == f"READY=1\nSTATUS=serving {array.portal}"
        array.end()
        assert manager.recv(4096) == b"STOPPING=1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"\n", "Invalid JSON"),
        (b"{}\n", "command"),
        (b'{"command": "format"}\n', "command"),
        (b'{"command": "status", "x": 1}\n', "x: Extra inputs are not permitted"),
        (b"\xff\n", "not a request"),
        (b"x" * (64 << 10) + b"y\n", "longer than 64 KiB"),
    ],
)
def test_invalid_request_is_refused(array: ServedArray, line: bytes, expected: str) -> None:
    with array.connect() as client:
        client.sendall(line)
        reply = json.loads(client.makefile().readline())
    assert reply["error"]["exit_code"] == 2
    assert expected in reply["error"]["message"]


def test_connection_serves_many_requests_and_clients_do_not_block_each_other(array: ServedArray) -> None:
    with array.connect() as silent, array.connect() as client:
        silent.sendall(b'{"command"')
        lines = client.makefile()
        for _ in range(3):
            client.sendall(b'{"command": "status"}\n')
            assert "value" in json.loads(lines.readline())


def test_clients_beyond_the_limit_are_disconnected(array: ServedArray) -> None:
    clients = [array.connect() for _ in range(40)]
    try:
        answered = 0
        for client in clients:
            try:
                client.sendall(b'{"command": "status"}\n')
                answered += bool(client.recv(1))
            except ConnectionError:
                continue
        assert answered == 32
    finally:
        for client in clients:
            client.close()
    until(lambda: hakaru("array", "status", array.file).returncode == 0, "the server answers again")


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> object:
    with served(array_file(tmp_path_factory.mktemp("array"))) as running:
        yield running


@pytest.mark.parametrize("language", ["C", "ja_JP.UTF-8"])
def test_status_fits_a_small_terminal_in_any_locale(array: ServedArray, language: str) -> None:
    shown = stdout_of("array", "status", array.file, LC_ALL=language, NO_COLOR="1", COLUMNS="80")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "8 MiB" in shown and "memory" in shown
