"""The list of runs, notes and the removal of old runs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.cli import main
from hakaru.errors import UsageError
from hakaru.store import (
    FORMAT,
    Histograms,
    RunWriter,
    Samples,
    find_run,
    list_runs,
    newest_runs,
    removable,
    remove,
    remove_leftovers,
    stored_runs,
    write_note,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def write(folder: Path, started: str, *, status: str = "done", results: bool = True, **more: Any) -> RunWriter:
    """Begin a run; call `finish` to give it its name."""
    writer = RunWriter.create(folder, str(more.get("study", "small")), NOW)
    run = {"format": FORMAT, "run": writer.name, "study": "small", "kind": "vms", "status": status, "quick": False}
    writer.write("run.json", run | {"started": started, "origin": "emulated"} | more)
    if results:
        repetition = {"point": "p01", "repetition": 1, "order": 1}
        writer.write_repetition(repetition, Samples(), Histograms())
    return writer


def finished(folder: Path, started: str, **more: Any) -> str:
    return write(folder, started, **more).finish().name


def test_runs_are_listed_with_status_size_and_note(tmp_path: Path) -> None:
    old = finished(tmp_path, "2026-01-01", quick=True)
    failed = finished(tmp_path, "2026-01-02", status="failed", results=False, error="no array at h1")
    other = finished(tmp_path, "2026-01-03", format=FORMAT - 1)
    killed = write(tmp_path, "2026-01-04", status="running")
    killed.close()
    running = write(tmp_path, "2026-01-05", status="running")
    write_note(tmp_path / old, "  with\njumbo frames ")
    runs = stored_runs(tmp_path)
    running.close()
    assert [run.name for run in runs] == [old, failed, other, killed.name, running.name]
    assert [run.status for run in runs] == ["done", "failed", "unreadable", "killed", "running"]
    assert [run.is_usable for run in runs] == [True, False, False, True, True]
    assert (runs[0].form, runs[0].note, runs[1].error) == ("quick", "with jumbo frames", "no array at h1")
    size = sum(path.stat().st_size for path in (tmp_path / old).rglob("*") if path.is_file())
    assert runs[0].size_bytes == size > 0


def test_failed_runs_and_runs_without_results_are_never_latest(tmp_path: Path) -> None:
    good = finished(tmp_path, "2026-01-01")
    finished(tmp_path, "2026-01-02", status="failed")
    finished(tmp_path, "2026-01-03", status="interrupted", results=False)
    assert find_run("latest", tmp_path, measured=True).name == good
    assert newest_runs(tmp_path)["small"].name == good


def test_prune_keeps_the_newest_usable_runs_of_each_study(tmp_path: Path) -> None:
    names = {day: finished(tmp_path, f"2026-01-0{day}") for day in (1, 2, 3)}
    failed = finished(tmp_path, "2026-01-04", status="failed")
    empty = finished(tmp_path, "2026-01-05", status="interrupted", results=False)
    finished(tmp_path, "2026-01-01", study="other")
    running = write(tmp_path, "2025-12-01", status="running", results=False)
    runs = stored_runs(tmp_path)
    running.close()
    assert [run.name for run in removable(runs, 2)] == [names[1], failed, empty]
    assert [run.name for run in removable(runs, 3)] == [failed, empty]


def test_runs_with_a_note_are_kept(tmp_path: Path) -> None:
    old = finished(tmp_path, "2026-01-01")
    finished(tmp_path, "2026-01-02")
    write_note(tmp_path / old, "baseline")
    assert removable(stored_runs(tmp_path), 1) == []
    assert [run.name for run in removable(stored_runs(tmp_path), 1, noted=True)] == [old]
    write_note(tmp_path / old, "")
    assert [run.name for run in removable(stored_runs(tmp_path), 1)] == [old]


def test_a_run_that_is_written_meanwhile_is_not_removed(tmp_path: Path) -> None:
    name = finished(tmp_path, "2026-01-01", status="interrupted")
    (run,) = stored_runs(tmp_path)
    lock = RunWriter(tmp_path / name)
    assert not remove(run)
    lock.close()
    assert remove(run)
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_was_killed_leaves_no_run(tmp_path: Path) -> None:
    name = finished(tmp_path, "2026-01-01")
    (tmp_path / name).rename(tmp_path / f".{name}.deleted")
    assert list_runs(tmp_path) == [] and stored_runs(tmp_path) == []
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_note_may_be_set_while_the_run_is_written(tmp_path: Path) -> None:
    writer = write(tmp_path, "2026-01-01", status="running")
    write_note(find_run(writer.name, tmp_path), "busy")
    writer.write("run.json", json.loads((writer.directory / "run.json").read_text()) | {"status": "done"})
    writer.finish()
    assert [run.note for run in stored_runs(tmp_path)] == ["busy"]


def test_a_long_note_is_refused(tmp_path: Path) -> None:
    name = finished(tmp_path, "2026-01-01")
    with pytest.raises(UsageError, match="1001 characters; at most 1000"):
        write_note(tmp_path / name, "x" * 1001)
    assert not (tmp_path / name / "note.txt").exists()


def test_prune_leaves_other_formats_and_notes_that_cannot_be_read(tmp_path: Path) -> None:
    finished(tmp_path, "2026-01-01", format=FORMAT + 1)
    foreign = tmp_path / "1"
    foreign.mkdir()
    (foreign / "run.json").write_text('{"format": "MongoObserver-0.7.0", "status": "FAILED"}')
    noted = finished(tmp_path, "2026-01-02", status="failed")
    (tmp_path / noted / "note.txt").write_bytes("Prüfung".encode("latin-1"))
    assert removable(stored_runs(tmp_path), 1) == []


def test_prune_lists_first_and_removes_with_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = finished(tmp_path, "2026-01-01"), finished(tmp_path, "2026-01-02")
    prune = ["runs", "prune", "--keep", "1", "--out", str(tmp_path)]
    assert main(prune) == 0
    shown = capsys.readouterr().out
    assert old in shown and new not in shown and "would be removed; --yes removes them" in shown
    assert {path.name for path in tmp_path.iterdir()} == {old, new}
    assert main([*prune, "--yes"]) == 0
    assert "1 run with 0.0 MiB removed" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == [new]


def test_runs_command_shows_failures_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished(tmp_path, "2026-01-02T10:00:00+00:00", status="failed", results=False, error="no array")
    good = finished(tmp_path, "2026-01-01T10:00:00+00:00")
    assert main(["runs", "note", "latest", "first", "--out", str(tmp_path)]) == 0
    assert main(["runs", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "failed, no results" in shown and "no array" in shown
    assert main(["runs", "--json", "--out", str(tmp_path)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(run["status"], run["note"]) for run in listed] == [("done", "first"), ("failed", "")]
    assert listed[0]["name"] == good
