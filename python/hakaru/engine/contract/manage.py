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
    """Serve a thin LU; make its volume if it is not there."""

    kind: Literal["create"] = "create"
    lu: LuConfig


class SnapshotAction(Message):
    """Make a copy that takes no writes."""

    kind: Literal["snapshot"] = "snapshot"
    pool: str
    volume: str
    name: str


class CloneAction(Message):
    """Make a copy that takes writes."""

    kind: Literal["clone"] = "clone"
    pool: str
    volume: str
    name: str
    quota_bytes: int | None = None


class ResizeAction(Message):
    """Make a volume larger."""

    kind: Literal["resize"] = "resize"
    pool: str
    volume: str
    size_bytes: int


class SetQuotaAction(Message):
    """Set or lift a quota."""

    kind: Literal["set_quota"] = "set_quota"
    pool: str
    volume: str
    quota_bytes: int | None = None


class DeleteAction(Message):
    """Forget a volume."""

    kind: Literal["delete"] = "delete"
    pool: str
    volume: str


class WithdrawAction(Message):
    """Withdraw a thin LU."""

    kind: Literal["withdraw"] = "withdraw"
    lun: int


class SetPortStateAction(Message):
    """Set a portal's asymmetric access state."""

    kind: Literal["set_port_state"] = "set_port_state"
    portal: int
    state: Literal["optimized", "non_optimized", "standby", "unavailable"]


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
    | SetPortStateAction,
    Field(discriminator="kind"),
]
