"""Throughput over buffer and streams, and where it collapses.

**Collapse**: the jobs together use under half of the payload rate of the path to the destination
(wall-clock rate, `path_percent`) while frames are dropped on the way: an array that is slow by
itself is no collapse. A map is drawn for every combination of the other levels that has at least
two buffers and two numbers of streams.
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
    # Without a fabric drops are not counted; then the share alone decides.
    return used is not None and used < COLLAPSE_PERCENT and dropped != 0.0


@dataclass(frozen=True)
class Cell:
    """One point of a map."""

    buffer_bytes: int
    streams: int
    point: CopyPoint

    @property
    def path_percent(self) -> float | None:
        """Share of the path that was used."""
        return self.point.mean("path_percent")

    @property
    def collapsed(self) -> bool:
        """Whether it lies in the region of collapse."""
        return collapsed(self.point)

    def to_json(self) -> dict[str, Any]:
        """One of `cells`."""
        rates = {"mb_per_s": self.point.mean("mb_per_s"), "path_percent": self.path_percent}
        place = {"point": self.point.id, "buffer_bytes": self.buffer_bytes, "streams": self.streams}
        return place | rates | {"collapsed": self.collapsed}


@dataclass(frozen=True)
class Map:
    """Points that differ in buffer and streams alone; `where` are the levels of their other
    factors.
    """

    where: dict[str, Any]
    cells: tuple[Cell, ...]

    @property
    def streams(self) -> list[int]:
        """The numbers of streams, rising."""
        return sorted({c.streams for c in self.cells})

    def column(self, streams: int) -> list[Cell]:
        """Cells of one number of streams that have a value, by rising buffer."""
        cells = [c for c in self.cells if c.streams == streams and c.path_percent is not None]
        return sorted(cells, key=lambda c: c.buffer_bytes)

    def least_buffer(self, streams: int) -> int | None:
        """The smallest buffer from which on no larger one tried collapses; None where the largest
        does.
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
            "least_buffer_bytes": {str(s): self.least_buffer(s) for s in self.streams},
        }


def maps_of(points: list[CopyPoint]) -> list[Map]:
    """Every map that the run has, in the order of the study."""
    groups: dict[str, list[Cell]] = {}
    for point in points:
        rest = {p: v for p, v in point.setup.settings.items() if not _is_buffer(point, p) and p != STREAMS}
        buffer = _buffer(point)
        if buffer is not None:
            groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(
                Cell(buffer, point.setup.streams, point)
            )
    found = []
    for cells in groups.values():
        # The same setting may stand in several blocks of a study: the map's own points have most
        # factors.
        own = sorted(cells, key=lambda c: len(c.point.factors))
        unique = list({(c.buffer_bytes, c.streams): c for c in own}.values())
        if len({c.buffer_bytes for c in unique}) >= 2 and len({c.streams for c in unique}) >= 2:
            widest = max(unique, key=lambda c: len(c.point.factors)).point.factors
            found.append(Map(_constant(widest, [c.point.factors for c in unique]), tuple(unique)))
    return found


def _is_buffer(point: CopyPoint, place: str) -> bool:
    narrowest = point.setup.narrowest
    return narrowest is not None and place == f"lab.links.{narrowest.link}{BUFFER}"


def _buffer(point: CopyPoint) -> int | None:
    narrowest = point.setup.narrowest
    if narrowest is None:
        return None
    value = point.setup.settings.get(f"lab.links.{narrowest.link}{BUFFER}", narrowest.queue_bytes)
    return parse_size(value) if isinstance(value, str) else value


def _constant(factors: dict[str, Any], of_all: list[dict[str, Any]]) -> dict[str, Any]:
    """Factors that have one level in all points that have them."""
    return {f: v for f, v in factors.items() if len({str(each[f]) for each in of_all if f in each}) == 1}
