"""`hakaru array …`: each command parses, asks one part of `hakaru.array`, and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

app = App(name="array", help="Serve one array on its own, and look after it.", result_action="return_value")

ARRAY_FILE = Path("array.yaml")

Array = Annotated[
    Path, Parameter(name="ARRAY", help="The array file, or the state directory of an array that is served.")
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="JSON on stdout.")]


@app.command
def serve(
    file: Annotated[Path, Parameter(name="FILE", help="The array file.")] = ARRAY_FILE,
    /,
    *,
    metrics: Annotated[
        str | None, Parameter(help="address:port of /metrics for Prometheus, instead of the file's.")
    ] = None,
    json_: Annotated[bool, Parameter(name="--json", negative=(), help="Events as JSON lines on stdout.")] = False,
) -> int:
    """Serve the array until Ctrl-C or SIGTERM. Prints a line that begins with READY once initiators can log in."""
    from hakaru.array.load import load_array
    from hakaru.array.serve import serve as keep

    return keep(load_array(file), metrics, json_lines=json_)


@app.command
def status(array: Array = ARRAY_FILE, /, *, json_: Json = False) -> int:
    """Show sessions, LUs, pools and how busy each part is."""
    from hakaru.array import protocol
    from hakaru.array.client import ask
    from hakaru.array.render import print_status

    show(ask(state_directory(array), protocol.Status(command="status")), json_, print_status)
    return 0


def state_directory(array: Path) -> Path:
    """Of an array file, or the directory itself."""
    if array.is_dir():
        return array
    from hakaru.array.load import load_array

    return load_array(array).state


def show(value: Any, as_json: bool, print_: Any) -> None:
    """For programs or for people."""
    if as_json:
        from hakaru.cli import print_json

        print_json(value)
    else:
        print_(value)
