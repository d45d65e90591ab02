"""VMs that load arrays. A point is a load with one pattern and a number of VMs."""

from __future__ import annotations

from hakaru.kind import Kind


class Vms(Kind):
    """The kind `vms`."""

    name = "vms"


KIND = Vms()
