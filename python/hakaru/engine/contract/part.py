"""The base class of every part of the contract."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A part of the contract."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
