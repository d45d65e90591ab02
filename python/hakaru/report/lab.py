"""The lab of a run, drawn for the report from `lab.json`."""

from __future__ import annotations

import re
from typing import Any

from hakaru.lab.drawing import draw
from hakaru.lab.plan import LabPlan
from hakaru.report.fonts import FAMILY


def draw_lab(lab: dict[str, Any]) -> str:
    """An `<svg>` element; empty for a run on equipment that was not ours to build, where only the site is known."""
    try:
        plan = LabPlan.from_description(lab)
    except (KeyError, TypeError, ValueError):  # another version's lab, or none
        return ""
    if not plan.links or {node.kind for node in plan.nodes} != {"host", "switch", "array"}:
        return ""
    drawn = draw(plan)
    return re.sub(r'font-family="[^"]*"', f'font-family="{FAMILY}"', drawn)
