"""The bytes of deleted files that TRIM returned to the pools below the chains. Pure."""

from __future__ import annotations

import math

from hakaru.analysis.run_data import Repetition
from hakaru.fileserver.space import bytes_of


def percent(repetition: Repetition) -> float:
    """Return the bytes by which the LUs became smaller between `deleted` and `host_trimmed`, in
    percent of the files, of all chains together; NaN without chains or files.
    """
    stages = [record["stages"] for record in repetition.chains.values()]

    def total(stage: str, layer: str) -> int:
        return sum(bytes_of(each[stage])[layer] for each in stages)

    files = total("loaded", "files") - total("created", "files")
    freed = total("deleted", "lu") - total("host_trimmed", "lu")
    return 100.0 * freed / files if files > 0 else math.nan
