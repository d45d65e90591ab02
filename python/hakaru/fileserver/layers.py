"""Bytes as each layer of the chain sees them, from the files down to the pages of the pool. Pure.

Every layer knows only what the layer above has written and given back. A deleted file is free for
its file system at once, for the layers below only after TRIM has passed, and for the pool only in
whole pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hakaru.fileserver.image_map import ImageMap


@dataclass(frozen=True)
class ArrayCounters:
    """Space of a thin LU, as the array counts it."""

    lu_mapped_bytes: int
    """Pages that the LU maps."""
    pool_used_bytes: int
    """Pages of the pool that any LU maps."""
    page_bytes: int


def array_counters(status: Mapping[str, Any], pool: str, volume: str) -> ArrayCounters:
    """Take the counters of a volume from the array's answer to `status`. Raises KeyError if it has
    no such pool or volume.
    """
    for found in status["pools"]:
        if found["name"] == pool:
            for of_pool in found["volumes"]:
                if of_pool["name"] == volume:
                    return ArrayCounters(
                        int(of_pool["mapped_bytes"]), int(found["used_bytes"]), int(found["page_bytes"])
                    )
    raise KeyError(f"{pool}/{volume}")


@dataclass(frozen=True)
class Layers:
    """Bytes in use, by layer, at one moment after everything was written back."""

    entries: int
    """Number of files and folders."""
    files_bytes: int
    """Sum of the sizes of the files."""
    guest_used_bytes: int
    """`df` of the file system on the virtual disk."""
    image_data_bytes: int | None
    """Bytes of the virtual disk for which the image has data (`qemu-img map`). None: the format has
    no map, see `virtual_disk.Traits.has_map`.
    """
    image_length_bytes: int
    """Length of the image file."""
    image_allocated_bytes: int
    """Blocks that the host's file system allocates to the image file."""
    host_used_bytes: int
    """`df` of the file system on the LU."""
    lu_mapped_bytes: int
    """Pages that the LU maps."""
    pool_used_bytes: int
    """Pages of the pool."""
    misaligned_bytes: int | None
    """Bytes of the image of which an aligned access to 4 KiB is not aligned in the image file."""
    fragments: int | None
    """Contiguous pieces of the image."""

    def describe(self) -> dict[str, int | None]:
        """Return all values by name, for the record of a run."""
        return asdict(self)


ALIGNMENT_BYTES = 4096


def layers_of(report: Mapping[str, str], image: ImageMap | None, counters: ArrayCounters, *, begin: int = 0) -> Layers:
    """Join the figures that a chain reads in its guest, the map of the image, and the counters of
    the array. `begin`: place of the file system on the virtual disk, in bytes.
    """
    return Layers(
        entries=int(report["entries"]),
        files_bytes=int(report["files"]),
        guest_used_bytes=int(report["guest_used"]),
        image_data_bytes=image.data_bytes if image else None,
        image_length_bytes=int(report["image_length"]),
        image_allocated_bytes=int(report["image_blocks"]) * 512,
        host_used_bytes=int(report["host_used"]),
        lu_mapped_bytes=counters.lu_mapped_bytes,
        pool_used_bytes=counters.pool_used_bytes,
        misaligned_bytes=image.misaligned_bytes(ALIGNMENT_BYTES, begin) if image else None,
        fragments=image.fragments if image else None,
    )
