"""The base class of every part of the contract."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of the parts of the contract: strict and immutable, refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
