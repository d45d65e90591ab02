"""The load of a study of files: tools that walk the folders of a tree to a file and copy all of it.

    load:
      kind: files
      tree: {scale: 1/100}
      tools: 16
      mix: {read: 80}
      to: {directory: file-server}

The trees are in a directory of this machine, or on a file server: Samba in the node of the lab's
array, which each tool reaches by a session of its own over the lab's network.

      to: {smb: {signing: true}}

Or they are on the disk of a file server in a guest (`hakaru.kinds.files.chain`).

With several file servers, each has a share and trees of its own, in the node of an array of its
own. Each may have several clients, which divide its tools and its trees among them:

      servers: 4
      clients: 2

Users draw operations by weight, think between them, and keep their tree
(`hakaru.kinds.files.mixes`):

      users: {mix: home_folders, think: 2 s}

One unit of work is one tree. A tool draws reading or writing for each file, looks up each folder
from the root of the tree to the file, copies the file, and continues without thinking. Each file is
used once, or with `repeat` once in each round, until the measuring time is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from hakaru.files.tree import PUBLISHED_BYTES, PUBLISHED_FILES, TreeSpec
from hakaru.fileserver.samba_settings import SambaSettings
from hakaru.kinds.files.chain import ChainPart
from hakaru.kinds.files.events import EVENTS_MAX, ChainEvent
from hakaru.kinds.files.mixes import UsersSpec
from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Size

TOOLS_MAX = 1024
SERVERS_MAX = CLIENTS_MAX = 64
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]


class MixSpec(Part):
    """Shares of the operations."""

    read: int = Field(default=80, ge=0, le=100, description="share of files that are read; the others are written")


Dialect = Literal["2.1", "3.0", "3.0.2", "3.1.1"]
_PROTOCOLS = {"2.1": "SMB2_10", "3.0": "SMB3_00", "3.0.2": "SMB3_02", "3.1.1": "SMB3_11"}
Cipher = Literal["aes_128_gcm", "aes_128_ccm"]
Compound = Literal["none", "operation", "file"]
CREDITS_MIN: Mapping[Compound, int] = {"none": 1, "operation": 3, "file": 4}
"""Requests of the longest compound: open, rename, close; open, transfer, flush, close."""
BESIDE_TRANSFER = 3
"""Requests of the compound of a file beside its read or write."""
CREDIT_BYTES = 64 << 10
"""Bytes of a request that one credit covers."""
CLIENT_BYTES_MAX = 8 << 20
"""Largest read or write of the engine's client."""


class SmbSpec(Part):
    """A file server in the lab, and the sessions of the tools."""

    signing: bool = Field(default=False, description="sign every message")
    encryption: Cipher | None = Field(
        default=None, description="cipher of all messages after the login, with dialect 3.1.1; not signed then"
    )
    compound: Compound = Field(
        default="operation",
        description="requests that are sent together: `none`, those of one operation, such as open and close of a "
        "folder, or those of a file: open, transfer and close, and several reads or writes at once",
    )
    folder_cache: bool = Field(
        default=False, description="look each folder of a tree up once, as a client that caches folders"
    )
    credits: int = Field(
        default=512,
        ge=1,
        le=8192,
        description="credits of a session, each for 64 KiB in flight; at least 3 for compounds of an operation, 4 for "
        "those of a file",
    )
    dialect: Dialect = Field(default="3.1.1", description="version of the protocol")
    directory: Name = Field(
        default="shares",
        description="name of a directory below $HAKARU_FILES in which the server has the directory of its share",
    )
    server: SambaSettings = Field(default_factory=SambaSettings, description="settings of the server")

    def request_bytes(self, block: int) -> tuple[int, int]:
        """Largest read and largest write of a copy in blocks of `block` bytes, which the credits,
        the client and the server limit.
        """
        credits = self.credits - (BESIDE_TRANSFER if self.compound == "file" else 0)
        most = min(block, credits * CREDIT_BYTES, CLIENT_BYTES_MAX)
        return min(most, self.server.read_max), min(most, self.server.write_max)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.credits < (least := CREDITS_MIN[self.compound]):
            raise ValueError(f"compounds need at least {least} credits; or set `compound: none`")
        names = list(_PROTOCOLS.values())
        first, last = names.index(self.server.protocol_min), names.index(self.server.protocol_max)
        if not first <= names.index(_PROTOCOLS[self.dialect]) <= last:
            raise ValueError(f"the server does not support dialect {self.dialect}; change its protocol_min or _max")
        if self.encryption is not None and self.dialect != "3.1.1":
            raise ValueError(f"dialect {self.dialect} has no encryption here; use 3.1.1, or remove `encryption`")
        if self.encryption is not None and self.server.encryption == "off":
            raise ValueError("the server does not encrypt; remove `encryption: off` of the server, or `encryption`")
        if self.server.signing == "required" and not self.signing and self.encryption is None:
            raise ValueError("the server requires signatures; set `signing: true`, or remove `signing: required`")
        if self.server.encryption == "required" and self.encryption is None:
            raise ValueError("the server requires encryption; set `encryption: aes_128_gcm`, or remove `required`")
        return self


class DestinationSpec(Part):
    """Place of the trees: a directory of this machine, a file server in the lab, or the disk of one
    in a guest.
    """

    directory: Name | None = Field(
        default=None,
        description="name of a directory below $HAKARU_FILES, by default ~/.cache/hakaru/files. It must be missing or "
        "empty, or contain the same trees",
    )
    smb: SmbSpec | None = Field(
        default=None, description="Samba in the node of the lab's array, or with `chain` in the guest"
    )
    chain: ChainPart | None = Field(
        default=None,
        description="virtual disk on a thin LU, in a guest in the place of the lab's last host. The tools are in the "
        "guest, or with `smb` on the first of two hosts",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.directory is None) == (self.smb is None and self.chain is None):
            raise ValueError("write either `directory` or `smb`, or `chain` with or without `smb`")
        return self


class FilesLoad(Load):
    """Whole files, read and written by tools."""

    kind: Literal["files"]
    tree: TreeSpec = Field(default_factory=TreeSpec)
    tools: int = Field(
        default=16,
        ge=1,
        le=TOOLS_MAX,
        description="tools of each file server that work at once, each on one tree; its clients have equal parts",
    )
    servers: int = Field(
        default=1,
        ge=1,
        le=SERVERS_MAX,
        description="file servers, in the nodes of the lab's first arrays; each has trees of its own",
    )
    clients: int = Field(
        default=1, ge=1, le=CLIENTS_MAX, description="hosts that use each file server; no host uses two"
    )
    profile: Literal["whole_files", "metadata"] = Field(
        default="whole_files",
        description="`metadata`: create, stat, rename and delete an empty file instead of copying one",
    )
    users: UsersSpec | None = Field(
        default=None,
        description="each tool is a user with a tree of its own, who draws operations and thinks between them, instead "
        "of `profile` and `mix`",
    )
    mix: MixSpec = Field(default_factory=MixSpec)
    block: Size = Field(default=1 << 20, ge=512, le=16 << 20, description="one read or write of a copy")
    flush: bool = Field(default=False, description="flush each written file to stable storage before it is closed")
    verify: bool = Field(
        default=False, description="compare what is read with the description; wrong data ends the run with exit code 6"
    )
    cold: bool = Field(
        default=False,
        description="drop the files from the page caches of tools, file servers and guests, and from the modelled "
        "cache of the array, before each load, and check that the layer below delivers them",
    )
    repeat: bool = Field(
        default=False,
        description="use the trees again once all were used, so that the load lasts for the whole of `measure.time`",
    )
    keep: bool = Field(
        default=False, description="keep the trees for the next repetition, instead of deleting and building them"
    )
    to: DestinationSpec
    events: list[ChainEvent] = Field(
        default=[],
        max_length=EVENTS_MAX,
        description="growth of the pool below a `chain` and extension of its disk, in the measuring phase of each "
        "repetition; default: none",
    )
    time_limit: Duration = Field(
        default=3600 * SECOND_NS,
        ge=SECOND_NS,
        le=86_400 * SECOND_NS,
        description="longest duration of a load without `measure.time`, which otherwise ends when every file was used",
    )

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        if self.users is not None and (self.profile != "whole_files" or self.mix != MixSpec()):
            raise ValueError("users have a mix of their own; write either `users`, or `profile` and `mix`")
        if self.users is not None and self.repeat:
            raise ValueError("users never run out of files; leave out `repeat`")
        return self


def load_at(study: Study) -> FilesLoad:
    """The load of a study of files."""
    return load_of(study, FilesLoad)


def approximate_bytes(load: FilesLoad) -> int:
    """Bytes of the trees of one file server, to a whole KiB; sizes as drawn count with the
    published mean.
    """
    tree = load.tree
    total = tree.total_bytes
    mean = PUBLISHED_BYTES // PUBLISHED_FILES
    targets = mean * tree.trees * tree.targets if total is None else total
    dummies = (0 if tree.dummies == 0 else mean) * tree.trees * tree.dummies
    return ((targets + dummies) // tree.divisor) >> 10 << 10
