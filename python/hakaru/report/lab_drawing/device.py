"""Drawing of a device under test as SVG: the generator on the left, the device on the right, and
the cables between their ports. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.lab.plan import Device, LabPlan
from hakaru.report.lab_drawing import svg
from hakaru.wording import say

_WIDTH, _MARGIN = 840, 16
_NODE_WIDTH, _PORT_PITCH, _HEAD = 200, 40, 46
_LOOP_ROOM = 34


def draw_device(plan: LabPlan, device: Device, language: str) -> str:
    """The lab as an `<svg>` element, in one language."""
    height = _HEAD + len(device.ports) * _PORT_PITCH
    left, right = _MARGIN, _WIDTH - _MARGIN - _NODE_WIDTH
    parts = [
        svg.box(left, _MARGIN, _NODE_WIDTH, height, "lab-host"),
        svg.text(left + _NODE_WIDTH / 2, _MARGIN + 22, "lab-name", device.tester),
        svg.box(right, _MARGIN, _NODE_WIDTH, height, "lab-switch"),
        svg.text(right + _NODE_WIDTH / 2, _MARGIN + 22, "lab-name", device.name),
        svg.text(right + _NODE_WIDTH / 2, _MARGIN + 38, "lab-detail", say(language, f"drawing.{device.forwards}")),
        *_cables(device, plan.links[0].mtu, left + _NODE_WIDTH, right, language),
        *_loop(left, _MARGIN + height, language),
    ]
    return svg.picture(_WIDTH, height + 2 * _MARGIN + _LOOP_ROOM, say(language, "drawing.device"), parts)


def _cables(device: Device, mtu: int, start: float, end: float, language: str) -> Iterator[str]:
    for place, port in enumerate(device.ports):
        y = _MARGIN + _HEAD + (place + 0.5) * _PORT_PITCH
        yield svg.line(start, end, y)
        yield svg.text((start + end) / 2, y - 6, "lab-rate", f"{say(language, 'lab.unlimited')}, MTU {mtu}")
        yield svg.text(
            start - _NODE_WIDTH / 2, y + 4, "lab-address", f"{port.name} {port.address}/{port.prefix_length}"
        )
        shown = f"{port.name} {port.router_address}" if device.forwards == "routing" else port.name
        yield svg.text(end + _NODE_WIDTH / 2, y + 4, "lab-address", shown)


def _loop(x: float, y: float, language: str) -> Iterator[str]:
    """The cable that connects two ports of the generator."""
    first, second = x + _NODE_WIDTH * 0.3, x + _NODE_WIDTH * 0.7
    yield svg.vertical(first, y, y + _LOOP_ROOM / 2)
    yield svg.line(first, second, y + _LOOP_ROOM / 2)
    yield svg.vertical(second, y, y + _LOOP_ROOM / 2)
    yield svg.text(x + _NODE_WIDTH + 120, y + _LOOP_ROOM / 2 + 4, "lab-detail", say(language, "drawing.loop"))
