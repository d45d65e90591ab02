"""Dialogues with a simulated device find its capacity, and never blame it for the tester."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.engine.contract import packets
from hakaru.kinds.packets.dialogue import LATENCY_ATTEMPTS, PacketsDialogue, late_limit_ns, search_result
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.run.dialogue import Order
from hakaru.search import Trial as SearchTrial
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


@pytest.mark.parametrize(("rate", "limit_ns"), [(1_000, 5_000_000), (100_000, 1_280_000), (10_000_000, 100_000)])
def test_late_limit_follows_the_rate_so_that_no_burst_fills_the_input_queue(rate: float, limit_ns: int) -> None:
    assert late_limit_ns([rate, 0.0, None]) == limit_ns
    bench = Bench(100_000.0)
    run(bench, load())
    for order in bench.orders:
        paced = [rate for rate in order.rates if rate]
        # Rates from 25,600 frames per second on could fill the queue within the engine's default.
        assert all(rate * order.late_limit_ns / 1e9 <= 128.001 or order.late_limit_ns == 100_000 for rate in paced)


@pytest.mark.parametrize(("lost", "is_valid"), [(0, True), (3, False)])
def test_trial_with_a_late_frame_is_invalid_if_it_lost_frames(lost: int, is_valid: bool) -> None:
    bench = Bench(10_000_000.0)
    trial = SearchTrial(50_000.0, 1.0)
    result = bench.answer(Order(NODE, contract.Trial(id=1, duration_ns=10**9, rates=[50_000.0, 0.0, 0.0, 0.0])))
    fault = packets.TesterFault(kind="late", entity="stream/forward", message="a frame was sent 9 ms late")
    forward = result.streams[0].model_copy(update={"received": 50_000 - lost, "lost": lost})
    result = result.model_copy(update={"tester_faults": [fault], "streams": [forward, *result.streams[1:]]})
    assert (search_result(trial, result).tester_ratio == 1.0) == is_valid


def test_frames_due_while_processors_stopped_are_not_judged() -> None:
    bench = Bench(10_000_000.0)
    trial = SearchTrial(50_000.0, 1.0)
    result = bench.answer(Order(NODE, contract.Trial(id=1, duration_ns=10**9, rates=[50_000.0, 0.0, 0.0, 0.0])))
    counts = {"sent": 49_000, "unsent": 1_000, "received": 48_300, "lost": 700}
    excluded = {"excluded": 2_000, "excluded_unsent": 900, "excluded_lost": 650}
    forward = result.streams[0].model_copy(update=counts | excluded)
    found = search_result(trial, result.model_copy(update={"streams": [forward, *result.streams[1:]]}))
    assert (found.intended, found.offered, found.lost) == (48_000, 47_900, 50)


@pytest.mark.parametrize("purpose", ["tester", "flood"])
def test_limit_of_the_tester_is_that_of_the_trial_without_stops(purpose: str) -> None:
    bench, dialogue = Bench(80_000.0), PacketsDialogue(load(), NODE)
    undisturbed = run(Bench(80_000.0), load()).describe()
    disturbed = {"tester": {1, 3}, "flood": {3, 4}}[purpose]
    while (order := dialogue.next_order(bench.now_ns / 1e9)) is not None:
        result = bench.answer(order)
        if order.trial.id in disturbed:
            # The sender had a processor for itself, while that of the device or receiver stopped.
            stops = packets.ProcessorStops(count=1, longest_ns=100_000_000, excluded_ns=200_000_000)
            more = [s.model_copy(update={"sent": s.sent * 2, "received": s.received // 2}) for s in result.streams]
            result = result.model_copy(update={"stops": stops, "streams": more})
        dialogue.record(order, result, bench.losses)
    found = dialogue.describe()
    assert [t["purpose"] for t in found["log"]].count(purpose) == len(disturbed) + (2 if purpose == "tester" else 1)
    assert (found["tester_frames_per_s"], found["cap"]) == (undisturbed["tester_frames_per_s"], undisturbed["cap"])


def test_trial_that_is_hardly_judged_is_invalid() -> None:
    bench = Bench(10_000_000.0, stopped_ms=600)
    result = bench.answer(Order(NODE, contract.Trial(id=1, duration_ns=10**9, rates=[50_000.0, 0.0, 0.0, 0.0])))
    assert search_result(SearchTrial(50_000.0, 1.0), result).tester_ratio < 1.0


@pytest.mark.parametrize("stopped_ms", [5, 100])
def test_losses_while_processors_stop_do_not_change_the_result(stopped_ms: int) -> None:
    undisturbed = run(Bench(80_000.0), load()).describe()
    found = run(Bench(80_000.0, stopped_ms=stopped_ms), load()).describe()
    [goal], [expected] = found["goals"], undisturbed["goals"]
    assert goal["verdict"] == expected["verdict"] == "bracketed"
    assert goal["throughput"] == pytest.approx(expected["throughput"], rel=0.005)
    searched = [t for t in found["log"] if t["purpose"] == "search"]
    assert all(sum(s["lost"] for s in t["streams"]) > 0 for t in searched)


def test_first_goal_is_the_one_whose_rate_latencies_are_measured_at() -> None:
    bench = Bench(100_000.0)
    dialogue = run(bench, load(latency={"percent": [50, 90], "time": "2 s"}))
    rates = [trial.rates[0] for trial in bench.orders[-2:]]
    assert rates == [pytest.approx(50_000, rel=0.01), pytest.approx(90_000, rel=0.01)]
    assert [h.entity for h in dialogue.histograms()[NODE]] == ["latency/50", "latency/90"]


@pytest.mark.parametrize(("late", "measured"), [(0, True), (LATENCY_ATTEMPTS - 1, True), (LATENCY_ATTEMPTS, False)])
def test_trial_for_the_latency_is_repeated_if_the_tester_was_late(late: int, measured: bool) -> None:
    tried: list[int] = []

    def is_late(trial: contract.Trial) -> bool:
        if trial.duration_ns == 2_500_000_000:
            tried.append(trial.id)
        return trial.duration_ns == 2_500_000_000 and len(tried) <= late

    spec = load(latency={"percent": [50], "time": "2500 ms"})
    dialogue = run(Bench(80_000.0, is_late=is_late), spec)
    assert len(tried) == min(late + 1, LATENCY_ATTEMPTS)
    assert [h.entity for h in dialogue.histograms()[NODE]] == (["latency/50"] if measured else [])


def test_trial_with_more_frames_than_were_sent_says_nothing_about_the_device() -> None:
    found = run(Bench(80_000.0, surplus=3), load(search={"budget": "30 s"})).describe()
    lossless = [t for t in found["log"] if t["purpose"] == "search" and not sum(s["lost"] for s in t["streams"])]
    assert lossless and not any(trial["is_valid"] for trial in lossless)


def test_search_ends_within_its_budget() -> None:
    bench = Bench(100_000.0)
    run(bench, load(search={"budget": "5 s"}, latency=None))
    searched = bench.orders[3:]
    assert sum(trial.duration_ns for trial in searched) <= 5e9
    assert bench.now_ns <= 10**9 + 7e9


def test_tester_without_frames_ends_the_dialogue() -> None:
    found = run(Bench(100_000.0, tester=0.0), load()).describe()
    assert found["goals"] == [] and found["tester_frames_per_s"] == 0
    assert found["verdict"] == "tester limit" and found["cap"]["reason"] == "tester"


def test_device_below_the_lowest_rate_is_found_although_it_loses_most_of_the_flood() -> None:
    found = run(Bench(40_000.0, tester=180_000.0), load(search={"lowest": 100_000})).describe()
    assert (found["verdict"], found["cap"]["reason"]) == ("below range", "tester")


def test_warm_up_of_a_search_is_as_long_as_its_trials() -> None:
    bench = Bench(80_000.0)
    found = run(bench, load(search={"goals": [{"trial": "2 s", "time": "2 s"}]})).describe()
    assert {trial["seconds"] for trial in found["log"] if trial["purpose"] == "search"} == {2.0}
