"""Frames sent through a device, at rates that a search chooses."""

from __future__ import annotations

from hakaru.kind import Kind


class Packets(Kind):
    """The kind `packets`."""

    name = "packets"


KIND = Packets()
