"""Partitions of virtual disks: the table that hakaru writes is read by other programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hakaru.fileserver import partition
from hakaru.fileserver.chain_spec import SIZED_LAYERS, ChainSpec
from hakaru.fileserver.virtual_disk import VirtualDisk

MIB = 1 << 20


@pytest.mark.parametrize("start", [63, 2048])
def test_table_has_one_partition_that_ends_with_the_disk(tmp_path: Path, start: int) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(partition.table(start, 64 * MIB).ljust(64 * MIB, b"\0"))
    shown = ["partx", "--show", "--noheadings", "--output", "NR,START,SECTORS,TYPE", str(disk)]
    found = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["1", str(start), str(64 * MIB // 512 - start), "0x83"]


def test_commands_write_the_table_and_map_what_they_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for size in (64 * MIB, 96 * MIB):
        # The data behind the table stay.
        disk.write_bytes(disk.read_bytes().ljust(size, b"\1") if disk.exists() else b"\1" * size)
        shell(partition.write_command(63, size, str(disk)))
        assert disk.read_bytes() == partition.table(63, size).ljust(size, b"\1")
        assert shell(partition.mapping_command(str(disk))) == f"0 {size // 512 - 63} linear {disk} 63\n"


def shell(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout


def test_table_of_the_largest_disk_counts_all_sectors_but_the_first_ones() -> None:
    table = partition.table(2048, partition.DISK_MAX_BYTES)
    assert int.from_bytes(table[458:462], "little") == (1 << 32) - 1 - 2048


def test_only_a_disk_with_a_partition_has_the_layer() -> None:
    disk = VirtualDisk(format="raw", size="64 MiB")
    assert ChainSpec(disk, partition_start=63).sized_layers == SIZED_LAYERS
    assert ChainSpec(disk).sized_layers == tuple(name for name in SIZED_LAYERS if name != "partition")
