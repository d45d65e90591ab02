"""Searches for a goal: plan, schedule, and whole runs against an array whose answer is known."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.estimate import Estimate
from hakaru.lab.plan import plan_lab
from hakaru.run import plan
from hakaru.run.schedule import Searches, schedule_of
from hakaru.store import RunReader
from hakaru.study import Expanded, Point, expand, load
from hakaru.study.results import PointResults

from tests.cli.command import pages_of
from tests.run.conftest import STUDY, Hakaru, until

# The controller takes 60 ms for each command, one at a time, so with N VMs that each wait for one
# command, the mean response time is 60 N ms. A busy machine adds some milliseconds.
COMMAND_MS = 60
SLOW_ARRAY = f"""\
  model:
    kind: array
    controller: {{command_us: {1000 * COMMAND_MS}, data_us_per_mib: 0}}
    groups: [{{raid: raid0, drives: 4, stripe_unit_bytes: 65536, drive: {{kind: preset, name: sas-15k-146}}}}]
  lus: [{{lun: 0, size: 64 MiB, placement: {{group: 0}}}}]
"""
BLOCKS = "  - {pattern: [mixed], vms: [1, 3]}\n  - {pattern: [reads], vms: [2]}\n"


def searching(folder: Path, *, block: str, goal: str, repetitions: str, time: str = "1 s") -> Path:
    """Write the small study with a goal and the slow array."""
    text = STUDY.replace("  model: {kind: none}\n  lus: [{lun: 0, size: 64 MiB}]\n", SLOW_ARRAY)
    text = text.replace("queue_depth: 4", "queue_depth: 1").replace("image: 16 MiB", "image: 4 MiB")
    text = text.replace(BLOCKS, f"  - {block}\ngoal: {goal}\n").replace("repetitions: 2", repetitions)
    text = text.replace("time: 1 s", f"time: {time}").replace("lab:\n  hosts: 2", "lab:\n  backend: kernel\n  hosts: 2")
    path = folder / "study.yaml"
    folder.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def expanded_at(path: Path) -> Expanded:
    return expand(load(str(path)).study)


class Simulated:
    """A system whose mean response time is 1.4 ms for each VM, with seeded noise of 6 %."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def measure(self, point: Point, number: int) -> None:
        noise = random.Random(f"{point.id}-{number}").gauss(1, 0.06)
        self.values.setdefault(point.id, []).append(1.4 * float(point.factors["vms"]) * noise)

    def results(self, point: Point, times: int) -> PointResults:
        assert len(self.values[point.id]) == times
        return PointResults({"latency_ms_mean": Estimate.over(self.values[point.id], "ms")}, "iops")


def order_of(schedule: Searches, done: list[str], system: Simulated) -> list[str]:
    """Run a search to its end; return the names of its repetitions."""
    order: list[str] = []
    while (turn := schedule.next([*done, *order], system.results)) is not None:
        assert turn.order == len(done) + len(order) + 1
        system.measure(turn.point, turn.repetition)
        order.append(turn.name)
    return order


def test_plan_states_the_most_points_and_repetitions_and_their_time(tmp_path: Path) -> None:
    block = "{pattern: [mixed, reads], vms: {from: 1, to: 16}}"
    path = searching(tmp_path, block=block, goal="{latency_ms_mean: 100 ms, budget: 12}", repetitions="repetitions: 2")
    expanded = expanded_at(path)
    lab = plan_lab(expanded.study.lab)
    described = plan.describe(expanded, lab, {})
    assert [(s["over"], s["points_most"], s["repetitions_most"]) for s in described["searches"]] == [
        ("vms", 12, 12)
    ] * 2
    assert described["searches"][0]["where"] == {"pattern": "mixed"}
    text = "\n".join(plan.lines(expanded, lab, {}))
    assert "2 searches for the goal, at most 24 points and 24 repetitions" in text
    assert "order: follows from the results" in text
    assert "pattern reads: highest of 16 levels of vms from 1 to 16 with latency_ms_mean at most 100" in text
    each_s = 0.2 + 1.0 + plan.REPETITION_S
    assert plan.estimate(expanded, lab).seconds == pytest.approx(24 * each_s + plan.REPORT_S, abs=plan.LAB_S + 8)


def test_searches_take_turns_and_stay_within_the_plan(tmp_path: Path) -> None:
    block = "{pattern: [mixed, reads], vms: {from: 1, to: 16}}"
    path = searching(tmp_path, block=block, goal="{latency_ms_mean: 10 ms}", repetitions="repetitions: 3")
    expanded = expanded_at(path)
    schedule = schedule_of(expanded)
    assert isinstance(schedule, Searches)
    order = order_of(schedule, [], Simulated())
    assert len(order) <= schedule.most == len(schedule.left(()))
    patterns = {point.id: point.factors["pattern"] for point in expanded.points}
    assert [patterns[name.split("-")[0]] for name in order[:6]] == ["mixed", "reads"] * 3
    assert len(set(order)) == len(order)


def test_resumed_search_has_the_order_of_one_that_was_not_interrupted(tmp_path: Path) -> None:
    path = searching(
        tmp_path,
        block="{pattern: [reads], vms: {from: 1, to: 16}}",
        goal="{latency_ms_mean: 10 ms}",
        repetitions="repetitions: 3, repetitions_max: 6",
    )
    expanded = expanded_at(path)
    points = {point.id: point for point in expanded.points}
    whole = order_of(schedule_of(expanded), [], Simulated())  # type: ignore[arg-type]
    assert len(whole) > 9
    for stopped in range(len(whole)):
        system = Simulated()
        for name in whole[:stopped]:
            point, _, number = name.partition("-")
            system.measure(points[point], int(number))
        assert order_of(schedule_of(expanded), whole[:stopped], system) == whole[stopped:]  # type: ignore[arg-type]


def test_search_finds_the_number_of_vms_of_the_closed_form_and_resumes_after_ctrl_c(
    hakaru: Hakaru, tmp_path: Path
) -> None:
    path = searching(
        tmp_path / "small",
        block="{pattern: [reads], vms: {from: 1, to: 8}}",
        goal="{latency_ms_mean: 270 ms, errors_per_s: 0}",
        repetitions="repetitions: 2, repetitions_max: 3",
        time="2 s",
    )
    with hakaru.start("run", str(path), "--json", "--report", "none") as process:
        until(process, "repetition", 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    interrupted = hakaru.only_run()
    kept = [(r["point"], r["repetition"]) for r in RunReader(interrupted).repetitions()]
    assert kept[:2] == [("p01", 1), ("p08", 1)]
    assert {p["point"] for p in RunReader(interrupted).read("points.json")} == {point for point, _ in kept}
    partial = summarise(interrupted)
    assert partial["goals"][0]["verdict"] == "unfinished"
    assert "goal_unfinished" in {caveat["caveat"] for caveat in partial["caveats"]}

    result = hakaru.run("run", str(path), "--resume", "latest", "--report", "none", "--json")
    assert result.returncode in (0, 5), result.stderr
    directory = hakaru.only_run()
    records = RunReader(directory).repetitions()
    assert [(r["point"], r["repetition"]) for r in records[: len(kept)]] == kept
    assert sorted(r["order"] for r in records) == list(range(1, len(records) + 1))
    summary = RunReader(directory).read("summary.json")
    (goal,) = summary["goals"]
    # 4 VMs have 240 ms and 5 VMs 300 ms; a busy machine only adds to them.
    assert goal["answer"] == 4, summary["findings"][0]["text"]
    assert goal["verdict"] == "bracketed"
    assert 3 <= goal["low"] <= 4 <= goal["high"] <= 5
    assert goal["repetitions"] == len(records) <= goal["repetitions_most"]
    by_level = {p["factors"]["vms"]: p for p in summary["points"]}
    assert set(by_level) < set(range(1, 9)), "a search, not a sweep"
    assert by_level[4]["metrics"]["latency_ms_mean"]["mean"] == pytest.approx(4 * COMMAND_MS, rel=0.1)
    assert by_level[5]["metrics"]["latency_ms_mean"]["n"] >= 2
    assert summary["findings"][0]["kind"] == "goal"
    started = next(json.loads(line) for line in result.stdout.splitlines() if "run_started" in line)
    assert started["done"] == len(kept)
    # Numbers and their units are joined by no-break spaces.
    report = pages_of(directory)["en"].replace("\u00a0", " ")
    assert "is met up to 4 VMs" in report
