"""CHAP in the configuration of both engines, and access to an array."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from hakaru.engine.contract.part import Message


class SecretFile(Message):
    """A secret in a file, as its only line. The engine reads the file."""

    kind: Literal["file"] = "file"
    path: str


class SecretText(Message):
    """A secret as text. It is hidden when the configuration, or an error about it, is printed."""

    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["text"] = "text"
    text: str = Field(repr=False)


Secret = Annotated[SecretFile | SecretText, Field(discriminator="kind")]


class ChapUser(Message):
    """A CHAP name and its secret."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str
    secret: Secret


ChapAlgorithm = Literal["sha3_256", "sha256", "sha1", "md5"]
STRONG: list[ChapAlgorithm] = ["sha3_256", "sha256"]


class ChapConfig(Message):
    """CHAP credentials of an initiator."""

    user: ChapUser
    target: ChapUser | None = None
    algorithms: list[ChapAlgorithm] = STRONG


class LuAccess(Message):
    """An LU that a rule makes visible."""

    lun: int
    read_only: bool = False


class AccessRule(Message):
    """Admits initiators that match every field."""

    initiator_name: str | None = None
    address: str | None = None
    user: str | None = None
    lus: list[LuAccess] | None = None


class AccessConfig(Message):
    """The initiators that may log in, and the LUs that each of them sees."""

    users: list[ChapUser] = []
    target: ChapUser | None = None
    algorithms: list[ChapAlgorithm] = STRONG
    rules: list[AccessRule] | None = None
