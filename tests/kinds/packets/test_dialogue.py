"""Dialogues with a simulated device find its capacity, and never blame it for the tester."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.kinds.packets.load import PacketsLoad
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kinds.packets.simulated import NODE, Bench, run


def load(**fields: Any) -> PacketsLoad:
    return PacketsLoad.model_validate({"kind": "packets", **fields})


@settings(deadline=None, max_examples=30)
@given(st.floats(5_000, 450_000), st.sampled_from(["one", "both"]))
def test_search_brackets_the_capacity(capacity: float, direction: str) -> None:
    found = run(Bench(capacity), load(direction=direction)).describe()
    (goal,) = found["goals"]
    assert goal["verdict"] == "bracketed" and found["ended"] == "done"
    # Loss of 0.01 % is allowed, and whole frames are counted.
    assert goal["lower"] <= capacity * 1.0003 and goal["upper"] >= capacity * 0.9997
    assert (goal["upper"] - goal["lower"]) / goal["upper"] <= 0.005


def test_rate_is_that_of_both_directions_together() -> None:
    bench = Bench(100_000.0)
    found = run(bench, load(direction="both")).describe()
    assert found["goals"][0]["throughput"] == pytest.approx(100_000, rel=0.01)
    assert all(trial.rates[0] == trial.rates[1] for trial in bench.orders)


@pytest.mark.parametrize("procedure", ["mlr", "published", "bisection"])
def test_every_procedure_finds_a_plain_capacity(procedure: str) -> None:
    found = run(Bench(80_000.0), load(search={"procedure": procedure})).describe()
    assert found["goals"][0]["throughput"] == pytest.approx(80_000, rel=0.006)


def test_device_that_is_faster_than_the_tester_is_at_least_as_fast() -> None:
    found = run(Bench(10_000_000.0), load()).describe()
    assert found["tester_frames_per_s"] == 500_000
    assert found["goals"][0]["verdict"] == "at least"
    assert found["goals"][0]["throughput"] == pytest.approx(500_000)


def test_drops_of_the_receiver_are_not_charged_to_the_device() -> None:
    found = run(Bench(10_000_000.0, ring_drops=7), load(search={"budget": "30 s"})).describe()
    searched = [trial for trial in found["log"] if trial["purpose"] == "search"]
    assert searched and not any(trial["is_valid"] for trial in searched)
    assert found["goals"][0]["throughput"] is None, "no trial says anything about the device"


def test_first_goal_is_the_one_whose_rate_latencies_are_measured_at() -> None:
    bench = Bench(100_000.0)
    dialogue = run(bench, load(latency={"percent": [50, 90], "time": "2 s"}))
    rates = [trial.rates[0] for trial in bench.orders[-2:]]
    assert rates == [pytest.approx(50_000, rel=0.01), pytest.approx(90_000, rel=0.01)]
    assert [h.entity for h in dialogue.histograms()[NODE]] == ["latency/50", "latency/90"]


def test_search_ends_within_its_budget() -> None:
    bench = Bench(100_000.0)
    run(bench, load(search={"budget": "5 s"}, latency=None))
    searched = bench.orders[3:]
    assert sum(trial.duration_ns for trial in searched) <= 5e9
    assert bench.now_ns <= 10**9 + 7e9


def test_tester_without_frames_ends_the_dialogue() -> None:
    found = run(Bench(100_000.0, tester=0.0), load()).describe()
    assert found["goals"] == [] and found["tester_frames_per_s"] == 0
