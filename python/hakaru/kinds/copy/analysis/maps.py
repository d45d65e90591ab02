"""Heat maps of the throughput over buffer and streams, and the region in which it collapses.

**Collapse**: the jobs together use less than half of the payload rate of the path to the
destination (wall-clock rate, `path_percent`) while frames are dropped on the path. A slow array
alone is no collapse. A map exists for every combination of the other levels that has at least two
buffers and two numbers of streams.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.units import parse_size

COLLAPSE_PERCENT = 50.0
BUFFER = ".queue"
STREAMS = "load.streams"


def collapsed(point: CopyPoint) -> bool:
    """Whether a point lies in the region of collapse."""
    used, dropped = point.mean("path_percent"), point.mean("dropped_frames")
    # Without a fabric, drops are not counted, so no collapse is known.
    return used is not None and used < COLLAPSE_PERCENT and bool(dropped)


@dataclass(frozen=True)
class Cell:
    """One point of a map."""

    buffer_bytes: int
    streams: int
    point: CopyPoint

    @property
    def path_percent(self) -> float | None:
        """Share of the path that was used, percent."""
        return self.point.mean("path_percent")

    @property
    def is_known(self) -> bool:
        """Whether it is known if the cell lies in the region of collapse."""
        return self.point.valid and None not in (self.path_percent, self.point.mean("dropped_frames"))

    @property
    def collapsed(self) -> bool:
        """Whether the cell lies in the region of collapse."""
        return collapsed(self.point)

    def to_json(self) -> dict[str, Any]:
        """One element of `cells`."""
        rates = {"mib_per_s": self.point.mean("mib_per_s"), "path_percent": self.path_percent}
        place = {"point": self.point.id, "buffer_bytes": self.buffer_bytes, "streams": self.streams}
        return place | rates | {"collapsed": self.collapsed if self.is_known else None}


@dataclass(frozen=True)
class Map:
    """Points that differ only in buffer and streams; `where` contains the levels of their other
    factors.
    """

    where: dict[str, Any]
    cells: tuple[Cell, ...]

    @property
    def known(self) -> list[Cell]:
        """The cells of which it is known whether they lie in the region: valid, measured, and with
        counted drops.
        """
        return [c for c in self.cells if c.is_known]

    @property
    def streams(self) -> list[int]:
        """The numbers of streams, ascending."""
        return sorted({c.streams for c in self.cells})

    def column(self, streams: int) -> list[Cell]:
        """Known cells with this number of streams, by ascending buffer."""
        return sorted((c for c in self.known if c.streams == streams), key=lambda c: c.buffer_bytes)

    def least_buffer(self, streams: int) -> int | None:
        """The smallest buffer from which no measured point collapses; None if the largest buffer
        collapses.
        """
        safe = None
        for cell in reversed(self.column(streams)):
            if cell.collapsed:
                break
            safe = cell.buffer_bytes
        return safe

    def to_json(self) -> dict[str, Any]:
        """One element of `maps` of the report."""
        return {
            "where": self.where,
            "collapse_percent": COLLAPSE_PERCENT,
            "cells": [c.to_json() for c in self.cells],
            "least_buffer_bytes": {str(s): self.least_buffer(s) for s in self.streams if self.column(s)},
        }


def maps_of(points: list[CopyPoint]) -> list[Map]:
    """All maps of the run, in the order of the study."""
    groups: dict[str, list[Cell]] = {}
    for point in points:
        rest = {p: v for p, v in point.setup.settings.items() if not _is_buffer(point, p) and p != STREAMS}
        buffer = _buffer(point)
        if buffer is not None:
            groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(
                Cell(buffer, point.setup.streams, point)
            )
    maps = []
    for cells in groups.values():
        # A setting may occur in several blocks of a study. The points of the map itself have the
        # most factors, so they win.
        by_factors = sorted(cells, key=lambda c: len(c.point.factors))
        unique = list({(c.buffer_bytes, c.streams): c for c in by_factors}.values())
        if len({c.buffer_bytes for c in unique}) >= 2 and len({c.streams for c in unique}) >= 2:
            widest = max(unique, key=lambda c: len(c.point.factors)).point.factors
            maps.append(Map(_constant(widest, [c.point.factors for c in unique]), tuple(unique)))
    return maps


def _is_buffer(point: CopyPoint, place: str) -> bool:
    narrowest = point.setup.narrowest
    return narrowest is not None and place == f"lab.links.{narrowest.link}{BUFFER}"


def _buffer(point: CopyPoint) -> int | None:
    narrowest = point.setup.narrowest
    if narrowest is None:
        return None
    value = point.setup.settings.get(f"lab.links.{narrowest.link}{BUFFER}", narrowest.queue_bytes)
    return parse_size(value) if isinstance(value, str) else value


def _constant(factors: dict[str, Any], all_factors: list[dict[str, Any]]) -> dict[str, Any]:
    """Factors with the same level in all points that have them."""
    return {f: v for f, v in factors.items() if len({str(each[f]) for each in all_factors if f in each}) == 1}
