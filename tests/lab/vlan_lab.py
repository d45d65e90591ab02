"""A lab with VLANs and a switch that routes, as in a study file: hosts in one VLAN each, an array
on a trunk of two.

kvm (servers) ┐                                  ┌ core: routes servers ↔ storage
other (backup)┼ edge ══ uplink: all three ═══════┘
array ════════┘ trunk: storage, backup
"""

from __future__ import annotations

from typing import Any

from hakaru.lab.model import LabSpec
from hakaru.lab.plan import LabPlan, plan_lab

from .linked_lab import changed

ROUTED: dict[str, Any] = {
    "hosts": ["kvm", "other"],
    "arrays": ["array"],
    "vlans": {
        "storage": {"id": 10, "subnet": "10.77.10.0/24"},
        "servers": {"id": 20, "subnet": "10.77.20.0/24"},
        "backup": {"id": 30, "subnet": "10.77.30.0/24"},
    },
    "switches": {"edge": {}, "core": {"router": {"interfaces": ["storage", "servers"]}}},
    "links": {
        "kvm": {"between": ["kvm", "edge"], "rate": "200 Mbit/s", "vlan": "servers"},
        "other": {"between": ["other", "edge"], "rate": "200 Mbit/s", "vlan": "backup"},
        "uplink": {"between": ["edge", "core"], "rate": "400 Mbit/s", "vlans": ["storage", "servers", "backup"]},
        "array": {"between": ["edge", "array"], "rate": "200 Mbit/s", "vlans": ["storage", "backup"]},
    },
}


def routed(**changes: Any) -> dict[str, Any]:
    """Return the lab with changes by path, such as `links__kvm__vlan="storage"`. None removes an
    entry.
    """
    return changed(ROUTED, changes)


def plan(**changes: Any) -> LabPlan:
    """Return the plan of the changed lab."""
    return plan_lab(LabSpec.model_validate(routed(**changes)))
