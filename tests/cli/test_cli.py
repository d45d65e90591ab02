"""The command line as a user sees it: a process with stdout, stderr and exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hakaru.analysis import summarise

from tests.cli.command import run_here
from tests.fixtures.make_run import make_run

ROOT = Path(__file__).parents[2]


def hakaru(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hakaru.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        timeout=120,
        check=False,
    )


def error_of(result: subprocess.CompletedProcess[str], code: int) -> tuple[str, str]:
    """Check that a command failed without output; return message and hint of the error."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    message, _, hint = result.stderr.partition("\nhint: ")
    assert message.startswith("error: ")
    return message.removeprefix("error: "), hint.strip()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    summarise(make_run(folder))
    return folder


@pytest.mark.parametrize("command", ["doctor", "studies", "plan", "run", "report", "query", "schema", "array"])
def test_every_command_has_help(command: str) -> None:
    result = run_here(command, "--help")
    assert result.returncode == 0
    assert command in result.stdout


def test_process_prints_help_and_errors_like_the_command(runs: Path) -> None:
    for arguments in (["--help"], ["run", "--help"], ["frob"], ["plan", "nope"]):
        here, there = (ran(*arguments, HAKARU_RUNS=str(runs)) for ran in (run_here, hakaru))
        assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["frob"], "frob"),
        (["run"], "STUDY"),
        (["plan", "vm-sweep", "--frob"], "--frob"),
        (["plan", "vm-sweep", "--seed", "x"], "seed"),
        (["plan", "vm-sweep", "--seed", "-1"], '"-1" for --seed'),
        (["tune", "--resume", "latest", "--rtt", "20 ms"], "has the path, the load, the search and the target"),
        (["files", "build", "/nonexistent/trees", "--scale", "0.001"], "--scale"),
        (["files", "build", "/nonexistent/trees", "--trees", "0"], "--trees"),
        (["files", "build", "/nonexistent/trees", "--trees", "65536"], "65536000 files"),
        (["plan", "nope"], "no study named 'nope'"),
        (["plan", "./nope.yaml"], "nope.yaml"),
        (["plan", "vm-sweep", "--repetitions", "0"], '"0" for --repetitions'),
        (["plan", "vm-sweep", "--only", "vms"], "--only vms"),
        (["plan", "vm-sweep", "--only", "vms=5"], "--only vms=5"),
        (["plan", "vm-sweep", "--only", "colour=red"], "--only colour"),
        (["report", "nope"], "no run named 'nope'"),
        (["report", "latest", "--format", "docx"], "docx"),
        (["query", "selec 1"], "selec"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(runs: Path, arguments: list[str], expected: str) -> None:
    message, hint = error_of(run_here(*arguments, HAKARU_RUNS=str(runs)), 2)
    assert expected in message
    assert hint


def test_bad_study_file_names_line_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "studies" / "vm-sweep" / "study.yaml").read_text().replace("  hosts: 4", "  host: 4")
    (tmp_path / "study.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    message, hint = error_of(run_here("plan", "./study.yaml"), 2)
    line = text[: text.index("  host: 4")].count("\n") + 1
    assert message == f"study.yaml:{line}:3: lab.host: unknown field"
    assert hint == "did you mean 'hosts'?"


def test_plan_lists_points_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_here("plan", ROOT / "studies" / "vm-sweep", "--quick", "--json")
    plan = json.loads(result.stdout)
    assert sorted(plan["order"]) == sorted(f"{p['point']}-{r}" for p in plan["points"] for r in (1, 2))
    assert plan["estimate"]["seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_plan_refuses_an_unknown_preset_with_its_place(tmp_path: Path) -> None:
    shipped = ROOT / "studies" / "vm-sweep"
    shutil.copytree(shipped, tmp_path / "vm-sweep")
    file = tmp_path / "vm-sweep" / "study.yaml"
    file.write_text(file.read_text().replace("name: jdsf-2011}", "name: jdsf2011}"))
    message, hint = error_of(run_here("plan", file), 2)
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "jdsf2011" in text)
    assert message.startswith(f"{file}:{line}:")
    assert "there is no preset 'jdsf2011'; did you mean 'jdsf-2011'?" in f"{message} {hint}"


def test_seed_decides_the_order() -> None:
    orders = [json.loads(run_here("plan", "vm-sweep", "--json", "--seed", s).stdout)["order"] for s in ("1", "1", "2")]
    assert orders[0] == orders[1] != orders[2]


def test_studies_lists_vm_sweep_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = json.loads(run_here("studies", "--json").stdout)
    assert "vm-sweep" in [s["id"] for s in listed]


def test_printed_schema_equals_the_checked_in_schema() -> None:
    assert run_here("schema").stdout == (ROOT / "schema" / "study.schema.json").read_text()


def test_report_as_json_is_the_summary(runs: Path) -> None:
    result = run_here("report", "latest", "--format", "json", HAKARU_RUNS=str(runs))
    (directory,) = runs.iterdir()
    assert json.loads(result.stdout) == json.loads((directory / "summary.json").read_text())


def test_report_writes_self_contained_html_to_the_given_folder(runs: Path, tmp_path: Path) -> None:
    arguments = ["report", "latest", "--format", "html", "--lang", "en", "--out", str(tmp_path)]
    result = hakaru(*arguments, HAKARU_RUNS=str(runs))
    assert result.returncode == 0, result.stderr
    (path,) = map(Path, result.stdout.splitlines())
    assert path.parent == tmp_path
    assert "vm-sweep" in path.read_text()


def test_query_prints_json_lines_and_csv(runs: Path) -> None:
    sql = "SELECT point, metric, n FROM metrics WHERE metric = 'iops' ORDER BY point"
    printed = {form: run_here("query", sql, form, HAKARU_RUNS=str(runs)).stdout for form in ("--json", "--csv")}
    as_json = [json.loads(line) for line in printed["--json"].splitlines()]
    as_csv = list(csv.DictReader(io.StringIO(printed["--csv"])))
    assert [r["point"] for r in as_json] == [r["point"] for r in as_csv] == [f"p{i:02}" for i in range(1, 7)]


def test_reader_that_closes_the_pipe_early_causes_no_error(runs: Path) -> None:
    command = [sys.executable, "-m", "hakaru.cli", "query", "SELECT * FROM samples", "--csv"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "HAKARU_RUNS": str(runs)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
