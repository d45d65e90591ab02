"""Groups of VMs with roles: their VMs, hosts, LUs and images, and refusals that name the place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.kinds.vms import study as vms_study
from hakaru.kinds.vms.load import load_at
from hakaru.kinds.vms.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.study.consistency import problems
from hakaru.study.expand import Expanded, expand
from hakaru.study.model import Study
from hakaru.study.variables import Problem

from tests.study.shipped import shipped

IQN = "iqn.2011-10.example.hakaru"


def point(changes: dict[str, Any] | None = None) -> Expanded:
    """One point beside the aggressors, with changes of the study."""
    written = dict(shipped("noisy-neighbour").study.written)
    written["variables"] = {"neighbour": {"beside": changes or {}}}
    written["factors"] = [{"neighbour": ["beside"]}]
    return expand(Study.model_validate(written | {"quick": None, "expect": []}))


def configured(changes: dict[str, Any] | None = None) -> dict[str, contract.InitiatorConfig]:
    expanded = point(changes)
    loads = RUN.loads(expanded, expanded.repetitions[0], plan_lab(expanded.at(expanded.points[0]).lab))
    return {node: config for node, config in loads.items() if isinstance(config, contract.InitiatorConfig)}


def problems_of(changes: dict[str, Any]) -> list[Problem]:
    changed = apply(shipped("noisy-neighbour").study.written, changes) | {"variables": {}, "expect": [], "quick": None}
    return list(vms_study.STUDY.point_problems(Study.model_validate(changed)))


def apply(written: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Return `written` with values at dotted places."""
    result: dict[str, Any] = copy.deepcopy(dict(written))
    for place, value in changes.items():
        *path, last = place.split(".")
        part = result
        for name in path:
            part = part[name]
        part[last] = value
    return result


def places(config: contract.InitiatorConfig) -> list[tuple[str, int, int]]:
    """Name, LUN and number of the image of each VM."""
    return [
        (vm.name, vm.destination.lun, vm.region.offset_bytes >> 34)
        for vm in config.vms
        if isinstance(vm.destination, contract.IscsiDestination)
    ]


def test_groups_run_on_their_hosts_with_their_own_patterns_and_lus() -> None:
    loads = configured()
    assert places(loads["victims"]) == [("victim-1", 0, 0)]
    assert places(loads["aggressors"]) == [(f"aggressor-{i + 1}", 1, i) for i in range(4)]
    victim, aggressor = loads["victims"].vms[0], loads["aggressors"].vms[0]
    assert (victim.pattern.sizes[0].bytes, aggressor.pattern.sizes[0].bytes) == (8192, 16384)
    assert [config.groups for config in loads.values()] == [["victim", "aggressor"]] * 2
    assert (victim.group, aggressor.group) == (0, 1)
    assert isinstance(aggressor.destination, contract.IscsiDestination)
    assert aggressor.destination.initiator_name == "iqn.2011-10.example.hakaru:aggressor-1"


def test_groups_with_the_same_columns_share_their_images_without_overlap() -> None:
    vms = {"load.groups.victim.vms": 2, "load.groups.aggressor.vms": 2}
    loads = configured({"load.groups.aggressor.columns": [[0]], **vms})
    of_all = places(loads["victims"]) + places(loads["aggressors"])
    assert [(lun, image) for _, lun, image in of_all] == [(0, image) for image in range(4)]


def test_group_may_use_a_part_of_its_images_of_its_own() -> None:
    loads = configured({"load.region": "8 GiB", "load.groups.aggressor.region": "4 GiB"})
    lengths = {vm.name: vm.region.length_bytes for config in loads.values() for vm in config.vms}
    assert lengths == {"victim-1": 8 << 30} | {f"aggressor-{i}": 4 << 30 for i in (1, 2, 3, 4)}
    # Each image keeps its place.
    assert [image for _, _, image in places(loads["aggressors"])] == [0, 1, 2, 3]


def test_victims_keep_their_place_and_seed_without_aggressors() -> None:
    alone, beside = configured({"load.groups.aggressor.vms": 0}), configured()
    assert list(alone) == ["victims"]
    assert alone["victims"].vms == beside["victims"].vms


def test_vms_of_a_host_that_owns_sessions_are_counted_by_host_and_path() -> None:
    host = {"kind": "custom", "host": {"lu_commands": 32, "session_commands": 128}}
    expanded = point({"load.hypervisor": host})
    assert load_at(expanded.at(expanded.points[0])).sessions(2, 1) == 2


REFUSALS = [
    ({"load.pattern": "scan"}, ("load", "pattern"), "the load has groups", "leave `pattern` out"),
    ({"load.vms": 3}, ("load", "vms"), "the load has groups", "leave `vms` out"),
    ({"load.groups.victim.role": "aggressor"}, ("load", "groups"), "no group is a victim", "role: victim"),
    ({"load.groups.victim.pattern": "datbase"}, ("load", "groups", "victim", "pattern"), "no pattern", "'database'"),
    ({"load.groups.victim.hosts": ["victim"]}, ("load", "groups", "victim", "hosts", 0), "no host", "'victims'"),
    ({"load.groups.victim.region": "32 GiB"}, ("load", "groups", "victim", "region"), "at most the image", "a part"),
    ({"load.groups.victim.region": "8292 B"}, ("load", "groups", "victim", "region"), "not a multiple", ""),
    (
        {"load.groups.victim.region": "4 KiB"},
        ("load", "groups", "victim", "region"),
        "smaller than a request",
        "larger",
    ),
    ({"load.groups.victim.columns": [[9]]}, ("load", "groups", "victim", "columns", 0, 0), "no LU 9", "[0, 1, 2]"),
    (
        {"load.groups.victim.columns": [[0], [1]]},
        ("load", "groups", "aggressor", "columns"),
        "LU 1 is also",
        "the same",
    ),
    ({"load.groups.aggressor.vms": 9}, ("load", "groups"), "9 VMs with images of 16 GiB do not fit", "larger"),
    (
        {"load.groups.aggressor.vms": 0, "load.groups.victim.vms": 0},
        ("load", "groups"),
        "no group has a VM at this point",
        "`vms: 1` or more",
    ),
]


@pytest.mark.parametrize(("changes", "place", "message", "hint"), REFUSALS)
def test_impossible_groups_are_refused_at_their_place(
    changes: dict[str, Any], place: tuple[str | int, ...], message: str, hint: str
) -> None:
    found = problems_of(changes)
    assert [p[0] for p in found] == [place], found
    assert message in found[0][1] and hint in found[0][2], found


def caps(group: str, *numbers: int) -> list[dict[str, Any]]:
    """A cap for each of these initiators of a group."""
    return [{"name": f"c{i}", "initiator_name": f"{IQN}:{group}-{i}", "iops": 5} for i in numbers]


def shares(name: str) -> dict[str, Any]:
    return {"in_flight": 8, "classes": [{"name": "any", "share": 1}, {"name": "a", "initiator_name": name, "share": 1}]}


def whole(changes: dict[str, Any], levels: dict[str, dict[str, Any]], quick: dict[str, Any] | None = None) -> Study:
    """The study with other levels of its factor, and changes of what all of them share."""
    factors = {"variables": {"neighbour": levels}, "factors": [{"neighbour": list(levels)}]}
    written = apply(shipped("noisy-neighbour").study.written, changes) | factors
    return Study.model_validate(written | {"expect": [], "quick": quick})


def vms(count: int) -> dict[str, Any]:
    return {"load.groups.aggressor.vms": count}


Levels = dict[str, dict[str, Any]]
TWO_AND_FOUR: Levels = {"two": vms(2), "four": {}}


def test_caps_may_name_the_vms_of_any_point() -> None:
    assert problems(whole({"array.caps": caps("aggressor", 1, 2, 3, 4)}, TWO_AND_FOUR)) == []
    assert problems(whole({"array.shares": shares(f"{IQN}:aggressor-4")}, TWO_AND_FOUR)) == []
    assert problems(whole({"array.caps": caps("aggressor", 4)}, {"alone": vms(0), "beside": {}})) == []
    # The quick form has fewer VMs than the full one.
    quick = {"changes": vms(1)}
    assert problems(whole({"array.caps": caps("aggressor", 4)}, {"alone": {}, "beside": {}}, quick)) == []


UNKNOWN_INITIATORS: list[tuple[dict[str, Any], Levels, tuple[str | int, ...], str]] = [
    ({"array.caps": caps("aggressor", 1, 5)}, TWO_AND_FOUR, ("array", "caps", 1), "aggressor-5"),
    ({"array.caps": caps("agressor", 1)}, {"alone": vms(0), "beside": {}}, ("array", "caps", 0), "agressor-1"),
    ({"array.shares": shares(f"{IQN}:agressor-1")}, {"four": {}}, ("array", "shares", "classes", 1), "agressor-1"),
]


@pytest.mark.parametrize(("changes", "levels", "place", "name"), UNKNOWN_INITIATORS)
def test_initiator_that_no_point_has_is_refused_once(
    changes: dict[str, Any], levels: Levels, place: tuple[str | int, ...], name: str
) -> None:
    ((found, message, hint),) = problems(whole(changes, levels))
    assert (found, message) == ((*place, "initiator_name"), f"no initiator '{IQN}:{name}'")
    assert "aggressor-" in hint


def test_initiator_of_a_level_is_refused_at_that_level() -> None:
    levels = {"beside": {}, "capped": {"array.caps": caps("agressor", 1)}}
    ((place, message, hint),) = problems(whole({}, levels))
    assert place == ("variables", "neighbour", "capped", "array.caps")
    assert "no initiator" in message and "aggressor-1" in hint
