"""Result of one check of `hakaru doctor`.

Each finding describes the state of one item and, unless it is `ok`, a remedy. `fail`: a lab or an
engine cannot run here. `warn`: it can run, but something is missing or results may be unreliable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check. `hint` is empty if `status` is `ok`."""

    name: str
    status: Status
    message: str
    hint: str = ""
