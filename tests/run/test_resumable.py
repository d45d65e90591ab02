"""Runs that may be continued, and those that may not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hakaru import __version__
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.run.machine import describe_machine
from hakaru.run.resumable import MACHINE, check_resumable
from hakaru.store import FORMAT, RunWriter

VERSIONS = {"hakaru": __version__, "contract": contract.CONTRACT_VERSION}


def interrupted(folder: Path, **changes: Any) -> tuple[Path, dict[str, Any]]:
    """A run on a machine that differs from this one by `changes`, and its run.json."""
    writer = RunWriter.create(folder, "vm-sweep", dt.datetime(2026, 11, 26, tzinfo=dt.UTC))
    run = {"format": FORMAT, "status": "interrupted", "versions": VERSIONS}
    writer.write("run.json", run)
    writer.write(MACHINE, describe_machine() | changes)
    writer.close()
    return writer.directory, run


def test_run_of_this_machine_is_continued_whatever_its_load(tmp_path: Path) -> None:
    check_resumable(*interrupted(tmp_path, load_average=99.0, memory_available_bytes=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"cpus": 4096}, "number of processors 4096 there"), ({"kernel": "2.6.32"}, "kernel 2.6.32 there")],
)
def test_run_of_another_machine_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match="another machine") as refused:
        check_resumable(*interrupted(tmp_path, **changes))
    assert message in refused.value.message and "start a new one" in refused.value.hint


def test_run_that_was_killed_before_it_described_its_machine_is_continued(tmp_path: Path) -> None:
    directory, run = interrupted(tmp_path, cpus=4096)
    (directory / MACHINE).unlink()
    check_resumable(directory, run)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"status": "done"}, "is finished"),
        ({"versions": VERSIONS | {"hakaru": "0.0.1"}}, "was started by hakaru 0.0.1"),
    ],
)
def test_finished_run_and_other_versions_are_refused(tmp_path: Path, run: dict[str, Any], message: str) -> None:
    directory, written = interrupted(tmp_path)
    with pytest.raises(UsageError, match=message):
        check_resumable(directory, written | run)
