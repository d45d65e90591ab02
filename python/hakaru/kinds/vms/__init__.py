"""VMs that load arrays: points are loads by one pattern and a number of VMs."""

from __future__ import annotations

from hakaru.kind import Kind


class Vms(Kind):
    """The kind `vms`."""

    name = "vms"


KIND = Vms()
