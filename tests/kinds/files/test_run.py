"""A whole study of files in a lab, and the commands `hakaru files`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import RunReader

from tests.cli.command import pages_of, run_here
from tests.fileserver.conftest import need_samba
from tests.kinds.files.study import LAB, TREE, written


def options(folder: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    folders = {"HAKARU_FILES": str(folder / "scratch"), "HAKARU_RUNS": str(folder / "runs")}
    environment = os.environ | folders | variables
    return {"args": [sys.executable, "-m", "hakaru.cli", *arguments], "text": True, "cwd": folder, "env": environment}


def hakaru(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    completed: subprocess.CompletedProcess[str] = subprocess.run(
        **options(folder, *arguments, **variables), capture_output=True, timeout=800
    )
    return completed


def test_study_runs_reports_and_leaves_no_trees(tmp_path: Path) -> None:
    study = written(tmp_path, load={"verify": True, "cold": True})
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "files/s" in ran.stdout and "result: " in ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    assert summary["valid"] and summary["run"]["origin"] == "measured"
    for point in summary["points"]:
        assert point["metrics"]["files_per_s"]["mean"] > 0
        assert point["metrics"]["open_ms_p99"]["mean"] > 0
    pages = pages_of(run)
    assert "Files per second by number of tools" in pages["en"] and "ツール数と毎秒のファイル数" in pages["ja"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_study_over_smb_runs_reports_and_leaves_nothing(tmp_path: Path) -> None:
    need_samba()
    factors = [{"tools": [1, 2], "signing": [False]}, {"signing": [True]}]
    lab = LAB | {"host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}
    study = written(tmp_path, lab=lab, load={"verify": True, "to": {"smb": {}}}, factors=factors)
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    assert [point["factors"] for point in summary["points"]] == [
        {"tools": 1, "signing": False},
        {"tools": 2, "signing": False},
        {"signing": True},
    ]
    for point in summary["points"]:
        assert point["metrics"]["files_per_s"]["mean"] > 0
        shares = sum(m["mean"] for name, m in point["metrics"].items() if name.endswith("_time_percent") and m["mean"])
        assert 20 < shares <= 101
        # The links of the lab are watched.
        assert point["limiter"] in ("machine_cpu", "file_server", "link", "undetermined")
        assert any(resource.startswith("link/") for resource in point["utilisation"])
    record = json.loads((run / "repetitions" / "p03-1.json").read_text())
    assert record["file_servers"]["server"]["software"].startswith("Samba 4.")
    loads = [engine for engine in record["engines"] if engine["engine"] == "files"]
    assert [engine["values"]["errors"] for engine in loads] == [0]
    assert all(engine["values"]["verified_bytes"] == engine["values"]["read_bytes"] > 0 for engine in loads)
    assert all(engine["found"]["smb"]["signing"] is not None for engine in loads)
    pages = pages_of(run)
    assert "share of Samba in the lab" in pages["en"] and "検証環境内の Samba の共有" in pages["ja"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_file_server_that_is_killed_ends_the_run_with_its_name(tmp_path: Path) -> None:
    need_samba()
    if os.geteuid() != 0:
        pytest.skip("needs root, to find the server among the processes of its namespace")
    tree = TREE | {"trees": 64, "targets": 2000}
    study = written(tmp_path, load={"to": {"smb": {}}, "tree": tree, "keep": True}, factors=[{"tools": [1]}])
    process = subprocess.Popen(
        **options(tmp_path, "run", str(study), "--report", "json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 300
        # A tree is on the share, so sessions exist.
        while not list((tmp_path / "scratch").glob("shares/server/trees/t0*")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(min(processes_of(tmp_path, "smbd")), signal.SIGKILL)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 7, output + errors
    assert "file server server was lost: Samba ended with signal 9" in errors
    assert processes_of(tmp_path, "smbd") == set()


def test_measuring_begins_once_the_rate_of_files_is_steady(tmp_path: Path) -> None:
    need_samba()
    # The limits admit any rate, so the first window ends the warm-up.
    steady = {"within": "60 s", "window": "600 ms", "range": "10000 %", "drift": "10000 %"}
    measure = {"warmup": "100 ms", "time": "1 s", "repetitions": 1, "sample_interval": "100 ms", "steady": steady}
    loads = {"to": {"smb": {}}, "profile": "metadata", "tree": TREE | {"targets": 2000}}
    study = written(tmp_path, load=loads, measure=measure, factors=[{"tools": [1]}])
    planned = run_here("plan", str(study))
    assert "700 ms to 1 min, until steady, warm-up + 1 s measured each" in planned.stdout
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    (record,) = RunReader(run).repetitions()
    assert record["warm_up"]["steady"] and 0.7 <= record["warm_up"]["seconds"] < 30
    assert record["measure"]["end_ns"] - record["measure"]["start_ns"] >= 1_000_000_000
    page = pages_of(run)["en"].replace("\xa0", " ")
    assert "until the rate is steady (range below 10,000 %, drift below 10,000 %), for 700 ms to 1 min" in page


def processes_of(folder: Path, program: str) -> set[int]:
    """Processes of a program that a run with this folder started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_program = (path / "comm").read_text().strip() == program
            if is_program and f"HAKARU_FILES={folder}/".encode() in (path / "environ").read_bytes():
                found.add(int(path.name))
        except OSError:
            continue
    return found


def test_commands_build_verify_survey_and_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    built = run_here("files", "build", "trees", "--scale", "1/10000", "--trees", "1")
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("1000 files built: 100042 bytes")
    surveyed = run_here("files", "survey", "trees/t00000")
    assert surveyed.returncode == 0, surveyed.stderr
    (tmp_path / "like.yaml").write_text(surveyed.stdout)
    like = run_here("files", "build", "like", "--tree", "like.yaml", "--seed", "5")
    assert like.stdout.startswith("1000 files built"), like.stderr
    file = tmp_path / "trees" / "t00000" / "f000000"
    file.write_bytes(file.read_bytes()[:-1])
    damaged = run_here("files", "verify", "trees")
    assert damaged.returncode == 6
    assert f"{file}: it has" in damaged.stderr and "1 files differ" in damaged.stderr
    repaired = run_here("files", "build", "trees", "--scale", "1/10000", "--trees", "1")
    assert "999 of them found complete" in repaired.stdout
    assert run_here("files", "verify", "trees").returncode == 0
    assert run_here("files", "remove", "trees").returncode == 0
    assert not (tmp_path / "trees").exists()


def test_goal_finds_the_number_of_tools(tmp_path: Path) -> None:
    study = written(
        tmp_path,
        factors=[{"tools": {"from": 1, "to": 4}}],
        goal={"files_per_s": 0.001},
        measure={"repetitions": 2, "sample_interval": "100 ms"},
    )
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "is met at all levels of the search, even at" in ran.stdout
    (run,) = (tmp_path / "runs").iterdir()
    (goal,) = json.loads((run / "report" / "report.json").read_text())["goals"]
    assert (goal["find"], goal["answer"], goal["verdict"]) == ("lowest", 1, "at_least")
    assert "goal: 0.00100" in pages_of(run)["en"]


def test_goal_finds_the_rate_that_users_are_served_with(tmp_path: Path) -> None:
    study = written(
        tmp_path,
        load={"users": {"mix": {"stat": 1}, "rate": 50}},
        variables={"rate": {"sets": ["load.users.rate"]}},
        factors=[{"rate": {"from": 50, "to": 1_000_000, "step": "90 %"}}],
        goal={"achieved_percent": {"least": "90 %"}, "find": "highest"},
        measure={"warmup": "0 s", "time": "1 s", "repetitions": 2, "sample_interval": "100 ms"},
    )
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    (goal,) = summary["goals"]
    # One tool serves 50 operations per second anywhere, and a million nowhere.
    assert goal["find"] == "highest" and 50 <= goal["answer"] < 1_000_000
    achieved = {point["factors"]["rate"]: point["metrics"]["achieved_percent"]["mean"] for point in summary["points"]}
    assert achieved[goal["answer"]] >= 90 > achieved[max(achieved)]
