"""A lab link by link, as text of a study: the one of the published backup across a speed mismatch,
small.
"""

from __future__ import annotations

import copy
from typing import Any

from hakaru.lab.model import LabSpec
from hakaru.lab.plan import LabPlan, plan_lab

MISMATCH: dict[str, Any] = {
    "hosts": ["kvm-1"],
    "arrays": ["primary", "vtl"],
    "switches": {"core": {"forwarding": "cut_through"}, "edge": {"shared_buffer": {"bytes": "4 MiB"}}},
    "links": {
        "kvm-1": {"between": ["kvm-1", "core"], "rate": "10 Gbit/s", "send_rate": "1 Gbit/s"},
        "primary": {"between": ["primary", "core"], "rate": "10 Gbit/s"},
        "uplink": {"between": ["core", "edge"], "rate": "10 Gbit/s"},
        "vtl": {"between": ["edge", "vtl"], "rate": "1 Gbit/s", "queue": "64 KiB", "delay": "100 us"},
    },
}


def changed(lab: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A lab with changes by place: `links__vtl__queue="32 KiB"`; None takes something away."""
    fields = copy.deepcopy(lab)
    for place, value in changes.items():
        *way, last = place.split("__")
        part = fields
        for step in way:
            part = part.setdefault(step, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return fields


def mismatch(**changes: Any) -> dict[str, Any]:
    """The lab with changes by place, `kvm_1` for kvm-1."""
    return changed(MISMATCH, {place.replace("kvm_1", "kvm-1"): value for place, value in changes.items()})


def plan(**changes: Any) -> LabPlan:
    """Its plan."""
    return plan_lab(LabSpec.model_validate(mismatch(**changes)))
