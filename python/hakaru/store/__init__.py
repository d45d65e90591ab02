"""The run directory: written so that a reader sees only complete files, and read by analysis,
report and query.

    RunWriter      writes RUN.partial/, each file first under another name, then synced and renamed;
                   `finish` gives the directory its name
    RunReader      reads RUN/ (or RUN.partial/)
    find_run       `latest`, a name or a path → directory
    read_series, series_table, write_tcp   the TCP series that a watch wrote, as a table
    Samples, Histograms   columns being collected for one repetition's Parquet files
    query          SQL over runs, points, repetitions, samples, histograms, tcp, metrics (read only)

ARCHITECTURE.md, "A run directory", shows the format.
"""

from hakaru.store.directory import FORMAT, RunReader, RunWriter, find_run, list_runs, newest_runs, runs_folder
from hakaru.store.files import write_atomic, write_json
from hakaru.store.tables import Histograms, Samples
from hakaru.store.tcp import TCP, read_series, series_table, write_tcp

__all__ = [
    "FORMAT",
    "TCP",
    "Histograms",
    "RunReader",
    "RunWriter",
    "Samples",
    "find_run",
    "list_runs",
    "newest_runs",
    "read_series",
    "runs_folder",
    "series_table",
    "write_atomic",
    "write_json",
    "write_tcp",
]
