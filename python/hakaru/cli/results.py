"""Commands for ended runs: `report`, `query`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hakaru.cli.finish import note_missing_pdf
from hakaru.cli.options import FormatsOrDefault, Languages, RunsFolder
from hakaru.output import print_json

if TYPE_CHECKING:
    from hakaru.study import Loaded

REPORT_EXAMPLES = "Examples: hakaru report latest; hakaru report latest --format html --lang ja --out /tmp"
QUERY_EXAMPLES = "Example: hakaru query \"SELECT point, metric, mean FROM metrics WHERE metric = 'iops'\""


def report(
    run: Annotated[str, Parameter(name="RUN", help="The run's name, its path, or `latest`.")],
    /,
    *,
    format_: FormatsOrDefault = None,
    lang: Languages = ("en", "ja"),
    out: Annotated[Path | None, Parameter(metavar="FOLDER", help="Folder for the files. Default: RUN/report.")] = None,
    published: Annotated[
        str | None,
        Parameter(
            metavar="STUDY",
            help="Compare with the published numbers of this study as it is now. Default: those recorded in the run.",
        ),
    ] = None,
) -> int:
    """Write the report of a run again, and print the paths of its files. `--format json` without
    `--out` prints the report itself.
    """
    from hakaru.analysis import summarise
    from hakaru.store import find_run, runs_folder

    directory = find_run(run, runs_folder(), measured=True)
    summary = summarise(directory, _load(published))
    if format_ == ("json",) and out is None:
        print_json(summary)
        return 0
    from hakaru.report import default_formats, render

    formats = default_formats() if format_ is None else format_
    paths = render(directory, formats, list(lang), out, summary=summary)
    for path in paths:
        print(path)
    if format_ is None:
        note_missing_pdf(paths)
    return 0


def _load(name: str | None) -> Loaded | None:
    from hakaru.study import load

    return load(name) if name else None


def query(
    sql: Annotated[str, Parameter(name="SQL", help="One SELECT statement.")],
    /,
    *,
    out: RunsFolder = None,
    json_: Annotated[bool, Parameter(name="--json", help="Print rows as JSON lines.")] = False,
    csv_: Annotated[bool, Parameter(name="--csv", help="Print rows as CSV.")] = False,
) -> int:
    """Query runs with SQL (DuckDB). Views: runs, points, repetitions, metrics, samples, histograms,
    tcp.
    """
    from hakaru.store import runs_folder
    from hakaru.store.query import query as ask

    answer = ask(sql, runs_folder(out))
    if json_:
        for row in answer.rows:
            print(json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False, default=str))
    elif csv_:
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        from hakaru.terminal import print_rows

        print_rows(answer.columns, answer.rows)
    return 0
