"""The load of a study of files: tools that walk the folders of a tree to a file and copy all of it.

    load:
      kind: files
      tree: {scale: 1/100}
      tools: 16
      mix: {read: 80}
      to: {directory: file-server}

One unit of work is one tree. A tool draws reading or writing for each file, looks up each folder
from the root of the tree to the file, copies the file, and continues without thinking. Each file is
used once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hakaru.files.tree import TreeSpec
from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Size

TOOLS_MAX = 1024
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]


class MixSpec(Part):
    """Shares of the operations."""

    read: int = Field(default=80, ge=0, le=100, description="share of files that are read; the others are written")


class DirectorySpec(Part):
    """A directory of this machine."""

    directory: Name = Field(
        description="name of a directory below $HAKARU_FILES, by default ~/.cache/hakaru/files. It must be missing or "
        "empty, or contain the same trees"
    )


class FilesLoad(Load):
    """Whole files, read and written by tools."""

    kind: Literal["files"]
    tree: TreeSpec = Field(default_factory=TreeSpec)
    tools: int = Field(default=16, ge=1, le=TOOLS_MAX, description="tools that work at once, each on one tree")
    profile: Literal["whole_files", "metadata"] = Field(
        default="whole_files",
        description="`metadata`: create, stat, rename and delete an empty file instead of copying one",
    )
    mix: MixSpec = Field(default_factory=MixSpec)
    block: Size = Field(default=1 << 20, ge=512, le=16 << 20, description="one read or write of a copy")
    flush: bool = Field(default=False, description="flush each written file to stable storage before it is closed")
    verify: bool = Field(
        default=False, description="compare what is read with the description; wrong data ends the run with exit code 6"
    )
    cold: bool = Field(
        default=False, description="drop the files from this machine's page cache before each repetition"
    )
    keep: bool = Field(
        default=False, description="keep the trees for the next repetition, instead of deleting and building them"
    )
    to: DirectorySpec
    time_limit: Duration = Field(
        default=3600 * SECOND_NS,
        ge=SECOND_NS,
        le=86_400 * SECOND_NS,
        description="longest duration of a load without `measure.time`, which otherwise ends when every file was used",
    )


def load_at(study: Study) -> FilesLoad:
    """The load of a study of files."""
    return load_of(study, FilesLoad)
