"""Calibrated parameters of a study: value, and the published number that it was chosen to meet."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.study import Study
from hakaru.study.variables import value_at
from hakaru.wording import say


def rows(study: Study, language: str) -> Iterator[tuple[str, str]]:
    """Name and description of each parameter."""
    for parameter in study.calibrated:
        values = {"value": str(value_at(study.written, parameter.place)), "on": getattr(parameter.on, language)}
        yield say(language, "lab.calibrated", {"place": parameter.place}), say(language, "lab.calibrated.on", values)
