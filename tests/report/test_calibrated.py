"""Calibrated parameters in the report: their values stand in the study, and are not repeated."""

from __future__ import annotations

import pytest
from hakaru.report import calibrated
from hakaru.study.variables import Change
from hakaru.wording import LANGUAGES

from tests.study.shipped import shipped


@pytest.mark.parametrize("language", LANGUAGES)
def test_row_has_the_value_of_the_study_and_the_number_that_it_was_chosen_on(language: str) -> None:
    study = shipped("long-distance").study
    place = study.calibrated[0].place
    ((name, text),) = calibrated.rows(study, False, language)
    assert place in name
    assert text.startswith("2") and getattr(study.calibrated[0].on, language) in text
    ((_, changed),) = calibrated.rows(study.changed([Change(place, 7)]), False, language)
    assert changed.startswith("7")


def test_site_has_calibrated_parameters_of_the_load_alone() -> None:
    study = shipped("vm-sweep").study
    places = {parameter.place for parameter in study.calibrated}
    assert {"array.model.name", "load.image"} <= places
    assert len(list(calibrated.rows(study, False, "en"))) == len(places)
    ((name, _),) = calibrated.rows(study, True, "en")
    assert "load.image" in name
