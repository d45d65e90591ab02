"""The commands `hakaru files …`: trees of files outside a study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Group, Parameter, validators

from hakaru.cli.options import SEED, Json, Quiet
from hakaru.output import print_json, print_text
from hakaru.units import format_size
from hakaru.wording import number

if TYPE_CHECKING:
    from hakaru.engine import contract
    from hakaru.files.task import Done, Task

app = App(
    name="files",
    help="Build, check, load and delete trees of files, here or on a share, and survey an existing directory.",
    help_epilogue="",
    result_action="return_value",
    group_parameters=Group("Options"),
)

Place = Annotated[
    str,
    Parameter(name="PLACE", help="Directory of the trees, or `smb://user@server/share/folder`: a folder of a share."),
]
PasswordFile = Annotated[
    Path | None, Parameter(metavar="FILE", help="File whose only line is the password of the user in PLACE.")
]
TreeFile = Annotated[
    Path | None,
    Parameter(
        metavar="FILE", help="YAML file with `tree:`. Default: the published trees, 128 000 files in 128 trees, 128 GB."
    ),
]
Scale = Annotated[str | None, Parameter(metavar="1/N", help="Override the scale: every size is divided by N.")]
Trees = Annotated[int | None, Parameter(metavar="N", help="Override the number of trees.")]
Seed = Annotated[int | None, Parameter(metavar="N", validator=SEED, help="Override the seed.")]
Workers = Annotated[int, Parameter(metavar="N", validator=validators.Number(gte=1, lte=256), help="Number of threads.")]


@app.command(help_epilogue="Example: hakaru files build /mnt/share/trees --scale 1/1000")
def build(
    place: Place,
    /,
    *,
    tree: TreeFile = None,
    scale: Scale = None,
    trees: Trees = None,
    seed: Seed = None,
    password_file: PasswordFile = None,
    workers: Workers = 4,
    quiet: Quiet = False,
    json_: Json = False,
) -> int:
    """Build trees in a missing or empty directory or folder. The same command continues an
    interrupted build.
    """
    from hakaru.engine import contract
    from hakaru.files.place import destination

    described = _trees(tree, scale, trees, seed)
    task = contract.FilesBuild(destination=destination(place, password_file), trees=described, workers=workers)
    return _run(task, "built", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files load smb://anna@nas/data/trees --password-file key --scale 1/1000")
def load(
    place: Place,
    /,
    *,
    tree: TreeFile = None,
    scale: Scale = None,
    trees: Trees = None,
    seed: Seed = None,
    password_file: PasswordFile = None,
    tools: Annotated[
        int, Parameter(metavar="N", validator=validators.Number(gte=1, lte=1024), help="Tools that work at once.")
    ] = 4,
    read: Annotated[
        int, Parameter(metavar="PERCENT", validator=validators.Number(gte=0, lte=100), help="Share of reads.")
    ] = 80,
    seconds: Annotated[
        float | None,
        Parameter(
            metavar="S",
            validator=validators.Number(gte=0.05, lte=86_400),
            help="Longest duration. Default: until every file was used.",
        ),
    ] = None,
    verify: Annotated[bool, Parameter(negative=(), help="Compare what is read with the description.")] = False,
    quiet: Quiet = False,
    json_: Json = False,
) -> int:
    """Copy the files of trees, which are built first as far as they are missing, and print rates
    and times. The trees stay. A study measures with repetitions and evidence.
    """
    from hakaru.engine import contract
    from hakaru.files.place import destination

    task = contract.FilesLoad(
        destination=destination(place, password_file),
        trees=_trees(tree, scale, trees, seed),
        build=True,
        tools=tools,
        read_percent=read,
        verify=verify,
        seed=1 if seed is None else seed,
        measure_s=seconds,
    )
    return _run(task, "used", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files verify /mnt/share/trees")
def verify(
    place: Place,
    /,
    *,
    workers: Workers = 4,
    password_file: PasswordFile = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> int:
    """Read all files of built trees and compare them with their description."""
    from hakaru.engine import contract
    from hakaru.files.place import destination

    task = contract.FilesVerify(destination=destination(place, password_file), workers=workers)
    return _run(task, "verified", quiet=quiet, json_=json_)


@app.command(help_epilogue="Example: hakaru files remove /mnt/share/trees")
def remove(place: Place, /, *, password_file: PasswordFile = None, quiet: Quiet = False, json_: Json = False) -> int:
    """Delete built trees: the files and folders of their description, and nothing else."""
    from hakaru.engine import contract
    from hakaru.files.place import destination

    task = contract.FilesRemove(destination=destination(place, password_file))
    return _run(task, "deleted", quiet=quiet, json_=json_)


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
    if not counted["complete"]:
        about.append(f"incomplete: the survey ended after {files_max} files (--files-max)")
        about.append("it lacks the folders that it did not reach")
    about += surveys.shortened(counted)
    sys.stdout.write(surveys.yaml_of(surveys.tree_of(counted), about))
    return 0


def _trees(tree: Path | None, scale: str | None, trees: int | None, seed: int | None) -> contract.TreesConfig:
    """The description of a file, with what the options override."""
    from hakaru.files.tree_file import load_tree

    given = {"scale": scale, "trees": trees, "seed": seed}
    return load_tree(tree, {name: value for name, value in given.items() if value is not None}).config()


def _run(task: Task, done: str, *, quiet: bool, json_: bool) -> int:
    """Run a task and print its result. Raises the error of a task whose work failed."""
    from hakaru.files.task import run_task

    ended = run_task(task, progress=sys.stderr.isatty() and not quiet)
    for complaint in ended.complaints:
        print(complaint, file=sys.stderr)
    if json_:
        print_json({"found": ended.found, "values": ended.values, "complaints": ended.complaints, **_times(ended)})
    elif ended.error is None and "load_ns" in ended.values:
        _print_load(ended)
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


def _times(ended: Done) -> dict[str, dict[str, list[float]]]:
    """Median and 99th percentile of each operation of a load, ms; empty for other tasks."""
    from hakaru.analysis.latency import merge, percentiles_ms

    times = {
        each.name.removesuffix("_latency_ns"): list(percentiles_ms(merge([each.hdr]), (50.0, 99.0)))
        for each in ended.histograms
    }
    return {"times_ms": times} if times else {}


def _print_load(ended: Done) -> None:
    values, seconds = ended.values, ended.values["load_ns"] / 1e9
    files, octets = values["files_read"] + values["files_written"], values["read_bytes"] + values["written_bytes"]
    if not seconds:
        print_text("no file was used")
        return
    print_text(f"{number(files)} files used in {number(seconds)} s: {number(files / seconds)} files/s")
    print_text(
        f"{number(octets / 1e6)} MB copied: {number(octets / seconds / 1e6)} MB/s; failed: {number(values['errors'])}"
    )
    for name, (median, tail) in _times(ended).get("times_ms", {}).items():
        print_text(f"{name}: median {number(median)} ms, 99th percentile {number(tail)} ms")
    print_text(f"description {ended.found['digest']} in {ended.found['directory']}")
