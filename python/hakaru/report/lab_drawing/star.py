"""Drawing of a star lab as SVG: nodes, and links with rates and addresses. Pure.

    draw(plan) -> str        an `<svg>` element of class `lab` that can be embedded in a page

Hosts are on the left, the switch is in the middle, the array on the right. Each link is a line,
labelled with its rate at the line and its address at the node. With more than eight hosts, the
first seven are drawn and the others are counted. `linked` draws labs that are described link by
link, and `device` those with a device under test.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.lab.plan import LabPlan, Link
from hakaru.report.lab_drawing import svg
from hakaru.report.lab_drawing.device import draw_device
from hakaru.report.lab_drawing.linked import draw_linked
from hakaru.units import format_rate
from hakaru.wording import say

_HOSTS_DRAWN_MAX = 8

_WIDTH = 840
_MARGIN = 16
_NODE_WIDTH = 176
_PATH_PITCH = 30
_NODE_PADDING = 34
_NODE_GAP = 18
_SWITCH_X, _SWITCH_WIDTH = 372, 96


def draw(plan: LabPlan, language: str = "en") -> str:
    """The lab as an `<svg>` element, in one language."""
    if plan.device is not None:
        return draw_device(plan, plan.device, language)
    if not plan.is_star:
        return draw_linked(plan, language)
    hosts = list(plan.host_names)
    drawn = hosts if len(hosts) <= _HOSTS_DRAWN_MAX else hosts[: _HOSTS_DRAWN_MAX - 1]
    paths = len(plan.addresses(plan.array_name))
    node_height = _NODE_PADDING + paths * _PATH_PITCH
    rows = len(drawn) + (len(drawn) < len(hosts))
    height = 2 * _MARGIN + rows * (node_height + _NODE_GAP) - _NODE_GAP
    middle = height / 2
    parts = [
        *_switch(plan, height),
        *_array(plan, middle, node_height, language),
    ]
    for row, host in enumerate(drawn):
        parts += _host(plan, host, _MARGIN + row * (node_height + _NODE_GAP), node_height, language)
    if len(drawn) < len(hosts):
        parts += _more_hosts(hosts, len(drawn), _MARGIN + len(drawn) * (node_height + _NODE_GAP), node_height, language)
    title = say(language, "drawing.star", {"hosts": len(hosts), "paths": paths})
    return svg.picture(_WIDTH, height, title, parts)


def _rate(link: Link, language: str) -> str:
    return say(language, "lab.unlimited") if link.rate_bits_per_s is None else format_rate(link.rate_bits_per_s)


def _node(
    plan: LabPlan, name: str, css: str, x: float, top: float, height: float, wire: tuple[float, float], language: str
) -> Iterator[str]:
    """A node: a box with its name, and for each path the address, the line to the switch and its
    rate. `wire` are the ends of the lines (x).
    """
    yield svg.box(x, top, _NODE_WIDTH, height, css)
    yield svg.text(x + _NODE_WIDTH / 2, top + 22, "lab-name", name)
    for link in plan.links_at(name):
        y = top + _NODE_PADDING + (link.path + 0.5) * _PATH_PITCH
        yield svg.text(
            x + _NODE_WIDTH / 2, y + 4, "lab-address", f"{link.interface} {link.address}/{link.prefix_length}"
        )
        yield svg.line(*wire, y)
        yield svg.text(sum(wire) / 2, y - 6, "lab-rate", _rate(link, language))


def _host(plan: LabPlan, host: str, top: float, height: float, language: str) -> Iterator[str]:
    return _node(plan, host, "lab-host", _MARGIN, top, height, (_MARGIN + _NODE_WIDTH, _SWITCH_X), language)


def _array(plan: LabPlan, middle: float, height: float, language: str) -> Iterator[str]:
    x = _WIDTH - _MARGIN - _NODE_WIDTH
    return _node(
        plan, plan.array_name, "lab-array", x, middle - height / 2, height, (_SWITCH_X + _SWITCH_WIDTH, x), language
    )


def _switch(plan: LabPlan, height: float) -> Iterator[str]:
    name = next(node.name for node in plan.nodes if node.kind == "switch")
    mtu = plan.links[0].mtu
    middle, x = height / 2, _SWITCH_X + _SWITCH_WIDTH / 2
    yield svg.box(_SWITCH_X, _MARGIN, _SWITCH_WIDTH, height - 2 * _MARGIN, "lab-switch")
    yield svg.text(x, middle - 2, "lab-name", name)
    yield svg.text(x, middle + 16, "lab-address", f"MTU {mtu}")


def _more_hosts(hosts: list[str], drawn: int, top: float, height: float, language: str) -> Iterator[str]:
    y = top + height / 2
    yield svg.box(_MARGIN, top, _NODE_WIDTH, height, "lab-host", more=True)
    yield svg.text(
        _MARGIN + _NODE_WIDTH / 2, y - 4, "lab-name", say(language, "drawing.more", {"count": len(hosts) - drawn})
    )
    yield svg.text(_MARGIN + _NODE_WIDTH / 2, y + 14, "lab-address", f"{hosts[drawn]} … {hosts[-1]}")
    yield svg.line(_MARGIN + _NODE_WIDTH, _SWITCH_X, y, more=True)
