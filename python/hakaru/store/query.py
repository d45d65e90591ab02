"""SQL over runs: `hakaru query SQL`. Reads run directories only, and changes nothing.

| view | columns |
|---|---|
| `runs` | run, study, status, origin, quick, seed, started, ended |
| `points` | run, point, factors (JSON) |
| `repetitions` | run, point, repetition, turn, status, origin, start_ns, end_ns, error |
| `samples` | run, point, repetition, node, engine, entity, name, at_ns, value |
| `histograms` | run, point, repetition, node, engine, entity, name, at_ns, hdr |
| `tcp` | run, point, repetition, and the columns of a TCP series (`docs/reference/watch.md`) |
| `metrics` | run, point, factors (JSON), origin, metric, mean, low, high, n, unit; `summary.json` |

The views are Arrow data in an in-memory DuckDB whose external access is off and whose settings are
locked, so that a query cannot read or write any file, load an extension or connect to a host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hakaru.errors import UsageError
from hakaru.extras import extra
from hakaru.store.directory import PARTIAL, RunReader, list_runs
from hakaru.store.tables import HISTOGRAMS, SAMPLES
from hakaru.store.tcp import TCP

VIEWS: dict[str, dict[str, pa.DataType]] = {
    "runs": {
        "run": pa.string(),
        "study": pa.string(),
        "status": pa.string(),
        "origin": pa.string(),
        "quick": pa.bool_(),
        "seed": pa.int64(),
        "started": pa.string(),
        "ended": pa.string(),
    },
    "points": {"run": pa.string(), "point": pa.string(), "factors": pa.string()},
    "repetitions": {
        "run": pa.string(),
        "point": pa.string(),
        "repetition": pa.int32(),
        "turn": pa.int32(),
        "status": pa.string(),
        "origin": pa.string(),
        "start_ns": pa.int64(),
        "end_ns": pa.int64(),
        "error": pa.string(),
    },
    "metrics": {
        "run": pa.string(),
        "point": pa.string(),
        "factors": pa.string(),
        "origin": pa.string(),
        "metric": pa.string(),
        "mean": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "n": pa.int64(),
        "unit": pa.string(),
    },
}
KEYS = [("run", pa.string()), ("point", pa.string()), ("repetition", pa.int32())]


@dataclass(frozen=True)
class Answer:
    """Columns and rows of a query's result."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def query(sql: str, folder: Path) -> Answer:
    """Return the result of `sql` over the runs in `folder`. Raises `UsageError` for SQL that DuckDB
    refuses, and `EnvironmentError_` without the extra `sql`.
    """
    runs = list_runs(folder)
    rows: dict[str, list[dict[str, Any]]] = {view: [] for view in VIEWS}
    for directory in runs:
        _collect(directory, rows)
    with extra("sql"):
        import duckdb
    connection = duckdb.connect(":memory:")
    try:
        for view, columns in VIEWS.items():
            connection.register(view, pa.Table.from_pylist(rows[view], schema=pa.schema(list(columns.items()))))
        connection.register("samples", _dataset(runs, "samples", SAMPLES))
        connection.register("histograms", _dataset(runs, "histograms", HISTOGRAMS))
        connection.register("tcp", _dataset(runs, "tcp", TCP))
        # Otherwise a query could name variables of this process as tables.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return Answer(names, cursor.fetchall() if names else [])
    except (duckdb.Error, pa.ArrowException, OSError) as e:
        message = str(e).strip()
        raise UsageError(
            f"the query failed: {message}", f"views are {', '.join((*VIEWS, 'samples', 'histograms', 'tcp'))}"
        ) from e
    finally:
        connection.close()


def _collect(directory: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Add the rows of one run to every view that is made from JSON. Keys without a column are left
    out.
    """
    reader = RunReader(directory)
    run = reader.read("run.json")
    name = str(run.get("run", directory.name))
    rows["runs"].append({key: run.get(key) for key in VIEWS["runs"]})
    # A run that was killed in its first second has run.json alone.
    if (directory / "points.json").is_file():
        for point in reader.read("points.json"):
            rows["points"].append({"run": name, "point": point["point"], "factors": json.dumps(point["factors"])})
    for repetition in reader.repetitions():
        measure = repetition.get("measure") or {}
        row = {key: repetition.get(key) for key in VIEWS["repetitions"]}
        rows["repetitions"].append(row | {"run": name, "turn": repetition["order"]} | measure)
    if (directory / "summary.json").is_file():
        for point in reader.read("summary.json")["points"]:
            at = {"run": name, "point": point.get("point"), "origin": point["origin"]}
            at["factors"] = json.dumps(point["factors"])
            for metric, estimate in point["metrics"].items():
                rows["metrics"].append(
                    at | {"metric": metric} | {k: estimate.get(k) for k in ("mean", "low", "high", "n", "unit")}
                )


def _dataset(runs: Iterable[Path], kind: str, columns: pa.Schema) -> ds.Dataset:
    """All Parquet files of a kind as one dataset; run, point and repetition come from the path."""
    file_format = ds.ParquetFileFormat()
    schema = pa.schema([*KEYS, *columns])
    fragments = []
    for directory in runs:
        for finished in sorted((directory / "repetitions").glob("*.json")):
            point, _, repetition = finished.stem.rpartition("-")
            path = directory / kind / f"{finished.stem}.parquet"
            if kind == "tcp" and not path.exists():
                continue  # The study records no TCP series.
            keys = (ds.field("run") == directory.name.removesuffix(PARTIAL)) & (ds.field("point") == point)
            keys &= ds.field("repetition") == pa.scalar(int(repetition), pa.int32())
            fragments.append(
                file_format.make_fragment(str(path.resolve()), pa.fs.LocalFileSystem(), partition_expression=keys)
            )
    return ds.FileSystemDataset(fragments, schema, file_format, pa.fs.LocalFileSystem())
