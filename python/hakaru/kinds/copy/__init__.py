"""Copies of disk images from array to array, all jobs started at once."""

from __future__ import annotations

from hakaru.kind import Kind


class Copy(Kind):
    """The kind `copy`."""

    name = "copy"


KIND = Copy()
