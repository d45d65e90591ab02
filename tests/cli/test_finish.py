"""Steps after the last repetition of a run."""

from __future__ import annotations

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
    written = render_each(run, ["html"], ["en", "ja"], summarise(run))
    assert [path.name for path in written] == ["report.en.html", "report.ja.html"]


def test_error_of_a_report_reaches_the_command_line(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 2)])
    with pytest.raises(UsageError):
        render_each(run, ["odt"], ["en"], summarise(run))
