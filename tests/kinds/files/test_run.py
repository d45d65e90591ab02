"""A whole study of files in a lab, and the commands `hakaru files`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.kinds.files.study import written


def hakaru(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HAKARU_FILES": str(folder / "scratch"), "HAKARU_RUNS": str(folder / "runs")}
    command = [sys.executable, "-m", "hakaru.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=280)


def test_study_runs_reports_and_leaves_no_trees(tmp_path: Path) -> None:
    study = written(tmp_path, load={"verify": True, "cold": True})
    ran = hakaru(tmp_path, "run", str(study), "--report", "html,json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "files/s" in ran.stdout and "result: " in ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    assert summary["valid"] and summary["run"]["origin"] == "measured"
    for point in summary["points"]:
        assert point["metrics"]["files_per_s"]["mean"] > 0
        assert point["metrics"]["open_ms_p99"]["mean"] > 0
    for language, title in (("en", "Files per second by number of tools"), ("ja", "ツール数と毎秒のファイル数")):
        assert title in (run / "report" / f"report.{language}.html").read_text()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_commands_build_verify_survey_and_remove(tmp_path: Path) -> None:
    built = hakaru(tmp_path, "files", "build", "trees", "--scale", "1/10000", "--trees", "1")
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("1000 files built: 100042 bytes")
    surveyed = hakaru(tmp_path, "files", "survey", "trees/t00000")
    assert surveyed.returncode == 0, surveyed.stderr
    (tmp_path / "like.yaml").write_text(surveyed.stdout)
    like = hakaru(tmp_path, "files", "build", "like", "--tree", "like.yaml", "--seed", "5")
    assert like.stdout.startswith("1000 files built"), like.stderr
    file = tmp_path / "trees" / "t00000" / "f000000"
    file.write_bytes(file.read_bytes()[:-1])
    damaged = hakaru(tmp_path, "files", "verify", "trees")
    assert damaged.returncode == 6
    assert f"{file}: it has" in damaged.stderr and "1 files differ" in damaged.stderr
    repaired = hakaru(tmp_path, "files", "build", "trees", "--scale", "1/10000", "--trees", "1")
    assert "999 of them found complete" in repaired.stdout
    assert hakaru(tmp_path, "files", "verify", "trees").returncode == 0
    assert hakaru(tmp_path, "files", "remove", "trees").returncode == 0
    assert not (tmp_path / "trees").exists()


def test_goal_finds_the_number_of_tools(tmp_path: Path) -> None:
    study = written(
        tmp_path,
        factors=[{"tools": {"from": 1, "to": 4}}],
        goal={"files_per_s": 0.001},
        measure={"repetitions": 2, "sample_interval": "100 ms"},
    )
    ran = hakaru(tmp_path, "run", str(study), "--report", "html,json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "is met at all levels of the search, even at" in ran.stdout
    (run,) = (tmp_path / "runs").iterdir()
    (goal,) = json.loads((run / "report" / "report.json").read_text())["goals"]
    assert (goal["find"], goal["answer"], goal["verdict"]) == ("lowest", 1, "at_least")
    assert "goal: 0.00100" in (run / "report" / "report.en.html").read_text()
