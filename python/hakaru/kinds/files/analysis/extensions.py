"""Disks that were extended during the load: the size of each layer before and after, and the time
that it took. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from hakaru.analysis.run_data import Repetition
from hakaru.fileserver.chain_spec import SIZED_LAYERS
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis import changes
from hakaru.kinds.files.analysis.changes import Change
from hakaru.kinds.files.events import EXTEND


def metrics(repetition: Repetition) -> dict[str, float]:
    """Return the metrics of the extension of disks; NaN without one. The times are those of the
    longest one.
    """
    events = changes.of(repetition, EXTEND)
    if not events:
        return dict.fromkeys(names.EXTENSION, math.nan)
    held_ms = max(float(event["held_ms"]) for event in events)
    values = [changes.longest_ms(events), held_ms, *changes.rates_around(repetition, events)]
    return dict(zip(names.EXTENSION, values, strict=True))


def of_repetitions(repetitions: Sequence[Sequence[Change]]) -> dict[str, dict[str, float]] | None:
    """Return layer → `before_bytes`, `after_bytes` and `ms`, from the LU upwards; None without an
    extension. `repetitions`: the extensions of each.

    Sizes are those of the first file server, before its first extension and after its last one in
    the first repetition. Times are means over the repetitions of the longest one of each.
    """
    extended = [events for events in repetitions if events]
    if not extended:
        return None
    first = [event for event in extended[0] if event["object"] == extended[0][0]["object"]]
    return {
        layer: {
            "before_bytes": first[0]["layers"][layer]["before_bytes"],
            "after_bytes": first[-1]["layers"][layer]["after_bytes"],
            "ms": fmean(max(_ms(event, layer) for event in events) for events in extended),
        }
        for layer in SIZED_LAYERS
        if layer in first[0]["layers"]
    }


def _ms(event: Change, layer: str) -> float:
    times: dict[str, Any] = event["layers"][layer]
    return (int(times["done_ns"]) - int(times["begun_ns"])) / 1e6
