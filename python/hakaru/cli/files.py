"""The commands `hakaru files …`: trees of files outside a study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Group, Parameter, validators

from hakaru.cli.options import Json, Quiet
from hakaru.output import print_json, print_text
from hakaru.units import format_size
from hakaru.wording import number

if TYPE_CHECKING:
    from hakaru.engine import contract
    from hakaru.files.task import Done, Task

app = App(
    name="files",
    help="Build, check and delete trees of files, and survey an existing directory.",
    help_epilogue="",
    result_action="return_value",
    group_parameters=Group("Options"),
)

Directory = Annotated[Path, Parameter(name="DIRECTORY", help="Directory of the trees.")]
Workers = Annotated[int, Parameter(metavar="N", validator=validators.Number(gte=1, lte=256), help="Number of threads.")]


@app.command(help_epilogue="Example: hakaru files build /mnt/share/trees --scale 1/1000")
def build(
    directory: Directory,
    /,
    *,
    tree: Annotated[
        Path | None,
        Parameter(
            metavar="FILE",
            help="YAML file with `tree:`. Default: the published trees, 128 000 files in 128 trees, 128 GB.",
        ),
    ] = None,
    scale: Annotated[
        str | None, Parameter(metavar="1/N", help="Override the scale: every size is divided by N.")
    ] = None,
    trees: Annotated[int | None, Parameter(metavar="N", help="Override the number of trees.")] = None,
    seed: Annotated[int | None, Parameter(metavar="N", help="Override the seed.")] = None,
    workers: Workers = 4,
    quiet: Quiet = False,
    json_: Json = False,
) -> int:
    """Build trees in a missing or empty directory. The same command continues an interrupted
    build.
    """
    from hakaru.engine import contract
    from hakaru.files.tree_file import load_tree

    given = {"scale": scale, "trees": trees, "seed": seed}
    spec = load_tree(tree, {name: value for name, value in given.items() if value is not None})
    task = contract.FilesBuild(destination=_destination(directory), trees=spec.config(), workers=workers)
    return _run(task, "built", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files verify /mnt/share/trees")
def verify(directory: Directory, /, *, workers: Workers = 4, quiet: Quiet = False, json_: Json = False) -> int:
    """Read all files of built trees and compare them with their description."""
    from hakaru.engine import contract

    task = contract.FilesVerify(destination=_destination(directory), workers=workers)
    return _run(task, "verified", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files remove /mnt/share/trees")
def remove(directory: Directory, /, *, quiet: Quiet = False, json_: Json = False) -> int:
    """Delete built trees: the files and folders of their description, and nothing else."""
    from hakaru.engine import contract

    return _run(contract.FilesRemove(destination=_destination(directory)), "deleted", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files survey /srv/share > tree.yaml")
def survey(
    path: Annotated[Path, Parameter(name="PATH", help="Directory to survey.")],
    /,
    *,
    files_max: Annotated[
        int,
        Parameter(
            metavar="N", validator=validators.Number(gte=1, lte=1_000_000_000), help="End after this number of files."
        ),
    ] = 1_000_000,
    json_: Json = False,
) -> int:
    """Count the files of a directory by size and depth, without reading their contents, and print a
    description of trees like it. Symbolic links and other file systems are not entered.
    """
    from hakaru.files import survey as surveys

    counted = surveys.survey(path, files_max)
    if json_:
        print_json(counted)
        return 0
    about = [
        f"{number(counted['files'])} files in {number(counted['folders'])} folders of {path.absolute()}",
        f"mean {number(counted['mean_bytes'])} bytes; not counted: {counted['links']} symbolic links, "
        f"{counted['others']} special files, {counted['mounts']} mount points, {counted['unreadable']} unreadable",
    ]
    about += [] if counted["complete"] else [f"incomplete: the survey ended after {files_max} files (--files-max)"]
    sys.stdout.write(surveys.yaml_of(surveys.tree_of(counted), about))
    return 0


def _destination(directory: Path) -> contract.FilesDirectory:
    from hakaru.engine import contract

    return contract.FilesDirectory(path=str(directory.absolute()))


def _run(task: Task, done: str, *, quiet: bool, json_: bool) -> int:
    """Run a task and print its result. Raises the error of a task whose work failed."""
    from hakaru.files.task import run_task

    ended = run_task(task, progress=sys.stderr.isatty() and not quiet)
    for complaint in ended.complaints:
        print(complaint, file=sys.stderr)
    if json_:
        print_json({"found": ended.found, "values": ended.values, "complaints": ended.complaints})
    elif ended.error is None:
        _print(ended, done)
    if ended.error is not None:
        raise ended.error
    return 0


def _print(ended: Done, done: str) -> None:
    files, octets = int(ended.values.get("files_done", 0)), int(ended.values.get("bytes_done", 0))
    kept = int(ended.values.get("files_kept", 0))
    also = f", {kept} of them found complete" if kept else ""
    print_text(f"{files} files {done}{also}: {octets} bytes ({format_size(octets >> 10 << 10)})")
    print_text(f"description {ended.found['digest']} in {ended.found['directory']}")
