"""Pools of a study: refusals that name the place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hakaru.study.consistency import problems
from hakaru.study.model import Study
from pydantic import ValidationError

from tests.study.shipped import shipped

WRITTEN = shipped("vm-sweep").study.written
GIB = "1 GiB"


def study(pools: list[dict[str, Any]], *lus: dict[str, Any]) -> Study:
    """The study vm-sweep with one small image on thin LUs."""
    written: dict[str, Any] = copy.deepcopy(dict(WRITTEN))
    written["array"] |= {"pools": pools, "lus": [{"lun": i, "size": "512 GiB"} | lu for i, lu in enumerate(lus)]}
    return Study.model_validate(written)


def pool(name: str = "a", *groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "groups": list(groups) or [{"size": GIB, "placement": {"group": 0}}], **more}


def test_thin_lus_need_no_placement() -> None:
    assert problems(study([pool()], {"pool": "a"}, {"pool": "a"})) == []


@pytest.mark.parametrize(
    ("pools", "lu", "message"),
    [
        ([pool()], {"pool": "b"}, "LU 0 is in pool 'b'"),
        ([], {"pool": "a"}, "LU 0 is in pool 'a'"),
        ([pool()], {"pool": "a", "placement": {"group": 0}}, "has no `placement`"),
        ([pool()], {"pool": "a", "fill": {}}, "has no `placement` and no `fill`"),
        ([pool(), pool()], {"pool": "a"}, "each pool needs a name of its own"),
        ([pool(page="96 KiB")], {"pool": "a"}, "has to be a power of two"),
        ([pool("a", {"size": "1 MiB"}, page="1 MiB")], {"pool": "a"}, "at least two pages"),
    ],
)
def test_impossible_pool_is_refused(pools: list[dict[str, Any]], lu: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        study(pools, lu, {"placement": {"group": 1}})


def test_group_of_a_pool_has_a_place_on_the_modelled_drives() -> None:
    ((place, message, hint),) = problems(study([pool("a", {"size": GIB})], {"pool": "a"}, {"pool": "a"}))
    assert place == ("array", "pools", 0, "groups", 0)
    assert message == "placement is missing" and "RAID group of the model" in hint


def test_pool_may_not_overlap_with_an_lu() -> None:
    ((place, message, hint),) = problems(study([pool()], {"pool": "a"}, {"placement": {"group": 0}}))
    assert place == ("array", "pools", 0, "groups", 0, "placement")
    assert message == "overlaps with LU 1 on group 0" and "512 GiB" in hint
