"""Loads of packets: refusals, and frame sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.errors import UsageError
from hakaru.kinds.packets.load import load_at
from hakaru.kinds.packets.run import RUN
from hakaru.study import expand, load

from tests.kinds.packets.study import written


def test_frame_sizes_are_numbers_or_imix(tmp_path: Any) -> None:
    study = load(str(written(tmp_path, load={"frame": 1518}))).study
    assert load_at(study).sizes == ((1518, 1),)
    imix = load(str(written(tmp_path / "imix", load={"frame": "imix"}))).study
    assert load_at(imix).sizes == ((64, 7), (594, 4), (1518, 1))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": {"frame": 1600}}, "frames of 1600 bytes do not fit the MTU of 1500"),
        ({"load": {"frame": 63}}, "load.frame"),
        ({"load": {"frame": "imax"}}, "load.frame"),
        ({"measure": {"repetitions": 1, "time": "10 s"}}, "a search chooses its trials"),
        ({"load": {"search": {"procedure": "bisection", "goals": [{}, {"loss_percent": 0}]}}}, "has one goal"),
        ({"load": {"search": {"goals": [{}, {}]}}}, "two goals are equal"),
        ({"load": {"search": {"lowest": 1000.0, "highest": 10.0}}}, "not above `lowest`"),
        ({"load": {"search": {"goals": [{"trial": "2 s", "time": "1 s"}]}}}, "shorter than one `trial`"),
        ({"load": {"search": {"goals": [{"trial": "6 min", "time": "6 min"}]}}}, "should be at most 5 min"),
        ({"load": {"latency": {"time": "6 min"}}}, "should be at most 5 min"),
        (
            {"measure": {"repetitions": 1, "sample_interval": "250 ms"}},
            "250 ms is too long for the CPU use of trials of 1 s",
        ),
        (
            {"lab": {"device": {"forwards": "switch"}}, "load": {"settle": "50 ms"}},
            "a sample must fall into the pause after each trial",
        ),
        ({"load": {"latency": {"percent": [0.0]}}}, "above 0 and at most 100"),
        ({"lab": {"hosts": 1}}, "a study of packets needs a device"),
    ],
)
def test_impossible_loads_are_refused(tmp_path: Any, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load(str(written(tmp_path, **parts)))


def test_plan_names_the_longest_budget_of_a_search() -> None:
    assert RUN.each(expand(load("forwarding").study)) == "one search each, at most 5 min"
