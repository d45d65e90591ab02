"""Names and sentences of findings, expectations and caveats, in one language at a time.

Every function takes the language first and numbers as they are; rounding happens in `hakaru.wording.number` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import metrics
from hakaru.analysis.backup import copies
from hakaru.analysis.distance import measures
from hakaru.analysis.expectations import Outcome
from hakaru.analysis.sweep import PREFERRED
from hakaru.caveats import Caveat
from hakaru.wording import say, tenths


def level(language: str, factor: str, value: float | str) -> str:
    """`7 VMs`, `queue_depth 32`; a level with a name is its name."""
    if isinstance(value, str):
        return value
    if factor == PREFERRED:
        return say(language, "level.vms", {"count": value})
    return say(language, "level.other", {"factor": factor, "count": value})


def series(where: Mapping[str, Any], language: str = "en") -> str:
    """The levels of the other factors, as written in the study: `random-32k`, `random-32k, queue_depth 8`."""
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
    values = dict(one.values)
    return say(language, f"caveat.{one.name}", _Blank({"count": values.get("n", values.get("samples")), **values}))


class _Blank(dict[str, Any]):
    """A value that a caveat of an older or newer run does not have is shown as missing."""

    def __missing__(self, key: str) -> str:
        return "–"


def expectation(language: str, outcome: Outcome, several: bool) -> str:
    """What was expected."""
    values = dict(outcome.evidence)
    over = str(outcome.expect.get("over") or PREFERRED)
    for name in ("low", "high", "at"):
        if name in values:
            values[name] = level(language, over, float(values[name]))
    if outcome.message in ("expect.bound", "expect.ratio"):
        # Japanese says "2.5 times or more": "times" stands inside of the bound, as units do.
        times = " 倍" if language == "ja" else ""
        values["unit"] = _unit(values["metric"]) if outcome.message == "expect.bound" else times
        values["bound"] = _bound(language, values)
    for side in ("of", "to"):
        if side in values:
            values[side] = series(values[side], language)
    if "resources" in values:
        values["resources"] = _either(language, [say(language, f"limiter.{r}") for r in values["resources"]])
    if "metric" in values:
        values["metric"] = say(language, f"metric.{values['metric']}")
    text = say(language, outcome.message, values)
    return in_series(language, outcome.expect.get("where") or {}, text, several)


def expectation_found(language: str, outcome: Outcome) -> str:
    """What was found instead, or that it could not be judged."""
    judged = {"below_percent", "of_value", "point"} & outcome.evidence.keys() or outcome.evidence.get("found")
    if outcome.held is None and not judged:
        return say(language, "expect.not_judged")
    values = dict(outcome.evidence)
    over = str(outcome.expect.get("over") or PREFERRED)
    if "point" in values:
        values["point"] = series(values["point"], language)
    if "level" in values:
        values["level"] = level(language, over, float(values["level"]))
    if "worst_percent" in values:
        values["error"] = signed(language, float(values["worst_percent"]))
    if "found" in values:
        values["found"] = _either(language, [say(language, f"limiter.{f}") for f in dict.fromkeys(values["found"])])
    if outcome.message == "expect.bound":
        values["unit"] = _unit(values["metric"])
    found = say(language, f"{outcome.message}.found", values)
    return found if outcome.held is not None else say(language, "expect.unclear", {"found": found})


def _bound(language: str, values: Mapping[str, Any]) -> str:
    """`at least 2.5`, `at most 40`, `40 to 60`."""
    named = {name: values[name] for name in ("at_least", "at_most") if values.get(name) is not None}
    message = "expect.bound.between" if len(named) == 2 else f"expect.bound.{next(iter(named))}"
    return say(language, message, named | {"unit": values["unit"]})


def _unit(metric: str) -> str:
    """What stands behind a value of the metric; nothing where the metric's name says what is counted."""
    signs = {"percent": " %", "s": " s", "ms": " ms", "µs": " µs", "MB/s": " MB/s", "MiB/s": " MiB/s"}
    return signs.get((metrics.UNITS | copies.UNITS | measures.UNITS).get(metric, ""), "")


def _either(language: str, names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    separator = ", " if language == "en" else "、"
    return say(language, "expect.or", {"first": separator.join(names[:-1]), "last": names[-1]})
