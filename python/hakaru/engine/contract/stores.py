"""Storage of the data of an LU."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.part import Message


class MemoryStore(Message):
    """Sparse memory."""

    kind: Literal["memory"] = "memory"
    fill_seed: int | None = None
    fill_compressible_percent: int = 0


class FileStore(Message):
    """A sparse file, created if absent, or a block device."""

    kind: Literal["file"] = "file"
    path: str
    adopt: bool = False
    direct: bool = False


class ThinStore(Message):
    """A volume of a pool."""

    kind: Literal["thin"] = "thin"
    pool: str
    volume: str
    quota_bytes: int | None = None


Store = Annotated[MemoryStore | FileStore | ThinStore, Field(discriminator="kind")]
