"""Configurations of the `files` engine: descriptions of trees, and tasks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.access import Secret
from hakaru.engine.contract.part import Message


class EvenPlacement(Message):
    """The same number of files in every folder."""

    kind: Literal["even"] = "even"


class RandomPlacement(Message):
    """Every folder is equally likely."""

    kind: Literal["random"] = "random"


class LevelPlacement(Message):
    """The level of a file's folder is drawn by weight."""

    kind: Literal["levels"] = "levels"
    weights: list[float]


class SizeClass(Message):
    """Files of a class of sizes."""

    up_to_bytes: int
    count: float


class SizeTable(Message):
    """Counts of files by size."""

    kind: Literal["table"] = "table"
    classes: list[SizeClass]


class ParetoTail(Message):
    """Distribution of the largest files."""

    from_bytes: int
    alpha: float
    percent: float


class LognormalSizes(Message):
    """Lognormal sizes with a tail."""

    kind: Literal["lognormal"] = "lognormal"
    median_bytes: int
    sigma: float
    min_bytes: int = 0
    max_bytes: int = 1 << 40
    tail: ParetoTail | None = None


class FileContent(Message):
    """Contents of files."""

    alphabet: Literal["ascii", "binary"] = "ascii"
    compressible_percent: int = 0
    duplicate_percent: int = 0


Placement = Annotated[EvenPlacement | RandomPlacement | LevelPlacement, Field(discriminator="kind")]
Sizes = Annotated[SizeTable | LognormalSizes, Field(discriminator="kind")]


class TreesConfig(Message):
    """Description of trees."""

    seed: int
    trees: int
    depth: int
    folders: int
    targets: int
    dummies: int = 0
    placement: Placement = EvenPlacement()
    sizes: Sizes
    dummy_sizes: Sizes | None = None
    total_bytes: int | None = None
    divide_sizes_by: int = 1
    content: FileContent = FileContent()


class FilesDirectory(Message):
    """A directory on a mounted file system."""

    kind: Literal["directory"] = "directory"
    path: str


class SmbGuest(Message):
    """The user `guest` without a password."""

    kind: Literal["guest"] = "guest"


class SmbAnonymous(Message):
    """No user."""

    kind: Literal["anonymous"] = "anonymous"


class SmbPassword(Message):
    """A user with a password."""

    kind: Literal["password"] = "password"
    name: str
    domain: str = ""
    password: Secret


SmbDialect = Literal["2.1", "3.0", "3.0.2", "3.1.1"]
SmbSigningAlgorithm = Literal["aes_gmac", "aes_cmac"]
SmbCompound = Literal["none", "operation", "file"]
SmbCipher = Literal["aes_128_gcm", "aes_128_ccm"]


class FilesSmb(Message):
    """A folder of a share of an SMB server."""

    kind: Literal["smb"] = "smb"
    address: str
    share: str
    folder: str = ""
    user: Annotated[SmbGuest | SmbAnonymous | SmbPassword, Field(discriminator="kind")] = SmbGuest()
    dialects: list[SmbDialect] = ["2.1", "3.0", "3.0.2", "3.1.1"]
    signing: Literal["if_required", "required"] = "if_required"
    signing_algorithms: list[SmbSigningAlgorithm] = ["aes_gmac", "aes_cmac"]
    encryption: Literal["if_required", "required"] = "if_required"
    ciphers: list[SmbCipher] = ["aes_128_gcm", "aes_128_ccm"]
    compound: SmbCompound = "operation"
    folder_cache: bool = False
    credits: int = 512
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0


FilesDestination = Annotated[FilesDirectory | FilesSmb, Field(discriminator="kind")]


class FilesBuild(Message):
    """The `files` engine that builds trees."""

    engine: Literal["files"] = "files"
    task: Literal["build"] = "build"
    destination: FilesDestination
    trees: TreesConfig
    workers: int = 4
    sample_interval_ms: int = 1000


class FilesVerify(Message):
    """The `files` engine that compares trees with their description."""

    engine: Literal["files"] = "files"
    task: Literal["verify"] = "verify"
    destination: FilesDestination
    workers: int = 4
    sample_interval_ms: int = 1000


class FilesRemove(Message):
    """The `files` engine that deletes trees."""

    engine: Literal["files"] = "files"
    task: Literal["remove"] = "remove"
    destination: FilesDestination


UserOperation = Literal["list", "stat", "open", "read", "write", "create", "rename", "delete"]


class WeightedOperation(Message):
    """An operation of users and its weight."""

    operation: UserOperation
    weight: float


class FilesMix(Message):
    """Operations of users, and the times between them."""

    operations: list[WeightedOperation]
    think_ms: float = 0.0
    rate_per_s: float | None = None


class FilesLoad(Message):
    """The `files` engine that runs a load."""

    engine: Literal["files"] = "files"
    task: Literal["load"] = "load"
    destination: FilesDestination
    trees: TreesConfig
    build: bool = False
    remove: bool = False
    profile: Literal["whole_files", "metadata", "mix"] = "whole_files"
    mix: FilesMix | None = None
    tools: int
    first_tree: int = 0
    stride: int = 1
    read_percent: int = 80
    block_bytes: int = 1 << 20
    flush: bool = False
    verify: bool = False
    cold: bool = False
    repeat: bool = False
    second_start: bool = False
    seed: int
    warmup_s: float = 0.0
    measure_s: float | None = None
    sample_interval_ms: int = 1000
