"""Names of levels, resources and caveats, in one language at a time.

Every function takes the language first and numbers as they are; rounding happens in
`hakaru.wording.number` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.caveats import Caveat
from hakaru.wording import has, say, tenths


def level(language: str, factor: str, value: float | str) -> str:
    """`7 VMs`, `queue_depth 32`; a level with a name is its name.

    Levels of a factor that counts things are worded by the catalogue entry `level.FACTOR` of the
    kind that brings the factor.
    """
    if isinstance(value, str):
        return value
    if has(f"level.{factor}"):
        return say(language, f"level.{factor}", {"count": value})
    return say(language, "level.other", {"factor": factor, "count": value})


def series(where: Mapping[str, Any], language: str = "en") -> str:
    """The levels of the other factors, as written in the study: `random-32k`, `random-32k,
    queue_depth 8`.
    """
    numeric = (int, float)
    told = {f: v for f, v in where.items() if v is not None}
    shown = [level(language, f, v) if f != "pattern" and isinstance(v, numeric) else str(v) for f, v in told.items()]
    return ", ".join(shown)


def in_series(language: str, where: Mapping[str, Any], text: str, several: bool) -> str:
    """`text` with the name of its sweep before it, where the run has several."""
    named = series(where, language)
    return say(language, "series", {"series": named, "text": text}) if several and named else text


def resource(language: str, name: str) -> str:
    """`drives`, `link/array-eth0/out`, … in words."""
    kind, _, rest = name.partition("/")
    if kind == "link":
        link, _, direction = rest.rpartition("/")
        if ">" in direction:
            source, _, target = direction.partition(">")
            return say(language, "resource.link.hop", {"name": link, "source": source, "target": target})
        return say(language, f"resource.link.{direction}", {"name": link})
    if kind == "cpu":
        return say(language, f"resource.cpu.{rest}")
    if kind in ("group", "port"):
        return say(language, f"resource.{kind}", {"name": rest.replace(".", " ")})
    said = say(language, f"resource.{kind}")
    return say(language, "resource.of", {"resource": said, "node": rest}) if rest else said


def signed(language: str, percent: float) -> str:
    """`+4.2 %`, `-11.3 %`."""
    return f"{'+' if percent > 0 else ''}{tenths(percent, language)}\u00a0%"


def sentences(language: str, *parts: str) -> str:
    """Joined as the language does it."""
    return (" " if language == "en" else "").join(p for p in parts if p)


def caveat(language: str, one: Caveat) -> str:
    """The caveat's text, with what to do."""
    count = one.values.get("n", one.values.get("samples"))
    return say(language, f"caveat.{one.name}", {"count": count, **one.values})
