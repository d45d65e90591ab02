"""The commands `hakaru runs …`: the runs of a folder, their notes, and the removal of old ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Group, Parameter, validators

from hakaru.cli.options import Json, RunsFolder
from hakaru.output import print_json, print_text

if TYPE_CHECKING:
    from hakaru.store import StoredRun

MIB = 1 << 20

app = App(
    name="runs",
    help="List the runs of a folder, with status, form, size and note. A run that failed is never `latest`.",
    help_epilogue="Examples: hakaru runs; hakaru runs note latest 'jumbo frames'; hakaru runs prune --keep 5 --yes",
    result_action="return_value",
    group_parameters=Group("Options"),
)


@app.default
def list_(*, out: RunsFolder = None, json_: Json = False) -> int:
    """List the runs of a folder, oldest first."""
    from hakaru.store import runs_folder, stored_runs

    folder = runs_folder(out)
    runs = stored_runs(folder)
    if json_:
        print_json([run.to_json() for run in runs])
    elif runs:
        _print(runs)
    else:
        print_text(f"no run in {folder}")
    return 0


@app.command(help_epilogue="Example: hakaru runs note vm-sweep-20260101-120000-ab12 'after the firmware update'")
def note(
    run: Annotated[str, Parameter(name="RUN", help="The run's name, its path, or `latest`.")],
    text: Annotated[str, Parameter(name="TEXT", help="The note. An empty text removes it.")],
    /,
    *,
    out: RunsFolder = None,
) -> int:
    """Set the note of a run."""
    from hakaru.store import find_run, runs_folder, write_note

    # A run that failed may have a note, but `latest` never means it.
    write_note(find_run(run, runs_folder(out), measured=run == "latest"), text)
    return 0


@app.command(help_epilogue="Examples: hakaru runs prune --keep 5; hakaru runs prune --keep 5 --yes")
def prune(
    *,
    keep: Annotated[
        int,
        Parameter(
            metavar="N",
            validator=validators.Number(gte=0),
            help="Keep the newest N runs of each study that have results and did not fail.",
        ),
    ],
    noted: Annotated[bool, Parameter(help="Also remove runs that have a note.")] = False,
    yes: Annotated[bool, Parameter(help="Remove the runs. Default: only list them.")] = False,
    out: RunsFolder = None,
    json_: Json = False,
) -> int:
    """Remove old runs, failed runs, and runs without results. Runs with a note are kept, and so are
    runs that are being written.
    """
    from hakaru.store import removable, remove, remove_leftovers, runs_folder, stored_runs

    folder = runs_folder(out)
    runs = removable(stored_runs(folder), keep, noted=noted)
    if yes:
        remove_leftovers(folder)
        runs = [run for run in runs if remove(run)]
    if json_:
        print_json({"removed": yes, "runs": [run.to_json() for run in runs]})
        return 0
    if runs:
        _print(runs)
    size_mib = sum(run.size_bytes for run in runs) / MIB
    counted = f"{len(runs)} run{'' if len(runs) == 1 else 's'} with {size_mib:.1f} MiB"
    print_text(f"{counted} removed" if yes else f"{counted} would be removed; --yes removes them")
    return 0


def _print(runs: Sequence[StoredRun]) -> None:
    from hakaru.terminal import print_rows
    from hakaru.translation import shown

    columns = [shown(name) for name in ("run", "status", "form", "started", "MiB", "note")]
    rows = [
        (
            run.name,
            shown(run.status if run.results or run.status == "running" else f"{run.status}, no results"),
            shown(run.form),
            run.started.replace("T", " ")[:16],
            f"{run.size_bytes / MIB:.1f}",
            "; ".join(text for text in (run.note, shown(run.error or "")) if text),
        )
        for run in runs
    ]
    print_rows(columns, rows)
