"""The estimate of time and memory before a run starts."""

from __future__ import annotations

from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.study import expand, load

MIB = 1 << 20


def test_plan_counts_memory_for_a_frame_ring_per_fabric_interface() -> None:
    study = load("vm-sweep").study
    labs = {kind: plan_lab(study.lab.model_copy(update={"backend": kind})) for kind in ("fabric", "kernel")}
    assert labs["fabric"].fabric_node and not labs["kernel"].fabric_node
    estimates = {kind: estimate(expand(study), lab) for kind, lab in labs.items()}
    engines = (estimates["fabric"].engines - estimates["kernel"].engines) * 24 * MIB
    extra_bytes = estimates["fabric"].memory_bytes - estimates["kernel"].memory_bytes
    assert extra_bytes - engines == len(labs["fabric"].links) * 16 * MIB
