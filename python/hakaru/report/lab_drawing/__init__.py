"""The drawing of a lab: nodes, links with rates and addresses, as an `<svg>` element. Pure.

draw(plan) -> str
"""

from hakaru.report.lab_drawing.star import draw

__all__ = ["draw"]
