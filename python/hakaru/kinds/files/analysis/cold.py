"""Check that a cold load read its files from the layer below the caches: the bytes that this layer
delivered against those that the tools read. Pure.

    chain               reads of the LU, as the array counts them; with a modelled cache also those
                        of its drives
    directory, Samba    reads of this machine's disk, as its kernel counts them

The caches are emptied before each load, so before each repetition of each point. Each file is used
once, so every byte that a tool reads must come from the layer below. The layer below also reads
folders and metadata, and whole blocks of small files, so it may deliver more than tools read, never
less. The machine's disk also counts the reads of other programs.

A load that repeats its trees uses each file once in its first round. It was cold if the layer below
delivered enough in that round or in the measuring phase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hakaru.analysis.counters import Series, common_window
from hakaru.analysis.estimate import finite
from hakaru.analysis.run_data import Repetition
from hakaru.caveats import Caveat
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis import below
from hakaru.kinds.files.load import FilesLoad

REACHED_MIN_PERCENT = 90.0
"""Share of the bytes read that the layer below must deliver. Sampling moves up to the reads of an
interval over an end of the window.
"""
Layer = Literal["lu", "disk"]


@dataclass(frozen=True)
class Check:
    """Bytes that the layers below the caches delivered in one repetition, in percent of those that
    tools read; NaN if unknown.
    """

    layer: Layer
    percent: float
    drives_percent: float
    """The same of the array's drives; NaN without a modelled cache."""

    @property
    def least(self) -> float:
        """The share of the layer that delivered least; 0 if it is unknown."""
        drives = self.percent if math.isnan(self.drives_percent) else self.drives_percent
        return 0.0 if math.isnan(self.percent) else min(self.percent, drives)

    @property
    def is_cold(self) -> bool:
        """Whether each layer delivered enough."""
        return self.least >= REACHED_MIN_PERCENT


def check(repetition: Repetition, load: FilesLoad) -> Check | None:
    """Return what the layers below delivered to a load that had to be cold. None for a load that
    was not, and for users and other loads that need not read each file from below.
    """
    if not load.cold or load.users is not None or load.profile != "whole_files" or load.mix.read == 0:
        return None
    windows = [repetition.window]
    if load.repeat and (first := first_round(repetition, load)) is not None:
        windows.append(first)
    found = [_check(replace(repetition, window=window), load) for window in windows]
    return max(found, key=lambda each: each.least)


def caveats(found: Check | None) -> Iterator[Caveat]:
    """Yield a caveat for the first layer that a load which had to be cold did not reach."""
    if found is None or found.is_cold:
        return
    is_reached = found.percent >= REACHED_MIN_PERCENT
    layer, percent = ("drives", found.drives_percent) if is_reached else (found.layer, found.percent)
    values = {"layer": layer, "percent": 0.0 if math.isnan(percent) else percent, "asked": REACHED_MIN_PERCENT}
    yield Caveat("cache_not_cold", values)


def of_repetitions(load: FilesLoad, checks: Sequence[Check | None]) -> dict[str, Any]:
    """Return the caches of a point: whether they were emptied before each load, and the check of
    the repetition in which the layers below delivered least. `cold` is None if none was judged.
    """
    judged = [each for each in checks if each is not None]
    least = min(judged, key=lambda each: each.least, default=None)
    return {
        "emptied": load.cold,
        "layer": _layer(load),
        "percent": finite(least.percent) if least is not None else None,
        "drives_percent": finite(least.drives_percent) if least is not None else None,
        "asked": REACHED_MIN_PERCENT,
        "cold": least.is_cold if least is not None else None,
    }


def read_below_percent(repetition: Repetition, load: FilesLoad) -> float:
    """Return the bytes that the layer below delivered, in percent of those that tools read; NaN for
    a load that reads nothing, or without counters of that layer.
    """
    tools = _reads(repetition, "files", names.ENTITY)
    entity = ("array", "lu/") if _layer(load) == "lu" else ("watch", "disk/")
    layer = _reads(repetition, *entity)
    window = common_window(repetition.window, [*tools, *layer])
    read, delivered = ([series.increase(*window) for series in each] for each in (tools, layer))
    # A file system has one block device, and devices below it count the same reads again: the
    # machine's disk is the one that was read most.
    total = sum(delivered) if _layer(load) == "lu" else max(delivered, default=math.nan)
    return 100.0 * total / sum(read) if delivered and sum(read) > 0 else math.nan


def first_round(repetition: Repetition, load: FilesLoad) -> tuple[int, int] | None:
    """Return the time in which certainly no tool used a file again; None without two samples of it.

    A tool takes a used tree once all trees were taken. Until then, all but one of the tools may be
    at the begin of their trees, and all other trees are complete.
    """
    tree, tools = load.tree, load.tools // load.clients
    files = (tree.trees // load.clients - tools + 1) * tree.targets
    begins: list[int] = []
    ends: list[int] = []
    for used in _used(repetition):
        # The counters stand at 0 while the trees are built.
        begins.append(int(used.at_ns[max(0, int(np.searchsorted(used.value, 0.0, side="right")) - 1)]))
        ends.append(int(used.at_ns[max(0, int(np.searchsorted(used.value, files, side="right")) - 1)]))
    if not begins or min(begins) >= min(ends):
        return None
    return min(begins), min(ends)


def _used(repetition: Repetition) -> Iterator[Series]:
    """The files that the tools of each host have used, over time."""
    select = repetition.counters.select
    for key, read in select(engine="files", entity=names.ENTITY, name="files_read"):
        written = repetition.counters.get(key.node, key.engine, key.entity, "files_written")
        yield read if written is None else Series(read.at_ns, read.value + written.value)


def _check(repetition: Repetition, load: FilesLoad) -> Check:
    drives = below.cache(repetition)["read_from_drives_percent"] if _layer(load) == "lu" else math.nan
    return Check(_layer(load), read_below_percent(repetition, load), drives)


def _layer(load: FilesLoad) -> Layer:
    return "disk" if load.to.chain is None else "lu"


def _reads(repetition: Repetition, engine: str, entity: str) -> list[Series]:
    return [series for _, series in repetition.counters.select(engine=engine, entity=entity, name="read_bytes")]
