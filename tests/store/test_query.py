"""SQL over runs: the views are right, and a query cannot change data or reach other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.errors import UsageError
from hakaru.store import RunReader
from hakaru.store.query import query

from tests.fixtures.make_run import make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two runs, one of them analysed."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder)
    summarise(make_run(folder))
    return folder


def test_samples_have_columns_for_run_point_and_repetition(runs: Path) -> None:
    answer = query("SELECT run, point, repetition, count(*) FROM samples GROUP BY ALL ORDER BY ALL", runs)
    expected = []
    for directory in runs.iterdir():
        reader = RunReader(directory)
        for r in reader.repetitions():
            rows = reader.samples(r["point"], r["repetition"]).num_rows
            expected.append((directory.name, r["point"], r["repetition"], rows))
    assert answer.rows == sorted(expected)


def test_queried_metrics_equal_those_of_the_report(runs: Path) -> None:
    analysed = next(d for d in runs.iterdir() if (d / "summary.json").exists())
    summary = json.loads((analysed / "summary.json").read_text())
    answer = query("SELECT point, mean FROM metrics WHERE metric = 'iops' ORDER BY point", runs)
    assert answer.rows == sorted((p["point"], p["metrics"]["iops"]["mean"]) for p in summary["points"])


def test_factors_are_json(runs: Path) -> None:
    answer = query("SELECT DISTINCT CAST(factors->>'vms' AS INT) v FROM points ORDER BY v", runs)
    assert answer.rows == [(1,), (4,), (7,), (10,), (16,)]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY runs TO '{out}'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "ATTACH '{out}' AS other",
        "SET enable_external_access = true",
        "RESET enable_external_access",
        "INSTALL httpfs",
        "LOAD httpfs",
        "EXPORT DATABASE '{out}'",
        "SELECT * FROM rows",
        "SELECT * FROM connection",
        "selec 1",
    ],
)
def test_query_cannot_access_anything_but_runs(runs: Path, tmp_path: Path, sql: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError):
        query(sql.format(out=out), runs)
    assert not out.exists()


def test_folder_without_runs_has_empty_views(tmp_path: Path) -> None:
    assert query("SELECT count(*) FROM samples", tmp_path).rows == [(0,)]
    assert query("SELECT * FROM runs", tmp_path / "absent").rows == []
