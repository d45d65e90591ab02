"""Planning of a lab: a `LabSpec` becomes nodes, links, addresses and the actions that build them.
Pure.

plan_lab(spec) -> LabPlan                  raises ImpossibleLabError with the place in the `lab:`
                                           block
plan.ways(source, destination)             every path between two nodes, hop by hop
check_adjustable(current, wanted)          raises ImpossibleLabError unless a built lab can change
                                           to a plan
fabric_config(plan, seed=…, …)             configuration of the fabric engine of a plan
"""

from hakaru.lab.plan.device import Device, DevicePort
from hakaru.lab.plan.lab import LabPlan, check_adjustable, checking_plan, fabric_config, plan_lab
from hakaru.lab.plan.parts import Discipline, Line, Link, Node, Switch, Trunk, Vlan
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.shape import tcp_payload_bits_per_s
from hakaru.lab.plan.tcp import kernel_finds_losses_by_rack_only
from hakaru.lab.plan.topology import Cable, Topology, Way

__all__ = [
    "Cable",
    "Device",
    "DevicePort",
    "Discipline",
    "ImpossibleLabError",
    "LabPlan",
    "Line",
    "Link",
    "Node",
    "Switch",
    "Topology",
    "Trunk",
    "Vlan",
    "Way",
    "check_adjustable",
    "checking_plan",
    "fabric_config",
    "kernel_finds_losses_by_rack_only",
    "plan_lab",
    "tcp_payload_bits_per_s",
]
