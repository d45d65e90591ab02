"""The commands `hakaru array …`. Except for `serve`, `check`, `export` and `import`, each sends one
request to the process that serves the array and prints the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter, validators

from hakaru.cli.options import Json, JsonLines, duration, size
from hakaru.errors import UsageError
from hakaru.output import print_json, print_text
from hakaru.units import format_duration, format_size

app = App(
    name="array",
    help="Serve and manage one standalone array. ARRAY is its file, or its state directory.",
    help_epilogue="",
    result_action="return_value",
    group_parameters=Group("Options"),
)

DEFAULT_FILE = Path("array.yaml")

# Nanoseconds in a millisecond.
MS = 1_000_000

Array = Annotated[Path, Parameter(name="ARRAY", help="The array file, or its state directory.")]
InPool = Annotated[str, Parameter(name="VOLUME", help="The volume, as POOL/NAME.")]
Volume = Annotated[str, Parameter(name="VOLUME", help="The volume, as POOL/NAME or as the LUN of its LU.")]
Size = Annotated[int, size(), Parameter(name="SIZE", help="Size with a unit, for example '64 GiB'.")]
Quota = Annotated[int | None, size(), Parameter(help="Largest space that the volume may use in the pool.")]
CopyName = Annotated[str, Parameter(name="NAME", help="Name of the copy, in the same pool.")]
FreeLun = Annotated[
    int | None,
    Parameter(
        metavar="LUN", validator=validators.Number(gte=0, lte=255), help="LUN, 0-255. Default: the lowest free LUN."
    ),
]


@app.command(help_epilogue="Example: hakaru array serve array.yaml --metrics 127.0.0.1:9260")
def serve(
    file: Annotated[Path, Parameter(name="FILE", help="The array file.")] = DEFAULT_FILE,
    /,
    *,
    metrics: Annotated[
        str | None,
        Parameter(metavar="ADDRESS:PORT", help="Override the address of /metrics for Prometheus."),
    ] = None,
    json_: JsonLines = False,
) -> int:
    """Serve the array until Ctrl-C or SIGTERM. Prints a line that begins with READY once initiators
    can log in.
    """
    from hakaru.array.load import load_array
    from hakaru.array.serve import serve as keep

    return keep(load_array(file, metrics), json_lines=json_)


@app.command
def status(array: Array = DEFAULT_FILE, /, *, json_: Json = False) -> int:
    """Show sessions, LUs, pools, volumes, and the utilisation of each part."""
    from hakaru.array import protocol
    from hakaru.array.render import print_status

    return ask(array, protocol.Status(), json_, print_status)


@app.command
def grow(
    array: Array,
    pool: Annotated[str, Parameter(name="POOL", help="Name of the pool.")],
    group: Annotated[str, Parameter(name="GROUP", help="Name of the new RAID group.")],
    size: Size,
    /,
    *,
    drives: Annotated[
        int | None,
        Parameter(
            metavar="N", help="Modelled RAID group for the new group, counted from 0, if the array's model has drives."
        ),
    ] = None,
    offset: Annotated[int, size(), Parameter(help="Offset on the modelled RAID group.")] = 0,
    json_: Json = False,
) -> int:
    """Add a RAID group to a pool."""
    from hakaru.array import protocol

    request = checked(protocol.Grow, pool=pool, group=group, size_bytes=size, drives=drives, offset_bytes=offset)
    return ask(array, request, json_, lambda _: print_text(f"pool {pool} has group {group} of {format_size(size)}"))


@app.command(help_epilogue="Example: hakaru array create array.yaml fast/db '64 GiB' --lun 3")
def create(
    array: Array,
    volume: InPool,
    size: Size,
    /,
    *,
    lun: FreeLun = None,
    block: Annotated[Literal[512, 4096], Parameter(metavar="BYTES", help="Logical block length in bytes.")] = 512,
    quota: Quota = None,
    json_: Json = False,
) -> int:
    """Create a volume in a pool and serve it as a thin LU."""
    from hakaru.array import protocol

    request = checked(
        protocol.Create,
        volume=volume,
        size_bytes=size,
        block_bytes=block,
        quota_bytes=quota,
        lun=lun,
    )
    return ask(array, request, json_, print_made)


@app.command
def snapshot(
    array: Array,
    of: Volume,
    name: CopyName,
    /,
    *,
    lun: Annotated[
        int | None,
        Parameter(
            metavar="LUN",
            validator=validators.Number(gte=0, lte=255),
            help="LUN to serve the snapshot at, read-only. Default: not served.",
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Take a read-only snapshot of a volume. It uses no space until the volume changes."""
    from hakaru.array import protocol

    return ask(array, checked(protocol.Snapshot, of=of, name=name, lun=lun), json_, print_made)


@app.command
def clone(
    array: Array,
    of: Volume,
    name: CopyName,
    /,
    *,
    lun: FreeLun = None,
    quota: Quota = None,
    json_: Json = False,
) -> int:
    """Clone a volume or snapshot to a writable LU. It uses no space until one of the two
    changes.
    """
    from hakaru.array import protocol

    return ask(array, checked(protocol.Clone, of=of, name=name, lun=lun, quota_bytes=quota), json_, print_made)


@app.command
def resize(array: Array, volume: Volume, size: Size, /, *, json_: Json = False) -> int:
    """Enlarge a thin LU. Initiators get the unit attention CAPACITY DATA HAS CHANGED."""
    from hakaru.array import protocol

    request = checked(protocol.Resize, volume=volume, size_bytes=size)
    return ask(array, request, json_, lambda done: print_text(f"{done['volume']} has {format_size(size)}"))


@app.command
def delete(array: Array, volume: InPool, /, *, json_: Json = False) -> int:
    """Delete a volume, its data, and its LU. Its snapshots and clones remain."""
    from hakaru.array import protocol

    request = checked(protocol.Delete, volume=volume)
    return ask(array, request, json_, lambda done: print_text(f"{done['volume']} is deleted"))


@app.command
def port(
    array: Array,
    portal: Annotated[int, Parameter(name="PORTAL", help="Number of the portal in the array file, counted from 0.")],
    state: Annotated[
        Literal["optimized", "non_optimized", "standby", "unavailable"],
        Parameter(name="STATE", help="The new access state."),
    ],
    /,
    *,
    transition: Annotated[
        int,
        duration(at_most=255_000_000_000),
        Parameter(help="Time in which the portal refuses access before it has the state, 1 ms to 255 s."),
    ] = 0,
    json_: Json = False,
) -> int:
    """Set the access state (ALUA) of a portal and its group. It lasts until the array stops."""
    from hakaru.array import protocol

    if 0 < transition < MS:
        raise UsageError("--transition: shorter than 1 ms", "choose at least 1 ms, or omit it for a change at once")
    request = checked(protocol.SetPortState, portal=portal, state=state, transition_ms=transition // MS)
    return ask(array, request, json_, print_port)


@app.command
def check(array: Array = DEFAULT_FILE, /, *, json_: Json = False) -> int:
    """Check the metadata of every pool of an array that is not being served. Repairs nothing."""
    from hakaru.array.check import check_pools, print_findings
    from hakaru.array.load import load_array
    from hakaru.errors import VerificationError

    checked_pools = check_pools(load_array(array))
    if json_:
        print_json(checked_pools)
    else:
        print_findings(checked_pools)
    damaged = [pool["pool"] for pool in checked_pools if not pool["clean"]]
    return VerificationError.exit_code if damaged else 0


Cartridge = Annotated[Path, Parameter(name="CARTRIDGE", help="BARCODE.tape in a folder or in the directory of a pool.")]


@app.command
def export(
    cartridge: Cartridge,
    file: Annotated[Path, Parameter(name="FILE", help="The new file.")],
    /,
    *,
    json_: Json = False,
) -> int:
    """Write the contents of a tape cartridge to a new file in the format of SIMH (.tap). No array
    may use the cartridge.
    """
    from hakaru.array.tap import export_tape

    return print_copied(export_tape(cartridge, file), json_)


@app.command(name="import")
def import_(
    file: Annotated[Path, Parameter(name="FILE", help="A file in the format of SIMH (.tap).")],
    cartridge: Cartridge,
    /,
    *,
    capacity: Annotated[
        int | None, size(), Parameter(help="Capacity of the cartridge. Default: what the contents need.")
    ] = None,
    json_: Json = False,
) -> int:
    """Create a tape cartridge with the contents of a file in the format of SIMH (.tap)."""
    from hakaru.array.tap import import_tape

    return print_copied(import_tape(file, cartridge, capacity), json_)


def print_copied(figures: dict[str, Any], as_json: bool) -> int:
    """Print what was copied to or from a cartridge."""
    if as_json:
        print_json(figures)
    else:
        blocks, filemarks, bytes_ = figures["blocks"], figures["filemarks"], format_size(figures["bytes"])
        print_text(f"copied {blocks} blocks with {bytes_} and {filemarks} filemarks")
    return 0


def ask(array: Path, request: Any, as_json: bool, print_: Callable[[Any], None]) -> int:
    """Send a request to the process that serves `array`, and print its reply."""
    from hakaru.array import client
    from hakaru.array.load import load_array

    directory = array if array.is_dir() else load_array(array).state
    answer = client.ask(directory, request)
    if as_json:
        print_json(answer)
    else:
        print_(answer)
    return 0


def checked(kind: Callable[..., Any], **fields: Any) -> Any:
    """Build a request. Raises UsageError for an invalid field."""
    from pydantic import ValidationError

    from hakaru.study.explain import uncapitalised

    try:
        return kind(**fields)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        fault = f"{'.'.join(map(str, first['loc']))}: {uncapitalised(message)}"
        raise UsageError(f"{fault} (found {str(first['input'])[:80]!r})", "`--help` describes each argument") from None


def print_port(done: dict[str, Any]) -> None:
    """Print the state of each portal of a group, or the state that it will have and when."""
    for portal in done["portals"]:
        if transition_ms := done["transition_ms"]:
            print_text(f"{portal} will be {done['state']} in {format_duration(transition_ms * MS)}")
        else:
            print_text(f"{portal} is {done['state']}")


def print_made(made: dict[str, Any]) -> None:
    """Print the name and the LUN of a volume that was created."""
    print_text(f"{made['volume']} is created" if made["lun"] is None else f"{made['volume']} is LU {made['lun']}")
