"""Calibrated parameters of a study: value, and the published number that it was chosen to meet."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.study import Study
from hakaru.study.variables import value_at
from hakaru.wording import say


def rows(study: Study, is_site: bool, language: str) -> Iterator[tuple[str, str]]:
    """Name and description of each parameter. At a site, only those of the load: the site's
    equipment takes the place of the lab and of the array models.
    """
    for parameter in study.calibrated:
        if is_site and parameter.place.split(".")[0] != "load":
            continue
        values = {"value": str(value_at(study.written, parameter.place)), "on": getattr(parameter.on, language)}
        yield say(language, "lab.calibrated", {"place": parameter.place}), say(language, "lab.calibrated.on", values)
