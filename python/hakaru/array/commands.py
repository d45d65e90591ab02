"""`hakaru array …`: each command parses, asks one part of `hakaru.array`, and prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from hakaru.errors import UsageError

app = App(
    name="array",
    help="Serve one array on its own, and look after it. ARRAY is its file, or the state directory it is served from.",
    result_action="return_value",
)

DEFAULT_FILE = Path("array.yaml")

Array = Annotated[Path, Parameter(name="ARRAY", help="The array file, or its state directory.")]
InPool = Annotated[str, Parameter(help="POOL/NAME.")]
Volume = Annotated[str, Parameter(help="POOL/NAME, or the LUN that shows it.")]
Size = Annotated[str, Parameter(help="With a unit: '64 GiB'.")]
Quota = Annotated[str | None, Parameter(help="Most space that it may take, with a unit.")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="JSON on stdout.")]


@app.command
def serve(
    file: Annotated[Path, Parameter(name="FILE", help="The array file.")] = DEFAULT_FILE,
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

    return keep(load_array(file, metrics), json_lines=json_)


@app.command
def status(array: Array = DEFAULT_FILE, /, *, json_: Json = False) -> int:
    """Show sessions, LUs, pools, volumes, and how busy each part is."""
    from hakaru.array import protocol
    from hakaru.array.render import print_status

    return ask(array, protocol.Status(), json_, print_status)


@app.command
def grow(
    array: Array,
    pool: Annotated[str, Parameter(help="Name of the pool.")],
    group: Annotated[str, Parameter(help="Name of the new RAID group.")],
    size: Size,
    /,
    *,
    drives: Annotated[
        int | None, Parameter(help="Modelled RAID group that it lies on, if the model has drives.")
    ] = None,
    offset: Annotated[str, Parameter(help="Where on that, with a unit.")] = "0 B",
    json_: Json = False,
) -> int:
    """Add a RAID group to a pool."""
    from hakaru.array import protocol

    offset_bytes, size_bytes = size_in_bytes("--offset", offset), size_in_bytes("SIZE", size)
    request = checked(
        protocol.Grow, pool=pool, group=group, size_bytes=size_bytes, drives=drives, offset_bytes=offset_bytes
    )
    return ask(array, request, json_, lambda _: print(f"pool {pool} has group {group} of {size}"))


@app.command
def create(
    array: Array,
    volume: InPool,
    size: Size,
    /,
    *,
    lun: Annotated[int | None, Parameter(help="0 to 255. Default: the lowest that is free.")] = None,
    block: Annotated[Literal[512, 4096], Parameter(help="Logical block length in bytes.")] = 512,
    quota: Quota = None,
    json_: Json = False,
) -> int:
    """Make a thin LU."""
    from hakaru.array import protocol

    request = checked(
        protocol.Create,
        volume=volume,
        size_bytes=size_in_bytes("SIZE", size),
        block_bytes=block,
        quota_bytes=None if quota is None else size_in_bytes("--quota", quota),
        lun=lun,
    )
    return ask(array, request, json_, print_made)


@app.command
def snapshot(
    array: Array,
    of: Volume,
    name: Annotated[str, Parameter(help="Name of the copy, in the same pool.")],
    /,
    *,
    lun: Annotated[int | None, Parameter(help="Show it as this LU, read-only. Default: not shown.")] = None,
    json_: Json = False,
) -> int:
    """Copy a volume as it is now; the copy takes no writes, and no space until one of the two changes."""
    from hakaru.array import protocol

    return ask(array, checked(protocol.Snapshot, of=of, name=name, lun=lun), json_, print_made)


@app.command
def clone(
    array: Array,
    of: Volume,
    name: Annotated[str, Parameter(help="Name of the copy, in the same pool.")],
    /,
    *,
    lun: Annotated[int | None, Parameter(help="0 to 255. Default: the lowest that is free.")] = None,
    quota: Quota = None,
    json_: Json = False,
) -> int:
    """Copy a volume or snapshot as it is now, as an LU of its own that takes writes."""
    from hakaru.array import protocol

    quota_bytes = None if quota is None else size_in_bytes("--quota", quota)
    return ask(array, checked(protocol.Clone, of=of, name=name, lun=lun, quota_bytes=quota_bytes), json_, print_made)


@app.command
def resize(array: Array, volume: Volume, size: Size, /, *, json_: Json = False) -> int:
    """Make a thin LU larger. Initiators are told (CAPACITY DATA HAS CHANGED)."""
    from hakaru.array import protocol

    request = checked(protocol.Resize, volume=volume, size_bytes=size_in_bytes("SIZE", size))
    return ask(array, request, json_, lambda done: print(f"{done['volume']} has {size}"))


@app.command
def delete(array: Array, volume: InPool, /, *, json_: Json = False) -> int:
    """Forget a volume, its data, and the LU that shows it. Copies made of it stay."""
    from hakaru.array import protocol

    request = checked(protocol.Delete, volume=volume)
    return ask(array, request, json_, lambda done: print(f"{done['volume']} is gone"))


@app.command
def port(
    array: Array,
    portal: Annotated[int, Parameter(help="From 0, in the order of the file.")],
    state: Literal["optimized", "non_optimized", "standby", "unavailable"],
    /,
    *,
    json_: Json = False,
) -> int:
    """Set a portal's asymmetric access state (ALUA), until the array ends."""
    from hakaru.array import protocol

    request = checked(protocol.SetPortState, portal=portal, state=state)
    return ask(array, request, json_, lambda done: print(f"{done['portal']} is {done['state']}"))


@app.command
def check(array: Array = DEFAULT_FILE, /, *, json_: Json = False) -> int:
    """Read the metadata of every pool of an array that is not served, and say what is wrong. Repairs nothing."""
    from hakaru.array.check import check_pools, print_findings
    from hakaru.array.load import load_array
    from hakaru.errors import VerificationError

    checked_pools = check_pools(load_array(array))
    if json_:
        from hakaru.cli import print_json

        print_json(checked_pools)
    else:
        print_findings(checked_pools)
    damaged = [one["pool"] for one in checked_pools if not one["clean"]]
    return VerificationError.exit_code if damaged else 0


def ask(array: Path, request: Any, as_json: bool, print_: Callable[[Any], None]) -> int:
    """Ask the process that serves `array`, and show what it answers."""
    from hakaru.array import client
    from hakaru.array.load import load_array

    directory = array if array.is_dir() else load_array(array).state
    answer = client.ask(directory, request)
    if as_json:
        from hakaru.cli import print_json

        print_json(answer)
    else:
        print_(answer)
    return 0


def checked(kind: Callable[..., Any], **fields: Any) -> Any:
    """A request; what it cannot hold is a usage error, before anybody is asked."""
    from pydantic import ValidationError

    try:
        return kind(**fields)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        raise UsageError(f"{what} (found {str(first['input'])[:80]!r})", "`--help` says what each is") from None


def size_in_bytes(name: str, text: str) -> int:
    """A size of the command line."""
    from hakaru.units import parse_size

    try:
        return parse_size(text)
    except ValueError as e:
        raise UsageError(f"{name}: {e}") from None


def print_made(made: dict[str, Any]) -> None:
    """A volume that was made."""
    print(f"{made['volume']} is made" if made["lun"] is None else f"{made['volume']} is LU {made['lun']}")
