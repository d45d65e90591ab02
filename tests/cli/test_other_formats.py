"""Runs of another format are refused by every command that reads or continues a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru import __version__
from hakaru.store import FORMAT

from tests.analysis.small_run import Pt, Rep, write_run
from tests.cli.command import run_here

POINTS = [Pt({"vms": 1}, [Rep(), Rep()])]
TYPED = ["hakaru", "run", "vm-sweep", "--only", "vms=1,2"]


def other(folder: Path, version: str = "0.1.0", command: list[str] = TYPED) -> str:
    """Write a run of the format before this one; return its name."""
    more = {"run_format": FORMAT - 1, "run_versions": {"hakaru": version}, "run_command": command}
    return write_run(folder, POINTS, **more).name


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "{other}"],
        ["report", "{other}", "--format", "json"],
        ["report", "latest"],
        ["compare", "{same}", "{other}"],
        ["compare", "{same}", "--against", "{other}"],
        ["run", "vm-sweep", "--resume", "{other}"],
        ["run", "vm-sweep", "--resume", "latest"],
        ["tune", "--resume", "{other}"],
        ["attach", "{other}"],
        ["runs", "note", "{other}", "before"],
    ],
    ids=" ".join,
)
def test_run_of_another_format_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    names = {"other": other(tmp_path)}
    if "{same}" in arguments:
        names["same"] = write_run(tmp_path, POINTS).name
    result = run_here(*(each.format(**names) for each in arguments), HAKARU_RUNS=str(tmp_path), LC_ALL="C.UTF-8")
    message, _, hint = result.stderr.partition("\nhint: ")
    assert (result.returncode, result.stdout) == (2, "")
    expected = f"has run format {FORMAT - 1}, but this version of hakaru reads format {FORMAT}"
    assert message == f"error: {names['other']} {expected}"
    again = "`hakaru run vm-sweep --only vms=1,2`"
    assert hint == f"measure again: {again}, or read it with hakaru 0.1.0, which recorded it\n"
    assert (tmp_path / names["other"]).is_dir(), "a run that is refused keeps its name"


def test_hint_leaves_out_this_version_and_repeats_a_tuning_as_typed(tmp_path: Path) -> None:
    name = other(tmp_path, __version__, ["hakaru", "tune", "--rtt", "20 ms"])
    refused = run_here("tune", "--resume", name, HAKARU_RUNS=str(tmp_path), LC_ALL="C.UTF-8").stderr
    assert refused.endswith("\nhint: measure again: `hakaru tune --rtt '20 ms'`\n")


def test_refusal_is_translated(tmp_path: Path) -> None:
    name = other(tmp_path)
    refused = run_here("report", name, HAKARU_RUNS=str(tmp_path), LC_ALL="ja_JP.UTF-8").stderr
    assert f"{name} の実行形式は {FORMAT - 1} だが" in refused
    assert "または、記録した hakaru 0.1.0 で読む" in refused


def test_lists_skip_or_mark_runs_of_another_format(tmp_path: Path) -> None:
    name = other(tmp_path)
    same = write_run(tmp_path, POINTS, run_started="2025-01-01T00:00:00+00:00").name
    environment = {"HAKARU_RUNS": str(tmp_path), "LC_ALL": "C.UTF-8"}
    (line,) = (line for line in run_here("runs", **environment).stdout.splitlines() if name in line)
    assert "unreadable" in line
    answer = run_here("query", "select run from runs", "--csv", **environment)
    assert answer.stdout.split() == ["run", same]
    assert same in run_here("report", "latest", "--format", "json", **environment).stdout
