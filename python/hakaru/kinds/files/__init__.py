"""Whole files read and written by tools that walk trees of folders."""

from __future__ import annotations

from hakaru.kind import Kind


class Files(Kind):
    """The kind `files`."""

    name = "files"


KIND = Files()
