"""The course of a study: the time that it has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.run import course
from hakaru.run.course import StudyCourse
from hakaru.run.options import Options
from hakaru.run.plan import REPORT_S
from hakaru.run.preparation import prepare
from hakaru.study import load


def test_points_that_this_machine_cannot_measure_take_no_time(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, runs = Options(), tmp_path / "runs"
    prepared = prepare(load(str(study)), options, folder=runs, site=None, resume=None, command=["hakaru"])
    points = prepared.expanded.points
    all_s = StudyCourse(prepared).left_s()
    monkeypatch.setattr(course, "refusals", lambda expanded: dict.fromkeys([points[0].id]))
    others_s = StudyCourse(prepared).left_s()
    assert REPORT_S < others_s < all_s
    monkeypatch.setattr(course, "refusals", lambda expanded: dict.fromkeys(point.id for point in points))
    assert StudyCourse(prepared).left_s() == REPORT_S
