"""The state of a run from its events, without a run."""

from __future__ import annotations

from typing import Any

from hakaru.live import words
from hakaru.live.lines import line_of
from hakaru.live.state import State

POINTS = [
    {"point": "p01", "factors": {"vms": 1}, "repetitions": 2},
    {"point": "p02", "factors": {"vms": 7}, "repetitions": 2},
]


def state_after(*events: dict[str, Any], repetitions: list[dict[str, Any]] | None = None) -> State:
    state = State.of_files("r", {"study": "s", "kind": "vms"}, POINTS, repetitions or [])
    for event in events:
        state.apply(event)
    return state


def begin(point: str, repetition: int, done: int = 0) -> dict[str, Any]:
    factors = {"vms": 1}
    place = {"point": point, "repetition": repetition, "factors": factors, "label": "vms 1", "done": done}
    return {"event": "repetition_started", "at": 10.0, "total": 4, "left_s": 60, **place}


def end(point: str, repetition: int, end_ns: int = 2) -> dict[str, Any]:
    measure = {"start_ns": 0, "end_ns": end_ns}
    return {"event": "repetition", "at": 12.0, "point": point, "repetition": repetition, "measure": measure}


def sample(**values: Any) -> dict[str, Any]:
    return {"event": "sample", "at": 11.0, "point": "p01", "repetition": 1, "text": "t", **values}


def test_samples_become_series_of_equal_length() -> None:
    state = state_after(
        begin("p01", 1),
        sample(iops=10.0, queues={"drives": 1.0}, left_s=50),
        sample(iops=20.0, mb_per_s=3.0, latency_ms_p99=None, queues={}),
    )
    assert {k: list(v) for k, v in state.series.rates.items()} == {
        "iops": [10.0, 20.0],
        "mb_per_s": [None, 3.0],
        "latency_ms_p99": [None, None],
    }
    assert list(state.series.queues["drives"]) == [1.0, None]
    assert list(state.series.at) == [11.0, 11.0]
    assert state.left_s == 50


def test_series_begin_anew_with_every_repetition() -> None:
    state = state_after(begin("p01", 1), sample(iops=10.0), end("p01", 1), begin("p02", 1, 1))
    assert (state.current, dict(state.series.rates), state.done) == ("p02", {}, 1)


def test_a_repetition_that_the_files_and_an_event_show_counts_once() -> None:
    recorded = [{"point": "p01", "repetition": 1, "status": "done"}]
    state = state_after(end("p01", 1), end("p01", 2, end_ns=0), repetitions=recorded)
    point = state.points["p01"]
    assert (point.ended, point.failed) == ({1: True, 2: False}, 1)
    assert state.to_json()["points"][0]["done"] == 2


def test_a_point_that_the_files_lack_is_added() -> None:
    state = state_after(begin("t03", 1), end("t03", 1), begin("t03", 2))
    assert (state.points["t03"].planned, state.points["t03"].ended) == (2, {1: True})


def test_a_connection_that_ends_too_early_means_a_killed_run() -> None:
    ended = {"event": "run_ended", "status": "interrupted", "done": 1, "total": 4}
    closed = {"event": "closed", "status": "running"}
    assert state_after(begin("p01", 1), closed).status == "killed"
    assert state_after(ended, closed).status == "interrupted"
    # A reader that was too slow for the last events finds the status in the files.
    assert state_after(begin("p01", 1), closed | {"status": "done"}).status == "done"


def test_a_point_has_the_rate_of_its_last_repetition_until_it_is_analysed() -> None:
    result = {
        "event": "result",
        "point": "p01",
        "repetition": 1,
        "text": "1,250 IOPS",
        "iops": 1250.4,
        "mb_per_s": 20.0,
    }
    state = state_after(begin("p01", 1), result)
    assert words.result(state.points["p01"]) == ("", "1,250")
    answer = {"point": "p01", "columns": ["IOPS", "±", "p99 ms"], "cells": ["1,251", "3", "17"], "caveats": []}
    state.learn(answer | {"limiter": "link", "valid": True})
    point = state.points["p01"]
    assert (words.result(point), words.tail(point), words.others(point)) == (
        ("IOPS", "1,251 ± 3"),
        ("p99 ms", "17"),
        [],
    )
    state.learn({"point": "p01", "error": "not enough"})
    assert words.result(point)[1] == "1,251 ± 3"


def test_unknown_events_change_nothing() -> None:
    state = state_after({"event": "later", "at": 5.0})
    assert (state.status, state.at, line_of({"event": "later"})) == ("running", 5.0, None)
