"""`hakaru array serve` on the real engine: starting, being asked, ending, and starting again."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hakaru.array.state import LOCK, RECORD, SOCKET

from tests.array.serving import MEMORY, Served, array_file, asked, done, hakaru, refused, served
from tests.peers.array import need, run


def until(holds: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def ended(pid: int) -> bool:
    """The process is no more (a zombie that nobody reaped has ended)."""
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


def test_what_the_file_says_of_an_lu_is_what_initiators_are_told(tmp_path: Path) -> None:
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
        socket.create_connection((host, int(port)), timeout=10).close()
        assert array.ready["event"] == "ready"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with served(array_file(tmp_path)) as array:
        said = array.end(number)
        assert array.process.returncode == 0, said
        assert "error" not in said
        assert ended(array.engine)
        assert not (array.state / SOCKET).exists()


def test_sigkill_leaves_nothing_running_and_the_next_start_works(tmp_path: Path) -> None:
    file = array_file(tmp_path)
    with served(file) as array:
        array.end(signal.SIGKILL)
        until(lambda: ended(array.engine), "the engine outlived who started it")
        assert (array.state / SOCKET).exists(), "a killed process cannot take its socket away"
        refused(hakaru("array", "status", file), 3)
    with served(file):
        assert asked("array", "status", file)["lus"][0]["lun"] == 0


def test_second_start_on_the_same_state_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    file = array_file(tmp_path)
    with served(file) as array:
        began = time.monotonic()
        message = refused(hakaru("array", "serve", file), 3)
        assert f"served by process {array.process.pid}" in message
        assert time.monotonic() - began < 10
        assert asked("array", "status", file)["pid"] == array.process.pid, "the first one goes on"


def test_lost_engine_ends_it_with_7_and_its_last_words(tmp_path: Path) -> None:
    with served(array_file(tmp_path)) as array:
        os.kill(array.engine, signal.SIGKILL)
        _, said = array.process.communicate(timeout=60)
        assert array.process.returncode == 7
        assert "was lost: ended by SIGKILL" in said
        assert not (array.state / SOCKET).exists()


def test_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        file = array_file(tmp_path, portals=json.dumps([taken]))
        assert taken in refused(hakaru("array", "serve", file), 3)
        assert "serve metrics on " + taken in refused(
            hakaru("array", "serve", array_file(tmp_path), "--metrics", taken), 3
        )


def test_data_in_a_file_are_there_after_a_restart(tmp_path: Path) -> None:
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
    ("path", "what", "advice"),
    [
        (".", "Is a directory", "name a file inside it"),
        ("missing/lu.img", "No such file", "make the directory first"),
        ("/dev/null", "neither a file nor a block device", "block device"),
        ("notes.txt", "is there already, with 5 bytes", "adopt: true"),
    ],
)
def test_path_that_no_lu_can_be_at_is_refused_with_its_place_in_the_file(
    tmp_path: Path, path: str, what: str, advice: str
) -> None:
    (tmp_path / "notes.txt").write_text("milk\n")
    file = array_file(tmp_path, MEMORY + f"  - {{lun: 3, size: 8 MiB, store: {{kind: file, path: {path}}}}}\n")
    result = hakaru("array", "serve", file)
    said = refused(result, result.returncode)
    assert result.returncode in (2, 3)
    assert said.startswith(f"{file}:6:") and "lus[1].store.path: " in said
    assert what in said and advice in said, said
    assert (tmp_path / "notes.txt").read_text() == "milk\n"


def test_state_directory_that_cannot_be_is_refused_with_its_place_in_the_file(tmp_path: Path) -> None:
    file = array_file(tmp_path, state="/dev/null")
    said = refused(hakaru("array", "serve", file), 3)
    assert said.startswith(f"{file}:4:") and "state" in said


def test_state_is_its_owners_alone(tmp_path: Path) -> None:
    with served(array_file(tmp_path)) as array:
        assert stat.S_IMODE(array.state.stat().st_mode) == 0o700
        assert stat.S_IMODE((array.state / SOCKET).stat().st_mode) == 0o600
        assert stat.S_IMODE((array.state / LOCK).stat().st_mode) == 0o600


def test_state_directory_may_lie_deeper_than_a_socket_address_reaches(tmp_path: Path) -> None:
    deep = "/".join(["a" * 60] * 4)
    file = array_file(tmp_path, state=deep)
    with served(file) as array:
        assert len(str(array.state / SOCKET)) > 108
        assert asked("array", "status", file)["pid"] == array.process.pid
        assert asked("array", "status", array.state)["pid"] == array.process.pid


@pytest.mark.parametrize("record", ["", "{", "[]", '{"format": 2}', '{"format": 1, "more": 1}'])
def test_damaged_record_is_refused_and_left_as_it_is(tmp_path: Path, record: str) -> None:
    file = array_file(tmp_path)
    state = tmp_path / "array.state"
    state.mkdir()
    (state / RECORD).write_text(record)
    assert "state.json is damaged or of another version" in refused(hakaru("array", "serve", file), 3)
    assert (state / RECORD).read_text() == record


def test_systemd_is_told(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(20)
        array = Served(array_file(tmp_path), NOTIFY_SOCKET=str(address))
        assert manager.recv(4096).decode() == f"READY=1\nSTATUS=serving {array.portal}"
        array.end()
        assert manager.recv(4096) == b"STOPPING=1"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "Invalid JSON"),
        (b"{}\n", "command"),
        (b'{"command": "format"}\n', "command"),
        (b'{"command": "status", "x": 1}\n', "x: Extra inputs are not permitted"),
        (b"\xff\n", "not a request"),
        (b"x" * (64 << 10) + b"y\n", "longer than 64 KiB"),
    ],
)
def test_what_is_no_request_is_refused(array: Served, line: bytes, said: str) -> None:
    with array.connect() as client:
        client.sendall(line)
        reply = json.loads(client.makefile().readline())
    assert reply["error"]["exit_code"] == 2
    assert said in reply["error"]["message"]


def test_one_connection_may_ask_many_times_and_clients_do_not_wait_for_one_another(array: Served) -> None:
    with array.connect() as silent, array.connect() as client:
        silent.sendall(b'{"command"')
        lines = client.makefile()
        for _ in range(3):
            client.sendall(b'{"command": "status"}\n')
            assert "value" in json.loads(lines.readline())


def test_clients_beyond_the_limit_are_turned_away(array: Served) -> None:
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
    until(lambda: hakaru("array", "status", array.file).returncode == 0, "it answers again")


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> object:
    with served(array_file(tmp_path_factory.mktemp("array"))) as running:
        yield running


@pytest.mark.parametrize("language", ["C", "ja_JP.UTF-8"])
def test_status_fits_a_small_terminal_in_any_locale(array: Served, language: str) -> None:
    shown = done("array", "status", array.file, LC_ALL=language, NO_COLOR="1", COLUMNS="80")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "8 MiB" in shown and "memory" in shown
