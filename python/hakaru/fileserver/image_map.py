"""Map of an image: the ranges of a virtual disk that have data, and their places in the file. Pure.

image = parse_map(output of `qemu-img map --output=json`)
image.data_bytes                   bytes of the disk that the image stores
image.misaligned_bytes(4096)       … whose aligned accesses are not aligned in the file
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A range of the virtual disk."""

    start: int
    length: int
    data: bool
    """Whether the file has data for it; otherwise it reads as zeros without a read."""
    offset: int | None
    """Place in the file; None if it has none, or compressed."""


@dataclass(frozen=True)
class ImageMap:
    """All ranges of a virtual disk, in order and without gaps."""

    ranges: tuple[Range, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the virtual disk."""
        return sum(part.length for part in self.ranges)

    @property
    def data_bytes(self) -> int:
        """Bytes of the virtual disk for which the file has data."""
        return sum(part.length for part in self.ranges if part.data)

    def misaligned_bytes(self, alignment: int, begin: int = 0) -> int:
        """Return the bytes with data whose place in the file differs from their place in the file
        system on the disk by no multiple of `alignment`: an aligned access of the guest is not
        aligned in the file. `begin`: place of that file system on the disk.
        """
        return sum(part.length for part in self._placed() if ((part.offset or 0) - part.start + begin) % alignment)

    @property
    def fragments(self) -> int:
        """Number of pieces with data that are contiguous both on the disk and in the file."""
        pieces, after = 0, (-1, -1)
        for part in self._placed():
            assert part.offset is not None
            pieces += (part.start, part.offset) != after
            after = (part.start + part.length, part.offset + part.length)
        return pieces

    def _placed(self) -> Iterator[Range]:
        return (part for part in self.ranges if part.data and part.offset is not None)


def parse_map(text: str) -> ImageMap:
    """Parse the output of `qemu-img map --output=json`. Raises ValueError if it is something else,
    or has gaps.
    """
    try:
        entries = json.loads(text)
        if not isinstance(entries, list) or not entries:
            raise TypeError("no list of ranges")
        ranges = tuple(
            Range(int(entry["start"]), int(entry["length"]), bool(entry["data"]), entry.get("offset"))
            for entry in entries
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is no map of an image: {text[:200]!r}") from error
    end = 0
    for part in ranges:
        if part.start != end:
            raise ValueError(f"the map of an image has a gap at byte {end}")
        end += part.length
    return ImageMap(ranges)
