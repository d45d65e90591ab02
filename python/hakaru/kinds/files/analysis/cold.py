"""Check that a cold load read its files from the layer below the caches: the bytes that this layer
delivered against those that the tools read. Pure.

    chain               reads of the LU, as the array counts them; with a modelled cache also those
                        of its drives
    directory, Samba    reads of this machine's disk, as its kernel counts them

Each file is used once, so every byte that a tool reads must come from there. The layer below also
reads folders and metadata, and whole blocks of small files, so it may deliver more than tools read,
never less. The machine's disk also counts the reads of other programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hakaru.analysis.counters import Series, common_window
from hakaru.analysis.run_data import Repetition
from hakaru.caveats import Caveat
from hakaru.kinds.files import names
from hakaru.kinds.files.load import FilesLoad

REACHED_MIN_PERCENT = 90.0
"""Share of the bytes read that the layer below must deliver. Sampling moves up to the reads of an
interval over an end of the window.
"""


def read_below_percent(repetition: Repetition, load: FilesLoad) -> float:
    """Return the bytes that the layer below delivered, in percent of those that tools read; NaN for
    a load that reads nothing, or without counters of that layer.
    """
    tools = _reads(repetition, "files", names.ENTITY)
    layer = _reads(repetition, "array", "lu/") if load.to.chain is not None else _reads(repetition, "watch", "disk/")
    window = common_window(repetition.window, [*tools, *layer])
    read, delivered = ([series.increase(*window) for series in each] for each in (tools, layer))
    # A file system has one block device, and devices below it count the same reads again: the
    # machine's disk is the one that was read most.
    below = sum(delivered) if load.to.chain is not None else max(delivered, default=math.nan)
    return 100.0 * below / sum(read) if delivered and sum(read) > 0 else math.nan


def caveats(load: FilesLoad, percent: float, drives_percent: float) -> Iterator[Caveat]:
    """Yield a caveat for the first layer that a load which had to be cold did not reach. None for
    users and for other loads that use files again.

    `percent`: `read_below_percent`. `drives_percent`: that of the array's drives, NaN without a
    modelled cache.
    """
    if not load.cold or load.users is not None or load.repeat or load.profile != "whole_files" or load.mix.read == 0:
        return
    layer = "lu" if load.to.chain is not None else "disk"
    if percent >= REACHED_MIN_PERCENT:
        layer, percent = "drives", drives_percent
        if math.isnan(percent) or percent >= REACHED_MIN_PERCENT:
            return
    found = 0.0 if math.isnan(percent) else percent
    yield Caveat("cache_not_cold", {"layer": layer, "percent": found, "asked": REACHED_MIN_PERCENT})


def _reads(repetition: Repetition, engine: str, entity: str) -> list[Series]:
    return [series for _, series in repetition.counters.select(engine=engine, entity=entity, name="read_bytes")]
