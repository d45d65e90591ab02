"""The LU of each VM, and its place on the LU. Pure.

VMs are dealt to columns of LUs in turn. Within a column, images are placed consecutively on the
first LU until it is full, then on the next LU of the column.

    two columns of LUs with room for 2 images each:
        VM 0 → column 0, LU 0, image 0      VM 1 → column 1, LU 0, image 0
        VM 2 → column 0, LU 0, image 1      VM 3 → column 1, LU 0, image 1
        VM 4 → column 0, LU 1, image 0      …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Seat:
    """Column, LU within the column, and image slot on the LU, all counted from 0."""

    column: int
    lu: int
    image: int


def seat(columns: Sequence[Sequence[int | None]], vm: int) -> Seat | None:
    """Seat of a VM (counted from 0); None if its column is full. `columns`: number of images that
    fit on each LU; None if unknown, which counts as unlimited.
    """
    column = vm % len(columns)
    image = vm // len(columns)
    for lu, room in enumerate(columns[column]):
        if room is None or image < room:
            return Seat(column, lu, image)
        image -= room
    return None


def seats(columns: Sequence[Sequence[int]]) -> int:
    """Return the number of VMs that can be dealt in turn before a VM meets a full column."""
    return min((sum(column) * len(columns) + place for place, column in enumerate(columns)), default=0)
