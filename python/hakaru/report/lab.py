"""The lab drawn as an SVG for the report, where `hakaru.lab` can draw it."""

from __future__ import annotations

from typing import Any


def draw_lab(lab: dict[str, Any], language: str) -> str:
    """SVG, or an empty string; the table of links is shown either way."""
    return ""
