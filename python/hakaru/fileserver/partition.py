"""The partition of a virtual disk: a partition table as PCs have it (MBR), with one partition that
ends with the disk. Pure.

    write_command(63, disk.size, "/dev/nbd0")     writes the table of a disk of this size
    mapping_command("/dev/nbd0")                  prints its partition for the device mapper

Windows until Server 2003 began partitions at sector 63, behind the first track of a disk. Blocks of
4 KiB of a file system are then never at multiples of 4 KiB of the disk. Later systems begin at
sector 2048.
"""

from __future__ import annotations

import base64
import struct

SECTOR_BYTES = 512
START_MIN, START_MAX = 8, 65_536
"""Bounds of the first sector. The block of 4 KiB that has the table holds no data, so that it can
be written while the partition is in use.
"""
DISK_MAX_BYTES = ((1 << 32) - 1) * SECTOR_BYTES
"""Largest disk: the table has 32 bits for a number of sectors."""

_ENTRY = 446
"""Offset of the first of four entries."""
_LINUX = 0x83
# Cylinder, head and sector of places that need more than 24 bits; readers then use the numbers.
_BEYOND = b"\xfe\xff\xff"


def table(start: int, disk_bytes: int) -> bytes:
    """Return the first sector of a disk whose partition begins at sector `start`."""
    sectors = disk_bytes // SECTOR_BYTES - start
    entry = struct.pack("<B3sB3sII", 0, _BEYOND, _LINUX, _BEYOND, start, sectors)
    return bytes(_ENTRY) + entry + bytes(3 * len(entry)) + b"\x55\xaa"


def write_command(start: int, disk_bytes: int, device: str) -> str:
    """Return the command that writes the table to a block device, and flushes it."""
    encoded = base64.b64encode(table(start, disk_bytes)).decode()
    return f"echo {encoded} | base64 -d | dd of={device} conv=notrunc,fsync status=none"


def mapping_command(device: str) -> str:
    """Return the command that reads the table of a block device, and prints its partition as a
    table of the device mapper, as kpartx(8) does.
    """
    numbers = f"od -A n -t u4 -j {_ENTRY + 8} -N 8 {device}"
    return f"{numbers} | awk '{{ print 0, $2, \"linear {device}\", $1 }}'"
