"""The network of a point as its report needs it: hops on the way from one node to another, whatever
the lab's form.

A star, a lab described link by link and one with VLANs all come from the lab's plan
(`hakaru.lab.plan`). Never from counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.lab.plan import LabPlan, Link, Way, tcp_payload_bits_per_s
from hakaru.study import Study
from hakaru.study.variables import Sets, Variable


@dataclass(frozen=True)
class Hop:
    """One direction of a link on the data's way. `queue_bytes`: of the port before it, None at a
    node's end.
    """

    link: str
    direction: str
    """`a-b` or `b-a`, as the fabric counts it: `a` is the first end that the study names."""
    source: str
    target: str
    rate_bits_per_s: float | None
    queue_bytes: int | None
    mtu: int
    held_bits_per_s: float | None = None
    """Rate to which the node at its begin is held (its own NIC), where that is less than the
    link's.
    """
    node_sends: bool | None = None
    """Whether a node is at its begin (True) or its end (False); None between two switches."""

    @property
    def back(self) -> str:
        """The other direction of the same link."""
        return "b-a" if self.direction == "a-b" else "a-b"

    @property
    def entity(self) -> str:
        """Name of the channel in the fabric's counters."""
        return f"link/{self.link}/{self.direction}"

    @property
    def resource(self) -> str:
        """Name of the channel as a resource where a fabric counts."""
        return f"link/{self.link}/{self.source}>{self.target}"

    @property
    def nic_resource(self) -> str:
        """Name as a resource where the node's interface counts: `out` leaves the node."""
        return f"link/{self.link}/{'out' if self.node_sends else 'in'}"

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload that full frames carry at this rate; None where the link has no rate."""
        if self.rate_bits_per_s is None:
            return None
        return tcp_payload_bits_per_s(self.rate_bits_per_s, self.mtu) / 8


def places_of(variable: Variable) -> list[str]:
    """Every place that a level of the variable changes, in the order of the study."""
    if isinstance(variable, Sets):
        return list(variable.sets)
    return list(dict.fromkeys(place for changes in variable.values() for place in changes))


def touched(study: Study) -> list[str]:
    """Every place that a level of some variable changes, in the order of the study."""
    return list(dict.fromkeys(place for variable in study.variables.values() for place in places_of(variable)))


def settings_of(study: Study, changed: Study) -> dict[str, Any]:
    """Places that the variables of a study touch → their values at a point, as they are written."""
    return {place: at(changed.written, place) for place in touched(study)}


def at(inside: Any, place: str) -> Any:
    """The value at a place; None where there is none."""
    for key in place.split("."):
        if isinstance(inside, list):
            inside = inside[int(key)] if key.isdigit() and int(key) < len(inside) else None
        else:
            inside = inside.get(key) if isinstance(inside, dict) else None
    return inside


def hops_between(plan: LabPlan, start: str, end: str) -> tuple[tuple[Hop, ...], ...]:
    """The hops of every way from one node to another, one per path that both are on."""
    return tuple(hops_of(plan, way, start) for way in plan.ways(start, end))


def hops_of(plan: LabPlan, way: Way, start: str) -> tuple[Hop, ...]:
    """The hops of one way: it may pass a trunk to a router twice, once in each direction."""
    nodes = {switch.name: switch.name.partition(".")[0] for switch in plan.switches if switch.is_nic}
    hops, at_end = list[Hop](), way.source.switch if way.source.inside else start
    for line, entity in zip(way.hops, way.directions, strict=True):
        # Between an interface and its trunk nothing happens that a wire would show.
        if isinstance(line, Link) and line.inside:
            continue
        first, second = line.ends
        target = second if at_end == first else first
        at_node = isinstance(line, Link) and at_end == line.node
        held = line.send_rate_bits_per_s if isinstance(line, Link) and at_node else None
        rate = line.rate_bits_per_s
        hops.append(
            Hop(
                line.name,
                entity.rpartition("/")[2],
                nodes.get(at_end, at_end),
                nodes.get(target, target),
                None if rate is None else float(rate),
                None if at_node or at_end in nodes else line.queue_bytes,
                line.mtu,
                float(held) if held is not None and (rate is None or held < rate) else None,
                at_node if isinstance(line, Link) else None,
            )
        )
        at_end = target
    return tuple(hops)
