"""The protocol of the control socket: any number of requests, each a line of JSON, and their
replies.

    client → {"command": "snapshot", "of": "0", "name": "before-upgrade"}
    serve  → {"value": {…}}        or        {"error": {"exit_code": 2, "message": "…", "hint":
                                             "…"}}

Requests with unknown fields are refused, and nothing is coerced. `exit_code` is that of
`hakaru.errors`. A volume is named as POOL/VOLUME, or by the LUN of its LU. Sizes are bytes.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from hakaru.array.model import NAME_PATTERN, TIB, Name
from hakaru.errors import HakaruError, UsageError, error_of_exit_code
from hakaru.study.model import Part
from hakaru.text import Form

REQUEST_MAX_BYTES = 64 << 10
# Counters of 256 LUs and 10 000 modelled drives are some MiB.
REPLY_MAX_BYTES = 64 << 20

_IN_POOL = f"{NAME_PATTERN}/{NAME_PATTERN}"
InPool = Annotated[str, Form(_IN_POOL, "POOL/NAME, for example fast/db")]
VolumeOrLun = Annotated[str, Form(f"([0-9]{{1,3}}|{_IN_POOL})", "POOL/NAME, for example fast/db, or a LUN")]
Lun = Annotated[int, Field(ge=0, le=255)]
Bytes = Annotated[int, Field(gt=0, le=256 * TIB)]


class Status(Part):
    """Report the current state and counters."""

    command: Literal["status"] = "status"


class Grow(Part):
    """Add a group to a pool."""

    command: Literal["grow"] = "grow"
    pool: Name
    group: Name
    size_bytes: Bytes
    drives: Annotated[int, Field(ge=0, le=63)] | None = None
    """Modelled RAID group of the new group, which begins at `offset_bytes`; needed when the model
    has drives.
    """
    offset_bytes: Annotated[int, Field(ge=0)] = 0


class Create(Part):
    """Create a volume and serve it as an LU. The reply has the LUN."""

    command: Literal["create"] = "create"
    volume: InPool
    size_bytes: Bytes
    block_bytes: Literal[512, 4096] = 512
    quota_bytes: Bytes | None = None
    lun: Lun | None = None
    """Default: the lowest free LUN."""


class Snapshot(Part):
    """Create a read-only copy of a volume, and serve it if `lun` is given."""

    command: Literal["snapshot"] = "snapshot"
    of: VolumeOrLun
    name: Name
    lun: Lun | None = None


class Clone(Part):
    """Create a writable copy of a volume, and serve it. The reply has the LUN."""

    command: Literal["clone"] = "clone"
    of: VolumeOrLun
    name: Name
    quota_bytes: Bytes | None = None
    lun: Lun | None = None
    """Default: the lowest free LUN."""


class Resize(Part):
    """Enlarge a volume."""

    command: Literal["resize"] = "resize"
    volume: VolumeOrLun
    size_bytes: Bytes


class Delete(Part):
    """Withdraw the LU of a volume, if there is one, and delete the volume and its data."""

    command: Literal["delete"] = "delete"
    volume: InPool


class SetPortState(Part):
    """Set the asymmetric access state (ALUA) of a portal's port group until the array stops."""

    command: Literal["port_state"] = "port_state"
    portal: Annotated[int, Field(ge=0, le=15)]
    state: Literal["optimized", "non_optimized", "standby", "unavailable"]
    transition_ms: Annotated[int, Field(ge=0, le=255_000)] = 0


Request = Status | Grow | Create | Snapshot | Clone | Resize | Delete | SetPortState
_REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="command")])


def parse_request(line: bytes) -> Request:
    """Parse the request on a line. Raises `UsageError` with the fault."""
    try:
        return _REQUEST.validate_json(line)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"not a request: {place + ': ' if place else ''}{first['msg']}") from None


def emit_value(value: Any) -> bytes:
    """Return the reply to a request that succeeded."""
    return json.dumps({"value": value}, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def emit_error(error: HakaruError) -> bytes:
    """Return the reply to a request that was refused or failed."""
    reply = {"exit_code": error.exit_code, "message": error.message, "hint": error.hint}
    return json.dumps({"error": reply}, ensure_ascii=False).encode() + b"\n"


def parse_reply(line: bytes) -> Any:
    """Return the value of a reply, or raise its error. Raises ValueError if it has neither."""
    reply = json.loads(line)
    if not isinstance(reply, dict):
        raise ValueError("not an object")
    if "value" in reply:
        return reply["value"]
    error = reply.get("error")
    if not isinstance(error, dict):
        raise ValueError("neither a value nor an error")
    raise error_of_exit_code(int(error["exit_code"]), str(error["message"]), str(error["hint"]))
