"""The network of a point for its report: the hops of the path between two nodes, for every form of
lab.

Computed only from the lab's plan (`hakaru.lab.plan`), which describes stars, labs link by link and
VLANs alike, and never from counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.lab.plan import LabPlan, Link, Trunk, Way, tcp_payload_bits_per_s
from hakaru.study import Study
from hakaru.study.variables import Sets, Variable, value_at


@dataclass(frozen=True)
class Hop:
    """One direction of a link on the data path. `queue_bytes`: queue of the sending switch port;
    None if a node sends.
    """

    link: str
    direction: str
    """`a-b` or `b-a`, as in the fabric's counters; `a` is the first end in the study."""
    source: str
    target: str
    rate_bits_per_s: float | None
    queue_bytes: int | None
    mtu: int
    held_bits_per_s: float | None = None
    """Rate limit of the sending node's NIC, if it is below the rate of the link."""
    node_sends: bool | None = None
    """True if a node sends on this hop, False if a node receives; None between two switches."""

    @property
    def back(self) -> str:
        """The other direction of the same link."""
        return "b-a" if self.direction == "a-b" else "a-b"

    @property
    def entity(self) -> str:
        """Name of the channel (this direction of the link) in the fabric's counters."""
        return f"link/{self.link}/{self.direction}"

    @property
    def resource(self) -> str:
        """Name as a resource if a fabric counts."""
        return f"link/{self.link}/{self.source}>{self.target}"

    @property
    def nic_resource(self) -> str:
        """Name as a resource if the node's interface counts; `out` is the direction away from the
        node.
        """
        return f"link/{self.link}/{'out' if self.node_sends else 'in'}"

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload rate of full frames; None if the link has no rate."""
        if self.rate_bits_per_s is None:
            return None
        return tcp_payload_bits_per_s(self.rate_bits_per_s, self.mtu) / 8


def places_of(variable: Variable) -> list[str]:
    """Every place in the study that a level of the variable changes, in the order of the study."""
    if isinstance(variable, Sets):
        return list(variable.sets)
    return list(dict.fromkeys(place for changes in variable.values() for place in changes))


def changed_places(study: Study) -> list[str]:
    """Every place that some variable of the study changes, in the order of the study."""
    return list(dict.fromkeys(place for variable in study.variables.values() for place in places_of(variable)))


def settings_of(study: Study, changed: Study) -> dict[str, Any]:
    """Places that the variables of a study change → their values at a point, as written in the
    study.
    """
    return {place: value_at(changed.written, place) for place in changed_places(study)}


def hops_between(plan: LabPlan, start: str, end: str) -> tuple[tuple[Hop, ...], ...]:
    """The hops of every path from one node to another."""
    return tuple(hops_of(plan, way, start) for way in plan.ways(start, end))


def hops_of(plan: LabPlan, way: Way, start: str) -> tuple[Hop, ...]:
    """The hops of one path. A path may pass a trunk to a router twice, once in each direction."""
    nodes = {switch.name: switch.name.partition(".")[0] for switch in plan.switches if switch.is_nic}
    hops, at_end = list[Hop](), way.source.switch if way.source.inside else start
    for line, entity in zip(way.hops, way.directions, strict=True):
        # A link inside a node, between a VLAN interface and its trunk, is not a hop on the wire.
        if isinstance(line, Link) and line.inside:
            continue
        first, second = line.ends
        target = second if at_end == first else first
        at_node = isinstance(line, Link) and at_end == line.node
        nic_rate = line.send_rate_bits_per_s if isinstance(line, Link) and at_node else None
        rate = line.rate_bits_per_s
        hops.append(
            Hop(
                line.name,
                entity.rpartition("/")[2],
                nodes.get(at_end, at_end),
                nodes.get(target, target),
                None if rate is None else float(rate),
                None if at_node or (isinstance(line, Trunk) and at_end in nodes) else line.queue_bytes,
                line.mtu,
                float(nic_rate) if nic_rate is not None and (rate is None or nic_rate < rate) else None,
                at_node if isinstance(line, Link) else None,
            )
        )
        at_end = target
    return tuple(hops)
