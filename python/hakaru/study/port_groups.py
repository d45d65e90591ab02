"""`port_groups:` of an array: target port groups (ALUA). Pure.

    port_groups:
      - {portals: [0, 1], preferred: true}
      - {portals: [2, 3]}

Portals of a group share an access state. Each portal that is in no group of the list is a group of
its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from hakaru.study.part import Part

GROUPS_MAX = 16


class PortGroup(Part):
    """Portals that share an access state."""

    portals: list[Annotated[int, Field(ge=0, le=255)]] = Field(
        min_length=1, max_length=GROUPS_MAX, description="numbers of portals, from 0; each is in one group at most"
    )
    preferred: bool = Field(
        default=False, description="the preferred group (PREF), of which there is one at most in an array"
    )


def problems(groups: Sequence[PortGroup], portals: int) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Problems of the groups of an array with so many portals: place below `port_groups`, message
    and hint.
    """
    group_of: dict[int, int] = {}
    for i, group in enumerate(groups):
        for j, portal in enumerate(group.portals):
            place = (i, "portals", j)
            if portal >= portals:
                yield place, f"no portal {portal}", f"portals are numbered from 0 to {portals - 1}"
            elif portal in group_of:
                message = f"portal {portal} is in group {group_of[portal] + 1} already"
                yield place, message, "write each portal once"
            group_of.setdefault(portal, i)
    preferred = [i for i, group in enumerate(groups) if group.preferred]
    for i in preferred[1:]:
        yield (i, "preferred"), f"group {preferred[0] + 1} is the preferred one already", "prefer one group at most"


def group_of(groups: Sequence[PortGroup], portal: int) -> list[int]:
    """Numbers of the portals that share the access state of a portal, itself included, in order."""
    return next((sorted(group.portals) for group in groups if portal in group.portals), [portal])
