"""The run directory: written so that a reader sees only complete files, and read by analysis,
report and query.

    RunWriter      writes RUN.partial/, each file first under another name, then synced and renamed;
                   `finish` gives the directory its name
    RunReader      reads RUN/ (or RUN.partial/)
    find_run       `latest`, a name or a path → directory
    stored_runs    all runs of a folder with size, status and note; `write_note`, `removable`,
                   `remove`
    read_series, series_table, write_tcp   the TCP series that a watch wrote, as a table
    Samples, Histograms   columns being collected for one repetition's Parquet files
    query          SQL over runs, points, repetitions, samples, histograms, tcp, metrics (read only)

ARCHITECTURE.md, "A run directory", shows the format.
"""

from hakaru.store.directory import FORMAT, RunReader, RunWriter, find_run, list_runs, newest_runs, runs_folder
from hakaru.store.files import write_atomic, write_json
from hakaru.store.inventory import (
    StoredRun,
    check_note,
    removable,
    remove,
    remove_leftovers,
    stored_run,
    stored_runs,
    write_note,
)
from hakaru.store.tables import Histograms, Samples
from hakaru.store.tcp import TCP, read_series, series_table, write_tcp

__all__ = [
    "FORMAT",
    "TCP",
    "Histograms",
    "RunReader",
    "RunWriter",
    "Samples",
    "StoredRun",
    "check_note",
    "find_run",
    "list_runs",
    "newest_runs",
    "read_series",
    "removable",
    "remove",
    "remove_leftovers",
    "runs_folder",
    "series_table",
    "stored_run",
    "stored_runs",
    "write_atomic",
    "write_json",
    "write_note",
    "write_tcp",
]
