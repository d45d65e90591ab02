"""What a run is expected to take, before it starts."""

from __future__ import annotations

from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.study import expand, load

MIB = 1 << 20


def test_the_plan_counts_a_ring_of_frames_for_each_interface_of_a_fabric_and_none_without() -> None:
    study = load("vm-sweep").study
    by = {kind: plan_lab(study.lab.model_copy(update={"backend": kind})) for kind in ("fabric", "kernel")}
    assert by["fabric"].fabric_node and not by["kernel"].fabric_node
    wanted = {kind: estimate(expand(study), lab) for kind, lab in by.items()}
    engines = (wanted["fabric"].engines - wanted["kernel"].engines) * 24 * MIB
    more = wanted["fabric"].memory_bytes - wanted["kernel"].memory_bytes
    assert more - engines == len(by["fabric"].links) * 16 * MIB
