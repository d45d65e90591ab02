"""What goes over the control socket: a line of JSON each way, as often as the client likes.

    client → {"command": "status"}
    serve  → {"value": {…}}        or        {"error": {"exit_code": 2, "message": "…", "hint": "…"}}

Requests are closed: nothing unknown, nothing coerced. `exit_code` is that of `hakaru.errors`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from hakaru.errors import HakaruError, UsageError, error_of_exit_code
from hakaru.study.model import Part

REQUEST_MAX_BYTES = 64 << 10
# Counters of 256 LUs and 10 000 modelled drives are some MiB.
REPLY_MAX_BYTES = 64 << 20


class Status(Part):
    """Everything that is known now."""

    command: Literal["status"]


Request = Status
_REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field()])


def parse_request(line: bytes) -> Request:
    """The request on a line. Raises `UsageError` with what is wrong with it."""
    try:
        return _REQUEST.validate_json(line)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"not a request: {place + ': ' if place else ''}{first['msg']}") from None


def emit_value(value: Any) -> bytes:
    """The answer to a request that was done."""
    return json.dumps({"value": value}, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def emit_error(error: HakaruError) -> bytes:
    """The answer to a request that was refused or failed."""
    said = {"exit_code": error.exit_code, "message": error.message, "hint": error.hint}
    return json.dumps({"error": said}, ensure_ascii=False).encode() + b"\n"


def parse_reply(line: bytes) -> Any:
    """The value of a reply; raises the error that it carries. Raises ValueError if it is neither."""
    reply = json.loads(line)
    if not isinstance(reply, dict):
        raise ValueError("not an object")
    if "value" in reply:
        return reply["value"]
    error = reply.get("error")
    if not isinstance(error, dict):
        raise ValueError("neither a value nor an error")
    raise error_of_exit_code(int(error["exit_code"]), str(error["message"]), str(error["hint"]))
