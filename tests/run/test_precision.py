"""Points are repeated until their intervals are as narrow as requested, within a limit."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.estimate import Estimate
from hakaru.lab.plan import plan_lab
from hakaru.report import render
from hakaru.run import plan
from hakaru.run.schedule import Precise, schedule_of
from hakaru.store import RunReader
from hakaru.study import Expanded, Point, expand, load
from hakaru.study.results import PointResults, half_percent

from tests.analysis.small_run import Pt, Rep, write_run
from tests.run.conftest import STUDY, Hakaru

SPREAD = {"p01": 0.001, "p02": 0.015, "p03": 0.5}
"""Standard deviation of the repetitions of a point, relative to their mean."""


def precise(folder: Path, measure: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(STUDY.replace("repetitions: 2", measure).replace("lab:\n", "lab:\n  backend: kernel\n"))
    return path


def expanded_at(folder: Path, measure: str) -> Expanded:
    return expand(load(str(precise(folder, measure))).study)


def value_of(name: str) -> float:
    return 1000 * random.Random(name).gauss(1, SPREAD[name.split("-")[0]])


def order_of(expanded: Expanded, done: list[str]) -> list[str]:
    """Run the schedule to its end; return the names of its repetitions."""
    schedule, order = schedule_of(expanded), list[str]()
    assert isinstance(schedule, Precise)

    def results(point: Point, times: int) -> PointResults:
        names = [name for name in [*done, *order] if name.startswith(point.id)]
        assert len(names) == times
        return PointResults({"iops": Estimate.two_stage([value_of(name) for name in names], 3, "1/s")}, "iops")

    while (turn := schedule.next([*done, *order], results)) is not None:
        assert turn.order == len(done) + len(order) + 1
        order.append(turn.name)
    return order


def test_points_get_as_many_repetitions_as_their_intervals_need(tmp_path: Path) -> None:
    expanded = expanded_at(tmp_path, "repetitions: 3, repetitions_max: 12, precision: 3 %")
    order = order_of(expanded, [])
    counts = Counter(name.split("-")[0] for name in order)
    assert counts["p01"] == 3 < counts["p02"] < 12 == counts["p03"]
    assert [turn.name for turn in expanded.repetitions] == order[:9], "the first rounds are those of any study"
    half = half_percent(Estimate.two_stage([value_of(name) for name in order if name.startswith("p02")], 3, "1/s"))
    assert half is not None and half <= 3
    assert len(set(order)) == len(order) <= schedule_of(expanded).most == 36


@pytest.mark.parametrize(("spread", "first", "most"), [(0.03, 3, 10), (0.05, 5, 20), (0.03, 3, 100)])
def test_intervals_of_repeated_points_contain_the_true_mean(spread: float, first: int, most: int) -> None:
    contained = 0
    for seed in range(2000):
        noise = random.Random(seed)
        values = [noise.gauss(1000, 1000 * spread) for _ in range(first)]
        while True:
            found = Estimate.two_stage(values, first, "1/s")
            half = half_percent(found)
            assert half is not None
            if half <= 3 or len(values) == most:
                break
            values.append(noise.gauss(1000, 1000 * spread))
        assert found.low is not None and found.high is not None
        contained += found.low <= 1000 <= found.high
    assert contained >= 0.94 * 2000, contained


def test_two_repetitions_do_not_end_a_point(tmp_path: Path) -> None:
    expanded = expanded_at(tmp_path, "repetitions: 2, repetitions_max: 5, precision: 50 %")
    assert Counter(name.split("-")[0] for name in order_of(expanded, []))["p01"] == 3


def test_resumed_run_has_the_order_of_one_that_was_not_interrupted(tmp_path: Path) -> None:
    expanded = expanded_at(tmp_path, "repetitions: 3, repetitions_max: 12, precision: 3 %")
    whole = order_of(expanded, [])
    for stopped in range(len(whole)):
        assert order_of(expanded, whole[:stopped]) == whole[stopped:]


def test_plan_includes_the_most_repetitions(tmp_path: Path) -> None:
    expanded = expanded_at(tmp_path, "repetitions: 2, repetitions_max: 5, precision: 3 %")
    lab = plan_lab(expanded.study.lab)
    assert plan.describe(expanded, lab, {})["repetitions_most"] == 15
    text = "\n".join(plan.lines(expanded, lab, {}))
    assert (
        "3 points x 2 to 5 repetitions" in text
        and "minutes for at most 15 repetitions" in text
        and "further rounds" in text
    )
    each_s = 0.2 + 1.0 + plan.REPETITION_S
    assert plan.estimate(expanded, lab).seconds == pytest.approx(15 * each_s + plan.REPORT_S, abs=plan.LAB_S + 8)


def test_report_says_which_points_reached_the_precision(tmp_path: Path) -> None:
    rates = {1: [4000, 4010, 4020], 4: [8000, 9600, 9400]}
    run = write_run(
        tmp_path / "run",
        [
            Pt({"vms": vms}, [Rep(vms=vms, reads=(rate // vms,) * 8, writes=(0,) * 8) for rate in values])
            for vms, values in rates.items()
        ],
        measure={"repetitions": 2, "repetitions_max": 3, "precision": "3 %"},
    )
    summary = summarise(run)
    missed = {
        p["factors"]["vms"]: [c for c in p["caveats"] if c["caveat"] == "precision_missed"] for p in summary["points"]
    }
    assert [point["first_stage"] for point in summary["points"]] == [3, 3]
    assert missed[1] == []
    (caveat,) = missed[4]
    assert caveat["values"] == {"metric": "iops", "asked": 3.0, "n": 3, "percent": pytest.approx(23.7, abs=1)}
    assert "half the confidence interval of iops is" in caveat["text"]
    english, japanese = (
        path.read_text().replace("\xa0", " ")
        for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name)
    )
    assert "at most 3 % of the mean, up to 3 times; 1 of 2 points reached this." in english
    assert "2 点のうち 1 点がこれに達した" in japanese


def test_run_repeats_points_up_to_the_limit(hakaru: Hakaru, tmp_path: Path) -> None:
    path = precise(tmp_path / "small", "repetitions: 2, repetitions_max: 3, precision: {iops: 0.0001 %}")
    result = hakaru.run("run", str(path), "--only", "pattern=mixed", "--report", "none", "--json")
    assert result.returncode in (0, 5), result.stderr
    reader = RunReader(hakaru.only_run())
    assert Counter(r["point"] for r in reader.repetitions()) == {"p01": 3, "p02": 3}
    assert [p["repetitions"] for p in reader.read("points.json")] == [3, 3]
    for point in reader.read("summary.json")["points"]:
        if point["valid"]:
            assert "precision_missed" in {c["caveat"] for c in point["caveats"]}
