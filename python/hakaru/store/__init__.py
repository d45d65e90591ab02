"""The run directory: written so that a reader sees whole files only, read back by analysis, report and query.

    RunWriter      writes RUN.partial/, each file aside, synced and renamed; `finish` gives it its name
    RunReader      reads RUN/ (or RUN.partial/)
    find_run       `latest`, a name or a path → directory
    Samples, Histograms   columns being collected for one repetition's Parquet files
    query          SQL over runs, points, repetitions, samples, histograms, metrics (read only)

The format is drawn in ARCHITECTURE.md, "A run directory".
"""

from hakaru.store.directory import FORMAT, RunReader, RunWriter, find_run, list_runs, runs_folder
from hakaru.store.files import write_atomic, write_json
from hakaru.store.tables import Histograms, Samples

__all__ = [
    "FORMAT",
    "Histograms",
    "RunReader",
    "RunWriter",
    "Samples",
    "find_run",
    "list_runs",
    "runs_folder",
    "write_atomic",
    "write_json",
]
