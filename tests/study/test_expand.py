"""Expansion of a study: its points, repetitions and order."""

from __future__ import annotations

from collections import Counter

from hakaru.kinds.vms.load import load_at
from hakaru.study import Study, expand
from hakaru.study.model import Factors, Measure
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.study.shipped import shipped

BASE = shipped("vm-sweep").study
PATTERNS = st.lists(st.sampled_from(sorted(load_at(BASE).patterns)), min_size=1, max_size=2, unique=True)
LEVELS = st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True)


@st.composite
def studies(draw: st.DrawFn) -> Study:
    depths = draw(st.none() | st.lists(st.integers(1, 64), min_size=1, max_size=3, unique=True))
    block = Factors.model_validate(
        {"pattern": draw(PATTERNS), "vms": draw(LEVELS)} | ({"queue_depth": depths} if depths else {})
    )
    measure = Measure.model_validate({"warmup": "0 s", "time": "1 s", "repetitions": draw(st.integers(1, 5))})
    return BASE.model_copy(update={"factors": [block], "measure": measure})


@settings(deadline=None)
@given(studies(), st.integers(0, 2**63 - 1))
def test_expansion_has_every_repetition_of_every_point_once(study: Study, seed: int) -> None:
    expanded = expand(study, seed=seed)
    (block,) = study.factors
    levels = block.levels()
    assert len(expanded.points) == len(levels["pattern"]) * len(levels["vms"]) * len(levels.get("queue_depth", [0]))
    assert len({p.id for p in expanded.points}) == len(expanded.points)
    planned = Counter((p.id, r) for p in expanded.points for r in range(1, study.measure.repetitions + 1))
    assert Counter((r.point.id, r.repetition) for r in expanded.repetitions) == planned
    assert [r.order for r in expanded.repetitions] == list(range(1, len(expanded.repetitions) + 1))


@settings(deadline=None)
@given(studies(), st.integers(0, 2**63 - 1))
def test_same_seed_gives_same_order(study: Study, seed: int) -> None:
    assert expand(study, seed=seed) == expand(study, seed=seed)


@settings(deadline=None)
@given(studies(), st.data())
def test_option_only_keeps_the_ids_of_points(study: Study, data: st.DataObject) -> None:
    every = expand(study)
    level = data.draw(st.sampled_from(study.factors[0].levels()["vms"]))
    selected = expand(study, only={"vms": {str(level)}})
    assert list(selected.points) == [p for p in every.points if p.factors["vms"] == level]


@settings(deadline=None)
@given(studies(), st.integers(0, 2**63 - 1))
def test_each_round_measures_every_point_once(study: Study, seed: int) -> None:
    expanded = expand(study, seed=seed)
    places, count = expanded.repetitions, len(expanded.points)
    for r in range(1, expanded.measure.repetitions + 1):
        one_round = places[(r - 1) * count : r * count]
        assert {p.repetition for p in one_round} == {r}
        assert {p.point.id for p in one_round} == {p.id for p in expanded.points}


def test_rounds_have_orders_of_their_own_which_depend_on_the_seed() -> None:
    def rounds(seed: int) -> list[list[str]]:
        ids = [r.point.id for r in expand(BASE, seed=seed).repetitions]
        return [ids[at : at + len(ids) // 3] for at in range(0, len(ids), len(ids) // 3)]

    orders = [*rounds(1), *rounds(2), [p.id for p in expand(BASE).points]]
    assert len({tuple(order) for order in orders}) == 7
    assert expand(BASE, seed=1).points == expand(BASE, seed=2).points


def test_full_form_of_vm_sweep_matches_the_publication() -> None:
    expanded = expand(BASE)
    published = {"random-32k": [1, 4, 6, 7, 8, 10, 12, 14, 16], "sequential-1m": [1, 4, 6, 7, 9, 12, 14, 16]}
    for pattern, vms in published.items():
        points = [p.factors for p in expanded.points if p.factors["pattern"] == pattern]
        assert [factors["vms"] for factors in points if "region" not in factors] == vms
        assert [factors["paths"] for factors in points if "region" in factors] == [1, 2, 4]
    assert expanded.measure.time == 60_000_000_000
    assert expanded.measure.repetitions == 3


def test_quick_form_replaces_points_and_times() -> None:
    expanded = expand(BASE, quick=True)
    assert len(expanded.repetitions) <= 12
    assert {p.factors["pattern"] for p in expanded.points} == {"random-32k", "sequential-1m"}


def test_described_study_holds_the_published_rows_and_the_order() -> None:
    loaded = shipped("vm-sweep")
    expanded = expand(loaded.study, quick=True)
    described = expanded.describe(loaded.tables)
    assert described["reference"][0]["rows"][3]["iops"] == 3280
    assert [f"{o['point']}-{o['repetition']}" for o in described["order"]] == [r.name for r in expanded.repetitions]
