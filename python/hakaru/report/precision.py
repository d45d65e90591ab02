"""Sentences of a report about the requested precision."""

from __future__ import annotations

from typing import Any

from hakaru.study import Study
from hakaru.wording import say

MISSED = ("precision_missed", "precision_unknown")


def method(summary: dict[str, Any], study: Study, language: str) -> list[str]:
    """How points were repeated, and how many reached the precision; empty without a request."""
    measure = study.measure
    if measure.precision is None:
        return []
    usable = [point for point in summary["points"] if point["valid"]]
    missed = [point for point in usable if any(c["caveat"] in MISSED for c in point["caveats"])]
    percents = [*dict.fromkeys(measure.precisions("").values())]
    values = {
        "percent": say(language, "list.separator").join(f"{percent:g} %" for percent in percents),
        "most": measure.most,
        "first": measure.first_stage,
        "reached": len(usable) - len(missed),
        "points": len(summary["points"]),
    }
    return [say(language, "method.precision", values)]
