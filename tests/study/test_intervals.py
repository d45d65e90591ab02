"""Intervals between samples: their forms in a study, defaults, and the ones that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.errors import UsageError
from hakaru.study import Study, load, study_schema
from hakaru.study.intervals import SampleIntervals
from hakaru.study.model import Measure

from tests.kinds.files.study import fields, written

S = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize(
    ("as_written", "hosts", "arrays", "switches", "drives"),
    [
        ("10 s", 10 * S, 10 * S, 10 * S, 10 * S),
        ({"hosts": "10 s"}, 10 * S, 10 * S, 10 * S, 10 * S),
        ({"arrays": "60 s"}, S, 60 * S, S, 60 * S),
        ({"hosts": "10 s", "arrays": "60 s", "drives": "200 ms"}, 10 * S, 60 * S, 10 * S, 200 * MS),
        ({"hosts": "5 s", "switches": "100 ms"}, 5 * S, 5 * S, 100 * MS, 5 * S),
    ],
)
def test_one_duration_is_that_of_all_and_a_mapping_has_one_per_kind_of_node(
    as_written: Any, hosts: int, arrays: int, switches: int, drives: int
) -> None:
    measure = Measure.model_validate({"repetitions": 1, "sample_interval": as_written})
    assert tuple(measure.intervals) == (hosts, arrays, switches, drives)
    assert measure.intervals.drives_alone == (drives if drives < arrays else None)
    again = json.loads(json.dumps(measure.model_dump(mode="json")))
    assert Measure.model_validate(again) == measure
    jsonschema.Draft7Validator(study_schema()).validate(fields(measure=again))


def test_interval_is_dumped_as_a_plain_duration_if_it_is_one() -> None:
    assert Measure(repetitions=1).model_dump(mode="json")["sample_interval"] == "1 s"
    assert SampleIntervals.model_validate({"drives": "200 ms"}).model_dump(mode="json") == {
        "hosts": "1 s",
        "drives": "200 ms",
    }


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ({"sample_interval": "10 ms"}, "measure.sample_interval: should be at least 100 ms (found '10 ms')"),
        ({"sample_interval": {"arrays": "2 min"}}, "measure.sample_interval.arrays: should be at most 1 min"),
        ({"sample_interval": {"servers": "1 s"}}, "measure.sample_interval.servers: unknown field"),
        ({"sample_interval": {"arrays": "1 s", "drives": "2 s"}}, "longer than the interval of the array, 1 s"),
        ({"sample_interval": {"drives": "300 ms"}}, "the interval of the array, 1 s, is not a multiple of 300 ms"),
        ({"time": "3 s", "sample_interval": "2 s"}, "2 s is too long to measure for 3 s"),
        ({"time": "60 s", "sample_interval": {"arrays": "60 s"}}, "1 min is too long to measure for 1 min"),
    ],
    ids=str,
)
def test_impossible_intervals_are_refused(tmp_path: Path, measure: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(str(written(tmp_path, measure={"repetitions": 1} | measure)))
    assert message in refused.value.message


def test_refusals_say_what_to_write(tmp_path: Path) -> None:
    for measure, hint in (
        ({"time": "3 s", "sample_interval": "2 s"}, "use at most 1.5 s, or a longer `time`"),
        ({"sample_interval": {"drives": "300 ms"}}, "use a divisor of it, or 900 ms for the array"),
    ):
        with pytest.raises(UsageError) as refused:
            load(str(written(tmp_path, measure={"repetitions": 1} | measure)))
        assert hint in refused.value.hint


def test_quick_form_is_checked_too(tmp_path: Path) -> None:
    measure = {"repetitions": 1, "time": "2 s", "sample_interval": {"arrays": "5 s"}}
    with pytest.raises(UsageError, match="5 s is too long to measure for 2 s"):
        load(str(written(tmp_path, quick={"measure": measure})))


def test_the_default_was_not_chosen_and_is_not_refused(tmp_path: Path) -> None:
    study: Study = load(str(written(tmp_path, measure={"repetitions": 1, "time": "1 s"}))).study
    assert study.measure.intervals.hosts == S
