"""Management of a serving array: changes take effect, initiators see them, and they survive a
restart.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from hakaru.array.state import RECORD

from tests.array.serving import array_file, error_of, hakaru, json_of, served, stdout_of, until
from tests.peers.array import need, run

MIB = 1 << 20
THIN = """\
pools:
  - {name: main, page: 64 KiB, groups: [{name: g0, size: 8 MiB}]}
lus:
  - {lun: 0, size: 64 MiB, store: {kind: thin, pool: main}}
  - {lun: 1, size: 8 MiB, store: {kind: memory}}
"""


def qemu_io(url: str, *commands: str) -> subprocess.CompletedProcess[str]:
    """`qemu-io`: `write -P 7 0 64k`, `read -P 7 0 64k` (fails if a byte differs)."""
    program = need("qemu-io", "qemu-utils")
    options = [argument for command in commands for argument in ("-c", command)]
    # qemu-io opens a write-protected LU only read-only.
    mode = ["-r"] if all(command.startswith("read") for command in commands) else []
    return subprocess.run(
        [program, *mode, "-f", "raw", *options, url], capture_output=True, text=True, timeout=60, check=False
    )


def succeeds(url: str, *commands: str) -> None:
    result = qemu_io(url, *commands)
    output = result.stdout + result.stderr
    assert result.returncode == 0 and "failed" not in output and "error" not in output.lower(), output


def fails(url: str, command: str) -> str:
    result = qemu_io(url, command)
    output = result.stdout + result.stderr
    assert result.returncode != 0 or "failed" in output, output
    return output


def luns(file: Path) -> dict[int, str]:
    """Return LUN → store of every LU."""
    return {lu["lun"]: lu["store"] for lu in json_of("array", "status", file)["lus"]}


def test_full_pool_refuses_writes_that_need_space_until_it_grows(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        succeeds(array.url(), "write -P 1 0 4M")
        # The first page of a group holds no data.
        succeeds(array.url(), "write -P 2 4M 4032k")
        assert "No space left" in fails(array.url(), "write -P 4 16M 64k")
        succeeds(array.url(), "read -P 1 0 4M", "write -P 3 0 1M")
        assert "pool main is full" in stdout_of("array", "status", file)
        assert "has group g1" in stdout_of("array", "grow", file, "main", "g1", "16 MiB")
        succeeds(array.url(), "write -P 4 16M 8M", "flush")
        array.end()
    with served(file) as array:
        succeeds(array.url(), "read -P 3 0 1M", "read -P 1 1M 3M", "read -P 2 4M 4032k", "read -P 4 16M 8M")
        (pool,) = json_of("array", "status", file)["pools"]
        assert [group["name"] for group in pool["groups"]] == ["g0", "g1"]
        assert pool["used_bytes"] == 16 * MIB - 65_536
        array.end()
    assert stdout_of("array", "check", file).startswith("main: clean")


def test_snapshots_and_clones_keep_their_data_across_a_kill(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        succeeds(array.url(), "write -P 1 0 1M", "flush")
        assert stdout_of("array", "snapshot", file, "0", "before") == "main/before is created\n"
        assert stdout_of("array", "snapshot", file, "main/lu-0", "shown", "--lun", "9") == "main/shown is LU 9\n"
        succeeds(array.url(), "write -P 2 0 1M", "flush")
        assert stdout_of("array", "clone", file, "main/before", "test") == "main/test is LU 2\n"
        succeeds(array.url(2), "read -P 1 0 1M", "write -P 3 0 512k", "flush")
        succeeds(array.url(9), "read -P 1 0 1M")
        fails(array.url(9), "write -P 4 0 512")
        array.end(signal.SIGKILL)
    with served(file) as array:
        assert luns(file) == {0: "main/lu-0", 1: "memory", 2: "main/test", 9: "main/shown"}
        thin = {lu["lun"]: lu["thin"] for lu in json_of("array", "status", file)["lus"]}
        assert thin == {0: True, 1: False, 2: True, 9: True}
        succeeds(array.url(), "read -P 2 0 1M")
        succeeds(array.url(2), "read -P 3 0 512k", "read -P 1 512k 512k")
        succeeds(array.url(9), "read -P 1 0 1M")
        fails(array.url(9), "write -P 4 0 512")
        names = {v["name"]: v["origin"] for v in json_of("array", "status", file)["pools"][0]["volumes"]}
        assert names == {"lu-0": None, "before": "lu-0", "shown": "lu-0", "test": "before"}


def test_created_lu_is_visible_to_initiators_and_stays_deleted(tmp_path: Path) -> None:
    iscsi_ls = need("iscsi-ls", "libiscsi-bin")
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        made = json_of("array", "create", file, "main/new", "32 MiB", "--quota", "1 MiB", "--block", "4096")
        assert made == {"volume": "main/new", "lun": 2}
        assert "Lun:2" in run(iscsi_ls, "-s", f"iscsi://{array.portal}")
        succeeds(array.url(2), "write -P 5 0 1M")
        assert "No space left" in fails(array.url(2), "write -P 5 1M 64k")
        assert json_of("array", "delete", file, "main/new") == {"volume": "main/new", "luns": [2]}
        assert "Lun:2" not in run(iscsi_ls, "-s", f"iscsi://{array.portal}")
        array.end()
    with served(file):
        assert luns(file) == {0: "main/lu-0", 1: "memory"}


def test_resized_volume_is_reported_and_persists(tmp_path: Path) -> None:
    capacity = need("iscsi-readcapacity16", "libiscsi-bin")
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        json_of("array", "clone", file, "0", "copy")
        # A snapshot without an LU keeps the block length of its source for the LUs of its clones.
        json_of("array", "create", file, "main/large", "32 MiB", "--block", "4096")
        stdout_of("array", "snapshot", file, "main/large", "before")
        json_of("array", "clone", file, "main/before", "after")
        for volume in ("0", "main/copy"):
            json_of("array", "resize", file, volume, "96 MiB")
        array.end()
    with served(file) as array:
        for lun in (0, 2):
            assert f"Total size:{96 * MIB}" in run(capacity, array.url(lun))
        for lun, length in ((2, 512), (3, 4096), (4, 4096)):
            assert f"LOGICAL BLOCK LENGTH IN BYTES:{length}\n" in run(capacity, array.url(lun))
        message = error_of(hakaru("array", "resize", file, "0", "64 MiB"), 2)
        assert "main/lu-0 has 96 MiB, and a volume cannot be made smaller" in message


def test_declared_lu_can_be_deleted_only_after_its_removal_from_the_file(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        succeeds(array.url(), "write -P 1 0 1M")
        message = error_of(hakaru("array", "delete", file, "main/lu-0"), 2)
        assert "would exist again, empty" in message and "nothing was deleted" in message
        succeeds(array.url(), "read -P 1 0 1M")
        array_file(tmp_path, "".join(line for line in THIN.splitlines(True) if "lun: 0" not in line))
        json_of("array", "delete", file, "main/lu-0")
        assert luns(file) == {1: "memory"}
        array.end()
    array_file(tmp_path, THIN)
    with served(file) as array:
        succeeds(array.url(), "read -P 0 0 1M")


def test_lun_assigned_online_cannot_be_declared_for_another_volume(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        json_of("array", "create", file, "main/new", "32 MiB")
        array.end()
    array_file(tmp_path, THIN + "  - {lun: 2, size: 8 MiB, store: {kind: memory}}\n")
    message = error_of(hakaru("array", "serve", file), 2)
    assert f"{file}:9:" in message and "LUN 2 was assigned to main/new online" in message
    array_file(tmp_path, THIN + "  - {lun: 5, size: 16 MiB, store: {kind: thin, pool: main, volume: new}}\n")
    with served(file):
        lus = {lu["lun"]: lu for lu in json_of("array", "status", file)["lus"]}
        assert lus[5]["store"] == "main/new" and lus[5]["declared"] and lus[5]["size_bytes"] == 32 * MIB
        assert 2 not in lus, "the file takes precedence once it declares the volume"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["grow", "A", "other", "g1", "8 MiB"], 'there is no pool "other"'),
        (["grow", "A", "main", "g0", "8 MiB"], "the name is taken"),
        (["grow", "A", "main", "../g", "8 MiB"], "group: write a name of up to 64 letters"),
        (["grow", "A", "main", "g1", "8"], "SIZE: a size is a number and a unit"),
        (["create", "A", "main/lu-0", "8 MiB"], "a volume lu-0 already"),
        (["create", "A", "main/x", "8 MiB", "--lun", "1"], "LUN 1 is in use"),
        (["create", "A", "main/x", "8 MiB", "--lun", "256"], "Must be <= 255"),
        (["create", "A", "main/x", "1000 B"], "size_bytes"),
        (["create", "A", "x", "8 MiB"], "volume: write POOL/NAME"),
        (["snapshot", "A", "1", "x"], "LU 1 is stored in memory"),
        (["snapshot", "A", "7", "x"], "there is no LU 7"),
        (["snapshot", "A", "0", "lu-0"], "the name is taken"),
        (["clone", "A", "main/none", "x"], "no such volume"),
        (["resize", "A", "1", "16 MiB"], "LU 1 is stored in memory"),
        (["resize", "A", "0", "67108865 B"], "is not a whole number of"),
        (["delete", "A", "main/none"], "no such volume"),
        (["delete", "A", "0"], "volume: write POOL/NAME"),
        (["port", "A", "7", "standby"], "there is no portal 7"),
        (["check", "A"], "is served by process"),
    ],
)
def test_invalid_command_is_refused_and_changes_nothing(array: Path, arguments: list[str], expected: str) -> None:
    record = array.with_name("array.state") / RECORD
    before = record.read_bytes() if record.exists() else b""
    status = json_of("array", "status", array)
    result = hakaru("array", *[str(array) if argument == "A" else argument for argument in arguments])
    assert expected in error_of(result, 3 if arguments[0] == "check" else 2)
    after = json_of("array", "status", array)
    assert (after["lus"], after["pools"]) == (status["lus"], status["pools"])
    if record.exists():
        assert json.loads(record.read_bytes()) == json.loads(
            before or b'{"format":1,"lus":[],"sizes":{},"groups":[],"blocks":{}}'
        )


def test_port_state_can_be_set_and_is_shown(array: Path) -> None:
    assert json_of("array", "port", array, "0", "non_optimized")["state"] == "non_optimized"
    assert [port["state"] for port in json_of("array", "status", array)["ports"]] == ["non_optimized"]
    assert "(non_optimized)" in stdout_of("array", "status", array)
    begun = stdout_of("array", "port", array, "0", "optimized", "--transition", "8s")
    assert begun.endswith(" will be optimized in 8 s\n")
    states: list[str] = []
    while "optimized" not in states:
        states += [port["state"] for port in json_of("array", "status", array)["ports"]]
    assert set(states[:-1]) == {"transitioning"}
    assert stdout_of("array", "port", array, "0", "optimized").endswith(" is optimized\n")


def test_state_is_that_of_every_portal_of_a_group(tmp_path: Path) -> None:
    groups = "[{portals: [0, 2], preferred: true}]"
    file = array_file(tmp_path, portals='["127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"]', port_groups=groups)
    with served(file):
        first, second, third = json_of("array", "status", file)["portals"]
        assert stdout_of("array", "port", file, "2", "standby") == f"{first} is standby\n{third} is standby\n"
        assert json_of("array", "port", file, "1", "optimized")["portals"] == [second]
        ports = json_of("array", "status", file)["ports"]
    assert [(port["state"], port["group"], port["preferred"]) for port in ports] == [
        ("standby", 1, True),
        ("optimized", 2, False),
        ("standby", 1, True),
    ]


def test_transition_shorter_than_a_millisecond_is_refused(array: Path) -> None:
    message = error_of(hakaru("array", "port", array, "0", "standby", "--transition", "999 µs"), 2)
    assert "--transition: shorter than 1 ms" in message and "choose at least 1 ms" in message
    assert [port["state"] for port in json_of("array", "status", array)["ports"]] != ["standby"]


def test_status_of_pools_fits_a_small_terminal(array: Path) -> None:
    shown = stdout_of("array", "status", array, NO_COLOR="1", COLUMNS="80")
    assert max(map(len, shown.splitlines())) <= 80
    assert "main/lu-0" in shown and "64 MiB" in shown


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> object:
    file = array_file(tmp_path_factory.mktemp("array"), THIN)
    with served(file):
        yield file


def test_damaged_pool_is_refused_with_a_reason_and_left_unchanged(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    with served(file) as array:
        succeeds(array.url(), "write -P 1 0 4M", "flush")
        array.end()
    directory = tmp_path / "array.state" / "pools" / "main"
    metadata = max((path for path in directory.iterdir() if path.suffix != ".group"), key=lambda p: p.stat().st_size)
    healthy = metadata.read_bytes()
    damaged = bytearray(healthy)
    for at in range(0, len(damaged), 512):
        damaged[at] ^= 0xFF
    metadata.write_bytes(damaged)
    message = error_of(hakaru("array", "serve", file), 3)
    assert str(directory) in message
    checked = hakaru("array", "check", file)
    assert checked.returncode == 6, checked
    assert checked.stdout.startswith("main: damaged") and len(checked.stdout.splitlines()) > 1
    assert metadata.read_bytes() == damaged, "nothing is repaired automatically"
    metadata.write_bytes(healthy)
    assert stdout_of("array", "check", file).startswith("main: clean")


def test_reused_lun_has_no_reservations_of_its_predecessor(tmp_path: Path) -> None:
    file = array_file(tmp_path, THIN)
    reservations = tmp_path / "array.state" / "reservations" / "lun-2.reservations"
    with served(file) as array:
        # A file that remains if the array is killed during a deletion.
        reservations.write_bytes(b"another LU's")
        assert json_of("array", "create", file, "main/new", "32 MiB")["lun"] == 2
        # The array removes it on a thread; until then, its first line belongs to another volume.
        until(lambda: not reservations.exists(), "the file of the predecessor remains")
        succeeds(array.url(2), "write -P 1 0 1M")
