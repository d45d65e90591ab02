"""Hints for a name that is not known: the closest known name, else the known names.

closest("vmz", ["vms", "pattern"])          "vms"
did_you_mean("vmz", ["vms", "pattern"])     "did you mean 'vms'?"
did_you_mean("foo", ["vms", "pattern"])     "known here: pattern, vms"
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

LISTED_MAX = 12
"""Longer lists are cut, because a hint is one line."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most alike, upper and lower case apart; None where none is alike."""
    by_folded = {each.casefold(): each for each in known}
    matches = difflib.get_close_matches(name.casefold(), by_folded, 1)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A hint that names the closest known name, or else `otherwise`, by default the list of all
    known names.
    """
    names = sorted(known, key=_natural)
    match = closest(name, names)
    if match is not None:
        return f"did you mean {match!r}?"
    return otherwise if otherwise is not None else f"known here: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Names with commas; of more than 12 the first ones and their number."""
    if len(names) <= LISTED_MAX:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED_MAX])}, … ({len(names)} in all)"


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Order of people: `vms-2` before `vms-10`."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name) if part]
