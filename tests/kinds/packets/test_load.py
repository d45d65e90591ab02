"""Loads of packets: refusals, and frame sizes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hakaru.errors import UsageError
from hakaru.kinds.packets.load import load_at
from hakaru.kinds.packets.run import RUN
from hakaru.run.devices import refusals
from hakaru.study import expand, load

from tests.kinds.packets.study import LAB, written


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
        (
            {"load": {"frame": 3845, "receive": "af_xdp"}, "lab": {**LAB, "mtu": 4000}},
            "AF_XDP receives frames of at most 3844 bytes",
        ),
    ],
)
def test_impossible_loads_are_refused(tmp_path: Any, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load(str(written(tmp_path, **parts)))


def test_reception_that_needs_root_is_refused_by_point(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for method, hints in (("af_xdp", {"run as root, or use `receive: auto` in `load`"}), ("tpacket_v3", set())):
        study = load(str(written(tmp_path / method, load={"receive": method}))).study
        for user, expected in ((0, set()), (1000, hints)):
            monkeypatch.setattr(os, "geteuid", lambda user=user: user)
            assert {refusal.hint for refusal in refusals(expand(study)).values()} == expected


def test_reception_in_slots_of_4096_bytes_takes_twice_the_memory(tmp_path: Any) -> None:
    held = {}
    for size in (1796, 1797):
        load_part = {"frame": size, "receive": "af_xdp"}
        study = load(str(written(tmp_path / str(size), load=load_part, lab={**LAB, "mtu": 4000}))).study
        expanded = expand(study)
        held[size] = RUN.cost(expanded, expanded.points[0], None).held_bytes
    # Four ports with 64 MiB of slots.
    assert held[1797] - held[1796] == 4 * (64 << 20)


def test_plan_names_the_longest_budget_of_a_search() -> None:
    assert RUN.each(expand(load("forwarding").study)) == "one search each, at most 5 min"
