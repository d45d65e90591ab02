"""Port groups of an array of a study: refusals that name the place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hakaru.run.configure import port_groups_config
from hakaru.study.consistency import problems
from hakaru.study.model import Study
from hakaru.study.port_groups import group_of

from tests.study.shipped import shipped

WRITTEN = shipped("path-failover").study.written


def study(*groups: dict[str, Any]) -> Study:
    """The study path-failover, whose lab has four paths, with these groups."""
    written: dict[str, Any] = copy.deepcopy(dict(WRITTEN))
    written["array"] |= {"port_groups": list(groups)}
    return Study.model_validate(written)


def test_groups_are_configured_in_their_order() -> None:
    grouped = study({"portals": [3, 1], "preferred": True}, {"portals": [0]})
    assert problems(grouped) == []
    groups = grouped.storage["array"].port_groups
    assert [group.model_dump() for group in port_groups_config(groups)] == [
        {"portals": [3, 1], "preferred": True},
        {"portals": [0], "preferred": False},
    ]
    assert [group_of(groups, portal) for portal in range(4)] == [[0], [1, 3], [2], [1, 3]]


@pytest.mark.parametrize(
    ("groups", "place", "message", "hint"),
    [
        ([{"portals": [0, 4]}], (0, "portals", 1), "no portal 4", "from 0 to 3"),
        ([{"portals": [0]}, {"portals": [1, 0]}], (1, "portals", 1), "portal 0 is in group 1 already", "once"),
        ([{"portals": [2, 2]}], (0, "portals", 1), "portal 2 is in group 1 already", "once"),
        (
            [{"portals": [0], "preferred": True}, {"portals": [1], "preferred": True}],
            (1, "preferred"),
            "group 1 is the preferred one already",
            "one group at most",
        ),
    ],
)
def test_impossible_group_is_refused(
    groups: list[dict[str, Any]], place: tuple[str | int, ...], message: str, hint: str
) -> None:
    ((found, text, remedy),) = problems(study(*groups))
    assert (found, text) == (("array", "port_groups", *place), message) and hint in remedy
