"""Drawing of a lab described link by link: a tree of switches from left to right, with nodes on
both sides. Pure.

The switch of the first host is the root, on the left. Every other switch is in the column to the
right of its parent, within the height of the parent. Hosts of the root are on the left, all other
nodes on the right, in the rows of their switch, so that no line crosses a box. (A second link of a
node to another switch may cross a line.) The name and rate of a link are above its line. The VLANs
of its port and its other settings are below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hakaru.engine import contract
from hakaru.lab.plan import Cable, Discipline, LabPlan, Line, Link, Switch, Trunk
from hakaru.report.lab_drawing import svg
from hakaru.units import format_rate, format_size
from hakaru.wording import say

HOSTS_DRAWN_MAX = 8
_MARGIN, _GAP = 16, 18
_NODE_WIDTH, _SWITCH_WIDTH, _LINK_WIDTH = 168, 164, 190
_NODE_PADDING, _ROW, _ADDRESS_ROW = 30, 38, 15
# With VLANs, a link has one more row below its line.
_VLAN_ROW = 13
_SWITCH_HEIGHT_MIN = 84


@dataclass
class _Branch:
    """A switch with its nodes and child switches."""

    switch: Switch
    column: int
    trunk: Trunk | None
    nodes: list[str] = field(default_factory=list)
    branches: list[_Branch] = field(default_factory=list)
    top: float = 0.0
    height: float = 0.0

    def all(self) -> Iterator[_Branch]:
        """Yield this branch and all its descendants."""
        yield self
        for branch in self.branches:
            yield from branch.all()


def draw_linked(plan: LabPlan, language: str) -> str:
    """The lab as an `<svg>` element, in one language."""
    root_name = _switch_of(plan, plan.host_names[0])
    root = _branch(plan, root_name, 0, None, None)
    root_hosts = [host for host in plan.host_names if _switch_of(plan, host) == root_name]
    drawn = root_hosts if len(root_hosts) <= HOSTS_DRAWN_MAX else root_hosts[: HOSTS_DRAWN_MAX - 1]
    hidden = root_hosts[len(drawn) :]
    left_heights = [*(_node_height(plan, host) for host in drawn), *([_more_height(plan)] if hidden else [])]
    left_height = sum(left_heights) + _GAP * (len(left_heights) - 1)
    for branch in root.all():
        nodes_of_switch = [
            node.name
            for node in plan.nodes
            if node.kind != "switch" and _switch_of(plan, node.name) == branch.switch.name
        ]
        branch.nodes = [name for name in nodes_of_switch if name not in root_hosts]
    _measure(plan, root)
    root.height = max(root.height, left_height)
    _place(plan, root, _MARGIN)
    right_x = _column_x(max(branch.column for branch in root.all())) + _SWITCH_WIDTH + _LINK_WIDTH
    places = _node_places(plan, root, right_x)
    y = root.top + (root.height - left_height) / 2
    for host, height in zip(drawn, left_heights, strict=False):
        places[host] = (_MARGIN, y)
        y += height + _GAP
    parts = [part for branch in root.all() for part in _switch(plan, branch, language)]
    for name, place in places.items():
        parts += _node(plan, name, *place, {branch.switch.name: branch for branch in root.all()}, language)
    if hidden:
        parts += _more_hosts(hidden, y, _more_height(plan), language)
    width = right_x + _NODE_WIDTH + _MARGIN
    switches = sum(not switch.is_nic for switch in plan.switches)
    counts = {"hosts": len(plan.host_names), "switches": switches, "arrays": len(plan.array_names)}
    title = say(language, "drawing.linked", counts)
    return svg.picture(width, root.height + 2 * _MARGIN, title, parts)


def _branch(plan: LabPlan, name: str, column: int, trunk: Trunk | None, parent: str | None) -> _Branch:
    branch = _Branch(next(switch for switch in plan.switches if switch.name == name), column, trunk)
    nics = {switch.name for switch in plan.switches if switch.is_nic}
    for child_trunk in plan.trunks:
        if name in child_trunk.ends and not nics & {*child_trunk.ends}:
            child = child_trunk.b if name == child_trunk.a else child_trunk.a
            if child != parent:
                branch.branches.append(_branch(plan, child, column + 1, child_trunk, name))
    return branch


def _switch_of(plan: LabPlan, node: str) -> str:
    """The switch of a node's first link."""
    return plan.topology.cables(node)[0].switch


def _node_height(plan: LabPlan, node: str) -> float:
    return _NODE_PADDING + sum(_row(plan, cable) for cable in plan.topology.cables(node))


def _row(plan: LabPlan, cable: Cable) -> float:
    """Height of a link with the addresses on it."""
    return max(_ROW + (_VLAN_ROW if plan.vlans else 0), 8 + _ADDRESS_ROW * len(_addresses(plan, cable)))


def _addresses(plan: LabPlan, cable: Cable) -> list[str]:
    """Rows in the box of a node: its own addresses on a link, and the guests behind it."""
    rows = [f"{link.interface} {link.address}" for link in cable.links]
    bridge = cable.links[0].switch
    guests = [link for link in plan.links if link.switch == bridge and link.node in plan.guest_names]
    if not guests:
        return rows
    drawn = guests if len(guests) <= HOSTS_DRAWN_MAX else guests[: HOSTS_DRAWN_MAX - 1]
    rows += [f"{link.node} {link.address}" for link in drawn]
    rows += ["…"] if len(drawn) < len(guests) else []
    rate = guests[0].rate_bits_per_s
    return [*rows, f"NIC {format_rate(rate)}"] if rate else rows


def _more_height(plan: LabPlan) -> float:
    return _NODE_PADDING + _ROW + (_VLAN_ROW if plan.vlans else 0)


def _measure(plan: LabPlan, branch: _Branch) -> None:
    for child in branch.branches:
        _measure(plan, child)
    heights = [_node_height(plan, node) for node in branch.nodes] + [child.height for child in branch.branches]
    branch.height = max(_SWITCH_HEIGHT_MIN, sum(heights) + _GAP * max(0, len(heights) - 1))


def _place(plan: LabPlan, branch: _Branch, top: float) -> None:
    branch.top = top
    y = top + sum(_node_height(plan, node) + _GAP for node in branch.nodes)
    for child in branch.branches:
        _place(plan, child, y)
        y += child.height + _GAP


def _column_x(column: int) -> float:
    return _MARGIN + _NODE_WIDTH + _LINK_WIDTH + column * (_SWITCH_WIDTH + _LINK_WIDTH)


def _node_places(plan: LabPlan, root: _Branch, x: float) -> dict[str, tuple[float, float]]:
    """Upper left corners of the nodes on the right."""
    places = {}
    for branch in root.all():
        y = branch.top
        # Centre the nodes beside a taller switch, unless child switches follow below.
        if not branch.branches:
            used = sum(_node_height(plan, node) + _GAP for node in branch.nodes) - _GAP
            y += max(0.0, (branch.height - used) / 2)
        for node in branch.nodes:
            places[node] = (x, y)
            y += _node_height(plan, node) + _GAP
    return places


def _switch(plan: LabPlan, branch: _Branch, language: str) -> Iterator[str]:
    x, middle = _column_x(branch.column), branch.top + branch.height / 2
    yield svg.box(x, branch.top, _SWITCH_WIDTH, branch.height, "lab-switch")
    details = [say(language, f"lab.forwarding.{branch.switch.forwarding}")]
    if branch.switch.shared_bytes is not None:
        details.append(say(language, "drawing.shared", {"size": format_size(branch.switch.shared_bytes)}))
    if branch.switch.interfaces:
        details.append(_vlans(language, "routes", [interface.vlan for interface in branch.switch.interfaces]))
    if branch.column == 0:
        details.append(f"MTU {plan.links[0].mtu}")
    at = middle - 8 * len(details) + 4
    yield svg.text(x + _SWITCH_WIDTH / 2, at, "lab-name", branch.switch.name)
    for words in details:
        at += 16
        yield svg.text(x + _SWITCH_WIDTH / 2, at, "lab-detail", words)
    if branch.trunk is not None:
        yield svg.line(x - _LINK_WIDTH, x, middle)
        yield from _label(branch.trunk, x - _LINK_WIDTH / 2, middle, language)


def _node(plan: LabPlan, name: str, x: float, top: float, branches: dict[str, _Branch], language: str) -> Iterator[str]:
    kind = next(node.kind for node in plan.nodes if node.name == name)
    yield svg.box(x, top, _NODE_WIDTH, _node_height(plan, name), f"lab-{kind}")
    yield svg.text(x + _NODE_WIDTH / 2, top + 20, "lab-name", name)
    at = top + _NODE_PADDING
    for row, cable in enumerate(plan.topology.cables(name)):
        y = at + _ROW / 2 - 6
        at += _row(plan, cable)
        for number, words in enumerate(_addresses(plan, cable)):
            below = y + 4 + _ADDRESS_ROW * number
            yield svg.text(x + _NODE_WIDTH / 2, below, "lab-address", words)
        branch = branches[cable.switch]
        left = x < _column_x(0)
        near = x + _NODE_WIDTH if left else x
        far = _column_x(branch.column) + (0 if left else _SWITCH_WIDTH)
        if branch.top <= y <= branch.top + branch.height:
            yield svg.line(near, far, y)
        else:
            middle = near + (1 if left else -1) * (_LINK_WIDTH - 12 * row) / 2
            yield svg.bend(near, y, middle, far, branch.top + branch.height / 2 + 12 * row)
        yield from _label(cable.line, near + (1 if left else -1) * _LINK_WIDTH / 2, y, language)


def _label(link: Link | Trunk, x: float, y: float, language: str) -> Iterator[str]:
    rate = say(language, "lab.unlimited") if link.rate_bits_per_s is None else format_rate(link.rate_bits_per_s)
    yield svg.text(x, y - 6, "lab-rate", f"{link.name}: {rate}")
    for row, words in enumerate(_details(link, language)):
        yield svg.text(x, y + 14 + 13 * row, "lab-detail", words)


def _details(link: Link | Trunk, language: str) -> Iterator[str]:
    """Rows about a link below its line: its VLANs, and at most two more."""
    if isinstance(link, Trunk) and link.vlans:
        yield _vlans(language, "trunk", link.vlans)
    elif link.vlan is not None:
        yield _vlans(language, "access", [link.vlan])
    first = [say(language, "drawing.queue", {"size": format_size(link.queue_bytes)})]
    if isinstance(link, Link) and link.send_rate_bits_per_s is not None:
        first.append(say(language, "drawing.sends", {"rate": format_rate(link.send_rate_bits_per_s)}))
    yield ", ".join(first)
    second = [*_line(link.line, language), *_discipline(link.discipline, language), *(["pause"] if link.pause else [])]
    if second:
        yield ", ".join(second)


def _vlans(language: str, role: str, vlans: Sequence[int]) -> str:
    """The VLANs of a port: `trunk VLAN 10, 20`. With more than four, the first two and the last."""
    ids = [str(vlan) for vlan in sorted(vlans)]
    shown = ", ".join(ids) if len(ids) <= 4 else f"{ids[0]}, {ids[1]} … {ids[-1]}"
    return say(language, f"drawing.{role}", {"ids": shown})


def _line(line: Line, language: str) -> Iterator[str]:
    if line.delay_us:
        yield say(language, "drawing.delay", {"ms": f"{line.delay_us / 1000:g}"})
    if not isinstance(line.jitter, contract.NoJitter):
        yield say(language, "drawing.jitter")
    if not isinstance(line.loss, contract.NoLoss):
        yield say(language, "drawing.loss", {"percent": f"{line.loss.percent:g}"})


def _discipline(discipline: Discipline, language: str) -> Iterator[str]:
    if isinstance(discipline, contract.Red):
        yield "RED"
    elif isinstance(discipline, contract.Mark):
        yield say(language, "drawing.marks", {"size": format_size(discipline.above_bytes)})


def _more_hosts(hidden: list[str], top: float, height: float, language: str) -> Iterator[str]:
    y = top + height / 2
    yield svg.box(_MARGIN, top, _NODE_WIDTH, height, "lab-host", more=True)
    yield svg.text(_MARGIN + _NODE_WIDTH / 2, y - 4, "lab-name", say(language, "drawing.more", {"count": len(hidden)}))
    yield svg.text(_MARGIN + _NODE_WIDTH / 2, y + 14, "lab-address", f"{hidden[0]} … {hidden[-1]}")
    yield svg.line(_MARGIN + _NODE_WIDTH, _column_x(0), y, more=True)
