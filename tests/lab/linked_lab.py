"""A linked lab as in a study file: a small form of the lab of the study about a backup across a
speed mismatch.
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
    """Return a lab with changes by path, such as `links__vtl__queue="32 KiB"`. None removes an
    entry.
    """
    fields = copy.deepcopy(lab)
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = fields
        for step in parents:
            part = part.setdefault(step, {})
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return fields


def mismatch(**changes: Any) -> dict[str, Any]:
    """Return the lab with changes by path; `kvm_1` stands for kvm-1."""
    return changed(MISMATCH, {path.replace("kvm_1", "kvm-1"): value for path, value in changes.items()})


def plan(**changes: Any) -> LabPlan:
    """Return the plan of the changed lab."""
    return plan_lab(LabSpec.model_validate(mismatch(**changes)))
