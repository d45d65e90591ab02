"""Words for levels, resources and caveats, in one language at a time.

Every function takes the language first. `hakaru.wording` formats all numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.caveats import Caveat
from hakaru.study.part import level_text
from hakaru.translation import japanese
from hakaru.wording import has, number, say, tenths


def level(language: str, factor: str, value: float | str) -> str:
    """A level in words: `7 VMs`, `queue_depth 32`. A level that is text stays as it is.

    A kind of study may provide the catalogue entry `level.FACTOR` for the words of a factor that
    counts, and `level.FACTOR.true` and `level.FACTOR.false` for those of one that does not.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) and has(f"level.{factor}.{value}".lower()):
        return say(language, f"level.{factor}.{value}".lower())
    if has(f"level.{factor}"):
        return say(language, f"level.{factor}", {"count": value})
    # As written in the study: a frame size of 1518, not 1,518.
    written = f"{value:g}" if isinstance(value, float) else level_text(value)
    return say(language, "level.other", {"factor": factor, "count": written})


def peak_range(language: str, peak: str, like: Sequence[float], measured: Sequence[float]) -> str:
    """`7 VMs (4 to 10)`: the level of a peak, with the levels `like` that its interval does not
    exclude; `7 VMs (2, 7, 10)` if others of the levels `measured` lie between them.
    """
    if len(like) < 2:
        return peak
    if is_consecutive(like, measured):
        return say(language, "levels.range", {"answer": peak, "low": like[0], "high": like[-1]})
    listed = say(language, "list.separator").join(number(each, language) for each in like)
    return say(language, "levels.listed", {"answer": peak, "levels": listed})


def alike(language: str, factor: str, like: Sequence[float], measured: Sequence[float]) -> str:
    """A sentence about the levels `like`, at least two, which cannot be distinguished from the
    peak.
    """
    words = [level(language, factor, each) for each in like]
    if is_consecutive(like, measured):
        return say(language, "finding.peak.like", {"first": words[0], "last": words[-1]})
    return say(language, "finding.peak.like.listed", {"levels": say(language, "list.separator").join(words)})


def is_consecutive(some: Sequence[float], ordered: Sequence[float]) -> bool:
    """Whether no other one of the ordered levels lies between some of them."""
    return sum(some[0] <= each <= some[-1] for each in ordered) == len(some)


def series(where: Mapping[str, Any], language: str = "en") -> str:
    """The levels of the other factors, as written in the study: `random-32k`, `random-32k,
    queue_depth 8`.
    """
    numeric = (int, float)
    levels = {f: v for f, v in where.items() if v is not None}
    shown = [level(language, f, v) if f != "pattern" and isinstance(v, numeric) else str(v) for f, v in levels.items()]
    return ", ".join(shown)


def in_series(language: str, where: Mapping[str, Any], text: str, several: bool) -> str:
    """`text` preceded by the name of its sweep if the run has several."""
    named = series(where, language)
    return say(language, "series", {"series": named, "text": text}) if several and named else text


def resource(language: str, name: str) -> str:
    """The name of a resource (`drives`, `link/array-eth0/out`, …) in words."""
    kind, _, rest = name.partition("/")
    if kind == "link":
        link, _, direction = rest.rpartition("/")
        if ">" in direction:
            source, _, target = direction.partition(">")
            return say(language, "resource.link.hop", {"name": link, "source": source, "target": target})
        return say(language, f"resource.link.{direction}", {"name": link})
    if kind == "cpu":
        part, _, host = rest.partition("/")
        return say(language, "resource.cpu.host", {"host": host}) if host else say(language, f"resource.cpu.{part}")
    if kind in ("group", "port", "disk"):
        return say(language, f"resource.{kind}", {"name": rest.replace(".", " ")})
    if kind == "drive":
        return say(language, "resource.drive", {"name": rest})
    words = say(language, f"resource.{kind}")
    return say(language, "resource.of", {"resource": words, "node": rest}) if rest else words


def signed(language: str, percent: float) -> str:
    """A percentage with its sign: `+4.2 %`, `-11.3 %`."""
    return f"{'+' if percent > 0 else ''}{tenths(percent, language)}\u00a0%"


SIGNS = {
    "percent": " %",
    "s": " s",
    "ms": " ms",
    "µs": " µs",
    "MB/s": " MB/s",
    "MiB/s": " MiB/s",
    "Mbit/s": " Mbit/s",
    "Gbit/s": " Gbit/s",
}
"""Unit → the text after a value. The names of metrics with other units express them."""


def unit(name: str) -> str:
    """The unit as written after a value; empty for units that the name of the metric already
    expresses.
    """
    return SIGNS.get(name, "")


def metric(language: str, name: str) -> str:
    """The words for a metric. One of a part, such as a job, has the part in parentheses."""
    whole, _, part = name.partition("/")
    words = say(language, f"metric.{whole}")
    return say(language, "metric.of_part", {"metric": words, "part": part}) if part else words


def sentences(language: str, *parts: str) -> str:
    """Join sentences: in English with spaces, in Japanese without. Empty parts are left out."""
    return (" " if language == "en" else "").join(p for p in parts if p)


_ENDS = {"en": re.compile(r"(?<=[.!?]) +(?=[A-Z0-9])"), "ja": re.compile(r"(?<=。)(?=.)")}


def split(language: str, text: str) -> list[str]:
    """The sentences of a text that `sentences` joined. An abbreviation before a capital letter
    would end a sentence, so texts have none.
    """
    return [part for part in _ENDS[language].split(text) if part]


_TEXTS = ("error", "reason")
"""Values of caveats that are texts of a command."""


def caveat(language: str, instance: Caveat) -> str:
    """The text of a caveat, which includes what to do."""
    count = instance.values.get("n", instance.values.get("samples"))
    values = instance.values
    if language == "ja":
        # Runs keep errors in English.
        values = {name: japanese(str(value)) if name in _TEXTS else value for name, value in values.items()}
    return say(language, f"caveat.{instance.name}", {"count": count, **values})
