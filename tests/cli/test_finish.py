"""Steps after the last repetition of a run."""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.synchronize
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.cli.finish import render_each
from hakaru.errors import UsageError

from tests.analysis.small_run import Pt, Rep, write_run


def test_reports_are_drawn_without_semaphores_that_a_kill_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a named semaphore stays in /dev/shm when its processes are killed")

    monkeypatch.setattr(multiprocessing.synchronize.SemLock, "__init__", refuse)
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 2)])
    written = render_each(run, ["html", "json"], ["en", "ja"], summarise(run))
    assert [path.name for path in written] == ["report.json", "report.en.html", "report.ja.html"]


def test_json_is_written_without_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("a process takes longer to import everything than to write the file")

    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 2)])
    summary = summarise(run)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse)
    (path,) = render_each(run, ["json"], ["en", "ja"], summary)
    assert path.read_bytes() == (run / "summary.json").read_bytes()


def test_error_of_a_report_reaches_the_command_line(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 2)])
    with pytest.raises(UsageError):
        render_each(run, ["odt"], ["en"], summarise(run))
