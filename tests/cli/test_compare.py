"""`hakaru compare`: output, exit codes and errors, with runs on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hakaru.cli import main

from tests.analysis.small_run import Pt, Rep, write_run

STEADY = (700, 705, 695, 702)


def write(folder: Path, rates: Sequence[int], vms: Sequence[int] = (1, 2), **more: Any) -> str:
    """Write a run whose repetitions have these reads per second; return its name."""
    reps = [Rep(reads=(rate,) * 8, latency_ns=round(7e9 / rate)) for rate in rates]
    return write_run(folder, [Pt({"vms": level}, reps) for level in vms], **more).name


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["compare", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAKARU_RUNS", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return tmp_path


def test_conditions_come_first_then_differences(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(runs, STEADY, machine_kernel="6.1")
    after = write(runs, [rate * 9 // 10 for rate in STEADY], (1, 2, 4), machine_kernel="6.6", run_quick=True)
    code, out, _ = run(capsys, before, after)
    assert code == 0
    assert out.index("machine: kernel") < out.index("difference")
    assert "run: form" in out and "only in" in out and "vms 4" in out
    assert "worse" in out and "all 2 points" in out


def test_json_has_conditions_tests_and_verdicts(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY), write(runs, [rate * 11 // 10 for rate in STEADY])
    code, out, _ = run(capsys, before, after, "--json")
    (comparison,) = json.loads(out)["comparisons"]
    assert code == 0
    assert (comparison["before"]["run"], comparison["after"]["run"]) == (before, after)
    assert (comparison["conditions"], comparison["points"]) == ([], 2)
    verdicts = {row["verdict"] for row in comparison["rows"] if row["metric"] == "read_iops"}
    (together,) = [row for row in comparison["rows"] if row["metric"] == "iops" and row["factors"] is None]
    assert verdicts == {"better"}
    assert together["test"] == "welch_log" and together["change_unit"] == "percent"
    assert together["low"] < together["change"] < together["high"]
    assert together["n"] == [4, 4] and together["p"] <= together["p_corrected"] < 0.05


def test_worse_than_ends_with_4(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY), write(runs, [rate * 92 // 100 for rate in STEADY])
    code, _, err = run(capsys, after, "--against", before, "--worse-than", "5 %")
    assert code == 4
    assert "worse by more than 5 %" in err and "iops at all 2 points -" in err
    assert run(capsys, after, "--against", before, "--worse-than", "20%")[0] == 0


def test_a_better_run_passes_the_gate(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY), write(runs, [rate * 12 // 10 for rate in STEADY])
    assert run(capsys, after, "--against", before, "--worse-than", "5", "--metric", "iops")[0] == 0


def test_strict_gate_fails_if_a_difference_cannot_be_excluded(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, (600, 800, 700)), write(runs, (650, 780, 640))
    gate = (after, "--against", before, "--worse-than", "5 %", "--metric", "iops")
    assert run(capsys, *gate)[0] == 0
    code, _, err = run(capsys, *gate, "--strict")
    assert code == 8
    assert "may be worse by more than 5 %" in err and "more repetitions" in err


@pytest.mark.parametrize(
    ("percent", "limit", "code"),
    [(4, "5", 8), (1.5, "1", 4)],
    ids=["interval beyond the limit", "limit below --same-within"],
)
def test_strict_gate_judges_by_its_own_limit(
    runs: Path, capsys: pytest.CaptureFixture[str], percent: float, limit: str, code: int
) -> None:
    spread = (-30, -10, 10, 30) if code == 8 else (-1, 0, 0, 1)
    before = write(runs, [10_000 + each * 2 for each in spread], (1,))
    after = write(runs, [round(10_000 * (1 - percent / 100)) + each * 5 for each in spread], (1,))
    gate = (after, "--against", before, "--worse-than", limit, "--metric", "iops", "--strict")
    assert run(capsys, *gate)[0] == code


def test_strict_gate_fails_if_the_baseline_has_more_points(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY, (1, 2)), write(runs, STEADY, (1,))
    gate = (after, "--against", before, "--worse-than", "5 %", "--metric", "iops")
    assert run(capsys, *gate)[0] == 0
    code, _, err = run(capsys, *gate, "--strict")
    assert code == 8
    assert "1 points exist only in the baseline" in err


def test_a_gate_that_can_judge_nothing_does_not_pass(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, (700,)), write(runs, (300,))
    assert run(capsys, before, after)[0] == 0
    code, _, err = run(capsys, before, after, "--worse-than", "5 %")
    assert code == 8
    assert "at least 2 repetitions" in err and "--repetitions" in err


def test_japanese_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY), write(runs, [rate // 2 for rate in STEADY])
    _, out, _ = run(capsys, before, after, "--lang", "ja")
    assert "悪化" in out and "信頼区間" in out and "条件の違いはない" in out


def test_a_failed_run_is_not_latest(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after, _ = (
        write(runs, STEADY, run_started=f"2026-0{month}-01T00:00:00+00:00", run_status=status)
        for month, status in ((1, "done"), (2, "done"), (3, "failed"))
    )
    code, out, _ = run(capsys, before, "latest", "--json")
    assert code == 0
    assert json.loads(out)["comparisons"][0]["after"]["run"] == after


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "no run is named", "hakaru compare A B"),
        (["{a}"], "is compared with nothing", "--against B"),
        (["{a}", "{a}"], "is the baseline itself", "hakaru runs"),
        (["{a}", "{b}", "--metric", "iop"], "--metric iop: the runs have no such metric", "did you mean 'iops'?"),
        (["{a}", "{b}", "--worse-than", "much"], "'much' is not a share in percent", "'5 %'"),
        (["{a}", "{b}", "--strict"], "--strict needs a limit", "--worse-than"),
        (["{a}", "{c}"], "have no point in common", "the same levels"),
        (["{a}", "nope"], "no run named 'nope'", "latest"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    names = {"a": write(runs, STEADY), "b": write(runs, STEADY), "c": write(runs, STEADY, (7,))}
    code, out, err = run(capsys, *(argument.format(**names) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err.partition("hint:")[0]
    assert hint in err.partition("hint:")[2]


def test_figure_has_the_curve_of_each_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(runs, STEADY, (1, 2, 4))
    after = write(runs, [rate * 9 // 10 for rate in STEADY], (1, 2))
    path = runs / "both.svg"
    code, _, _ = run(capsys, before, after, "--figure", str(path))
    drawing = ElementTree.parse(path).getroot()
    assert code == 0
    # Every point of both runs is in the text alternative, with its run.
    words = drawing.attrib["aria-label"]
    assert words.count(before) == words.count(after) == 1
    assert words.count("2,001") == 3 and words.count("1,860") == 2


def test_figure_that_cannot_be_drawn_names_those_that_can(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write(runs, STEADY), write(runs, STEADY, note="b")
    code, _, err = run(capsys, before, after, "--figure", str(runs / "both.gif"))
    assert code == 2 and "ends in .svg or .png" in err
    single = write(runs, STEADY, (1,))
    code, _, err = run(capsys, before, single, "--figure", str(runs / "both.svg"))
    assert code == 2 and "needs a factor with several numbers" in err


def test_figures_of_blocks_of_which_one_lacks_the_factor(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [Pt({"vms": level}, [Rep(reads=(700,) * 8)] * 3) for level in (1, 2)]
    names = [write_run(runs, [*points, Pt({"pattern": "a"}, [Rep()] * 3)]).name for _ in range(2)]
    code, _, err = run(capsys, *names, "--figure", str(runs / "compared.svg"))
    assert code == 0, err
    assert "svg" in ElementTree.parse(runs / "compared.svg").getroot().tag
