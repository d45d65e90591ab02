"""Hints for an unknown name: the closest valid name, else all valid names.

closest("vmz", ["vms", "pattern"])          "vms"
did_you_mean("vmz", ["vms", "pattern"])     "did you mean 'vms'?"
did_you_mean("foo", ["vms", "pattern"])     "valid here: pattern, vms"
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

LISTED_MAX = 12
"""Maximum number of names in a hint, so that the hint stays on one line."""


OTHER_WORDS = {
    "bandwidth": "rate",
    "bs": "sizes",
    "block_size": "sizes",
    "buffer": "queue",
    "depth": "queue_depth",
    "duration": "time",
    "iodepth": "queue_depth",
    "latency": "delay",
    "max": "at_most",
    "min": "at_least",
    "packet_loss": "loss",
    "ramp_time": "warmup",
    "rampup": "warmup",
    "red": "discipline",
    "repeat": "repetitions",
    "repeats": "repetitions",
    "rtt": "delay",
    "runtime": "time",
    "rwmixread": "read_percent",
    "speed": "rate",
    "throughput": "mb_per_s",
}
"""Words of other tools and of everyday use → the name that hakaru uses."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that other tools call `name`, or the one most similar to it, ignoring case. If
    none is similar, the shortest name that has `name` as one of its parts (`latency_ms_p99` for
    `p99`), or None.
    """
    by_folded = {each.casefold(): each for each in known}
    folded = name.casefold()
    if OTHER_WORDS.get(folded) in by_folded:
        return by_folded[OTHER_WORDS[folded]]
    matches = difflib.get_close_matches(folded, by_folded, 1)
    matches = matches or sorted((each for each in by_folded if folded in each.split("_")), key=len)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A hint that names the closest known name. If there is no close name, `otherwise`, by default
    the list of known names.
    """
    names = sorted(known, key=_natural)
    match = closest(name, names)
    if match is not None:
        return f"did you mean {match!r}?"
    return otherwise if otherwise is not None else f"valid here: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Names separated by commas; of more than 12 names, the first 12 and the total number."""
    if len(names) <= LISTED_MAX:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED_MAX])}, … ({len(names)} in total)"


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sort key of natural order: `vms-2` before `vms-10`."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name) if part]
