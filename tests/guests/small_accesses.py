"""Accesses of 4 KiB to the virtual disk of a chain, each in another 2 MiB, and what they cost on
the LU below. No page of the host is in its cache, and it reads nothing ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakaru.fileserver.chain import Chain
from hakaru.fileserver.chain_spec import SHARE_PATH
from hakaru.fileserver.image_map import ImageMap

SECTOR, PAGE, BLOCK = 512, 4 << 10, 2 << 20
PLACES_MAX = 8


@dataclass
class Cost:
    """Sums over all places, in bytes of the LU as the guest's kernel counts them."""

    places: int = 0
    misaligned: int = 0
    """Places whose data are not at a multiple of 4 KiB of the image."""
    read: int = 0
    """Bytes read for reads of 4 KiB."""
    read_to_write: int = 0
    """Bytes read for writes of 4 KiB."""
    written: int = 0


async def without_read_ahead(chain: Chain) -> None:
    """Let the host read nothing ahead from files that are opened from now on."""
    await chain.guest.run(f"echo 0 >/sys/block/{name(chain)}/queue/read_ahead_kb")


async def measure(chain: Chain) -> Cost:
    """Read and rewrite places that have data, with the file system of the disk unmounted."""
    image = await chain.map()
    assert image is not None, chain.spec.disk.format
    await chain.guest.run(f"umount {SHARE_PATH}")
    places = await with_data(chain, places_of(image))
    cost = Cost(len(places), sum(is_misaligned(image, place) for place in places))
    pages = " ".join(str(place // PAGE) for place in places)
    reads = f"dd if={chain.disk_device} of=/run/page-$i bs={PAGE} skip=$i count=1 iflag=direct 2>/dev/null"
    writes = f"dd if=/run/page-$i of={chain.disk_device} bs={PAGE} seek=$i count=1 oflag=direct conv=notrunc,fsync"
    found = []
    for command in (reads, f"{writes} 2>/dev/null"):
        script = ["sync; echo 3 >/proc/sys/vm/drop_caches", stat(chain), f"for i in {pages}; do {command}; done"]
        output = await chain.guest.run("\n".join([*script, stat(chain)]))
        before, after = (list(map(int, line.split())) for line in output.splitlines())
        found.append([SECTOR * (last - first) for first, last in zip(before, after, strict=True)])
    (cost.read, _), (cost.read_to_write, cost.written) = found
    await chain.guest.run(f"rm /run/page-*; mount {chain.share_device} {SHARE_PATH}")
    return cost


def places_of(image: ImageMap) -> list[int]:
    """Return one place of the disk in each block of 2 MiB: the middle of the data there."""
    places: dict[int, int] = {}
    for part in image.ranges:
        for block in range(part.start // BLOCK, -(-(part.start + part.length) // BLOCK)):
            begin, end = max(part.start, block * BLOCK), min(part.start + part.length, (block + 1) * BLOCK)
            if part.data and part.offset is not None and end - begin >= BLOCK // 4:
                places.setdefault(block, (begin + end) // 2 // PAGE * PAGE)
    return list(places.values())


def is_misaligned(image: ImageMap, place: int) -> bool:
    """Return whether a place of the disk is at no multiple of 4 KiB of the image."""
    part = next(part for part in image.ranges if part.start <= place < part.start + part.length)
    return ((part.offset or 0) + place - part.start) % PAGE != 0


async def with_data(chain: Chain, places: list[int]) -> list[int]:
    """Return the first places at which neither the page nor its neighbours are holes of the image.
    Random bytes are rarely zero. Tables of the image are in QEMU's memory afterwards.
    """
    words = (
        f"dd if={chain.disk_device} bs={PAGE} skip=$((i - 1)) count=3 iflag=direct 2>/dev/null | tr -d '\\0' | wc -c"
    )
    pages = " ".join(str(place // PAGE) for place in places)
    output = await chain.guest.run(f"for i in {pages}; do {words}; done")
    counts = [int(line) for line in output.split()]
    return [place for place, count in zip(places, counts, strict=True) if count > 2.9 * PAGE][:PLACES_MAX]


def name(chain: Chain) -> str:
    """Return the kernel's name of the LU's disk."""
    return chain.lu_device.removeprefix("/dev/")


def stat(chain: Chain) -> str:
    """Return a command that prints the sectors read and written of the LU's disk."""
    return f"awk '{{ print $3, $7 }}' /sys/block/{name(chain)}/stat"
