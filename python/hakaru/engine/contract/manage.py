"""Orders to an array that is serving."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.array import GroupConfig, LuConfig
from hakaru.engine.contract.part import Message


class StatusAction(Message):
    """Report pools, volumes, LUs and portals."""

    kind: Literal["status"] = "status"


class GrowAction(Message):
    """Add a group to a pool."""

    kind: Literal["grow"] = "grow"
    pool: str
    group: GroupConfig


class CreateAction(Message):
    """Serve a thin LU, and create its volume if absent."""

    kind: Literal["create"] = "create"
    lu: LuConfig


class SnapshotAction(Message):
    """Create a read-only copy of a volume."""

    kind: Literal["snapshot"] = "snapshot"
    pool: str
    volume: str
    name: str


class CloneAction(Message):
    """Create a writable copy of a volume."""

    kind: Literal["clone"] = "clone"
    pool: str
    volume: str
    name: str
    quota_bytes: int | None = None


class ResizeAction(Message):
    """Enlarge a volume."""

    kind: Literal["resize"] = "resize"
    pool: str
    volume: str
    size_bytes: int


class SetQuotaAction(Message):
    """Set a quota, or remove it (None)."""

    kind: Literal["set_quota"] = "set_quota"
    pool: str
    volume: str
    quota_bytes: int | None = None


class DeleteAction(Message):
    """Delete a volume and its data."""

    kind: Literal["delete"] = "delete"
    pool: str
    volume: str


class WithdrawAction(Message):
    """Stop serving a thin LU; its volume remains."""

    kind: Literal["withdraw"] = "withdraw"
    lun: int


class SetPortStateAction(Message):
    """Set the asymmetric access state of a portal's port group."""

    kind: Literal["set_port_state"] = "set_port_state"
    portal: int
    state: Literal["optimized", "non_optimized", "standby", "unavailable"]
    transition_ms: int = 0


class SetPortalAction(Message):
    """Refuse or accept connections at a portal; refusal ends those over it."""

    kind: Literal["set_portal"] = "set_portal"
    portal: int
    accepts: bool


class EmptyCacheAction(Message):
    """Drop what the modelled cache holds and the drives have."""

    kind: Literal["empty_cache"] = "empty_cache"


ManageAction = Annotated[
    StatusAction
    | GrowAction
    | CreateAction
    | SnapshotAction
    | CloneAction
    | ResizeAction
    | SetQuotaAction
    | DeleteAction
    | WithdrawAction
    | SetPortStateAction
    | SetPortalAction
    | EmptyCacheAction,
    Field(discriminator="kind"),
]
