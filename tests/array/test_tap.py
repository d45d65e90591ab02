"""Export and import of tape cartridges by the commands of users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.cli import main

from tests.array.serving import array_file, served

BLOCKS = [bytes([7]) * 80, bytes(range(81))]


def marker(length: int) -> bytes:
    return length.to_bytes(4, "little")


def tap() -> bytes:
    """Two blocks, each followed by a filemark."""
    out = b""
    for block in BLOCKS:
        out += marker(len(block)) + block + b"\0" * (len(block) % 2) + marker(len(block)) + marker(0)
    return out + marker(0xFFFFFFFF)


def test_a_file_comes_back_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, cartridge, copy = tmp_path / "in.tap", tmp_path / "HAK001L5.tape", tmp_path / "out.tap"
    source.write_bytes(tap())
    assert main(["array", "import", str(source), str(cartridge), "--capacity", "64 MiB"]) == 0
    assert capsys.readouterr().out == "copied 2 blocks with 161 B and 2 filemarks\n"
    assert main(["array", "export", str(cartridge), str(copy), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["blocks"], figures["bytes"], figures["filemarks"]) == (2, 161, 2)
    assert copy.read_bytes() == tap()


def test_refusals_name_file_and_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, cartridge = tmp_path / "in.tap", tmp_path / "HAK001L5.tape"
    source.write_bytes(tap()[:-20])
    assert main(["array", "import", str(source), str(cartridge)]) == 3
    shown = capsys.readouterr().err
    assert "in.tap cannot be imported: it ends inside the block at byte 92" in shown
    assert "no cartridge was created" in shown and not cartridge.exists()
    assert main(["array", "export", str(cartridge), str(tmp_path / "out.tap")]) == 3
    assert "HAK001L5.tape" in capsys.readouterr().err
    source.write_bytes(tap())
    assert main(["array", "import", str(source), str(cartridge), "--capacity", "1 KiB"]) == 2
    assert "the capacity is 1024 bytes" in capsys.readouterr().err


LIBRARY = """\
lus: []
tape_library:
  lun: 0
  drives: [{lun: 1}]
  slots: 1
  folder: tapes
  cartridges: [{barcode: HAK001L5}]
  capacity: 64 MiB
  times: {compression: 2}
"""


def test_cartridges_are_in_the_folder_beside_the_array_file_and_locked_while_it_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cartridge = tmp_path / "tapes" / "HAK001L5.tape"
    with served(array_file(tmp_path, LIBRARY)) as running:
        assert main(["array", "export", str(cartridge), str(tmp_path / "out.tap")]) == 3
        assert "stop the array that uses it" in capsys.readouterr().err
        running.end()
    assert main(["array", "export", str(cartridge), str(tmp_path / "out.tap")]) == 0
    assert (tmp_path / "out.tap").read_bytes() == marker(0xFFFFFFFF)


IN_POOL = """\
lus: []
pools: [{name: main, groups: [{name: g0, size: 8 MiB}]}]
tape_library:
  lun: 0
  drives: [{lun: 1}]
  slots: 2
  pool: main
  cartridges: [{barcode: HAK001L5}]
  capacity: 64 MiB
"""


def test_cartridges_in_a_pool_are_its_volumes_and_exchanged_through_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = array_file(tmp_path, IN_POOL)

    def volumes() -> dict[str, int]:
        with served(path) as running:
            assert main(["array", "status", str(path), "--json"]) == 0
            (pool,) = json.loads(capsys.readouterr().out)["pools"]
            running.end()
        return {volume["name"]: volume["mapped_bytes"] for volume in pool["volumes"]}

    assert volumes() == {"tape-HAK001L5": 256 << 10}, "an empty cartridge has one page"
    source, copy = tmp_path / "in.tap", tmp_path / "out.tap"
    source.write_bytes(tap())
    (directory,) = (found.parent for found in tmp_path.rglob("metadata"))
    cartridge = directory / "COPY1.tape"
    assert main(["array", "import", str(source), str(cartridge), "--capacity", "64 MiB"]) == 0
    assert main(["array", "export", str(cartridge), str(copy)]) == 0
    assert copy.read_bytes() == tap()
    capsys.readouterr()
    assert volumes() == {"tape-HAK001L5": 256 << 10, "tape-COPY1": 512 << 10}
