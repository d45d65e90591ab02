"""The course of a study: the time that it has left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hakaru.run.course import _Remaining
from hakaru.run.options import Options
from hakaru.run.plan import REPORT_S
from hakaru.run.preparation import Prepared, prepare
from hakaru.study import Repetition, load


@pytest.fixture
def prepared(study: Path, tmp_path: Path) -> Prepared:
    return prepare(load(str(study)), Options(), folder=tmp_path / "runs", site=None, resume=None, command=["hakaru"])


def turns_of(prepared: Prepared) -> list[Repetition]:
    """Return the first repetition of each point."""
    return [turn for turn in prepared.expanded.repetitions if turn.repetition == 1]


def test_points_that_this_machine_cannot_measure_take_no_time(prepared: Prepared) -> None:
    turns = turns_of(prepared)
    names = frozenset(turn.point.id for turn in turns)
    assert not prepared.impossible and len(names) > 1
    all_s = _Remaining(prepared).left_s(turns)
    others_s = _Remaining(replace(prepared, impossible=frozenset([turns[0].point.id]))).left_s(turns)
    assert REPORT_S < others_s < all_s
    assert _Remaining(replace(prepared, impossible=names)).left_s(turns) == REPORT_S


def test_time_of_a_point_that_cannot_be_measured_says_nothing_about_the_others(prepared: Prepared) -> None:
    first, *others = turns_of(prepared)
    remaining = _Remaining(replace(prepared, impossible=frozenset([first.point.id])))
    before_s = remaining.left_s(others)
    remaining.took(first, 100.0)
    assert remaining.left_s(others) == before_s
    remaining.took(others[0], 1000.0)
    assert remaining.left_s(others) > before_s
