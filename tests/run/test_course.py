"""The course of a study: the time that it has left, and the failures that it survives."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hakaru.errors import GuestError, LostError, UnansweredError
from hakaru.run.course import UNANSWERED_MAX, StudyCourse, _Remaining
from hakaru.run.options import Options
from hakaru.run.outcome import Outcome
from hakaru.run.plan import REPORT_S
from hakaru.run.preparation import Prepared, prepare
from hakaru.run.progress import Watchers
from hakaru.run.site_file import Site, SiteLu
from hakaru.store import Histograms, RunWriter, Samples
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


LU = SiteLu(portal="192.0.2.1:3260", target_name="iqn.2026-01.example:any", lun=0)
SITE = Site(format=1, name="any", lus=[LU])
SILENCE = UnansweredError("a command was not answered within 30 s")


@dataclass
class Begun:
    """A course that has begun, and the names of its finished repetitions."""

    course: StudyCourse
    done: set[str]
    turn: Repetition

    def take(self, status: str) -> None:
        """Take the outcome of a repetition."""
        self.done.add(self.turn.name)
        outcome = Outcome({"status": status}, Samples(), Histograms(), {})
        self.course.take(self.turn, outcome, 1.0, Watchers([]))


def begin(prepared: Prepared, folder: Path) -> Begun:
    """Begin a course that has no result."""
    course, done = StudyCourse(prepared), set[str]()
    course.begin(RunWriter.create(folder, "any", dt.datetime.now(dt.UTC)), done, is_resumed=False)
    return Begun(course, done, turns_of(prepared)[0])


@pytest.fixture
def begun(prepared: Prepared, tmp_path: Path) -> Begun:
    return begin(prepared, tmp_path)


@pytest.fixture
def begun_on_site(prepared: Prepared, tmp_path: Path) -> Begun:
    return begin(replace(prepared, site=SITE), tmp_path)


def test_load_that_is_not_answered_marks_its_repetition(begun: Begun) -> None:
    begun.take("done")
    caveats = begun.course.survive(SILENCE)
    assert caveats is not None
    assert [caveat.name for caveat in caveats] == ["load_unanswered"]
    assert caveats[0].values == {"error": SILENCE.message}


def test_storage_that_has_never_answered_ends_the_run(begun: Begun) -> None:
    assert begun.course.survive(SILENCE) is None
    # A point whose guest failed is no answer of the storage.
    begun.take("failed")
    assert begun.course.survive(SILENCE) is None


def test_site_that_answers_no_more_ends_the_run(begun_on_site: Begun) -> None:
    begun_on_site.take("done")
    for _ in range(2):
        for _ in range(UNANSWERED_MAX - 1):
            assert begun_on_site.course.survive(SILENCE) is not None
            begun_on_site.take("failed")
        begun_on_site.take("done")
    for _ in range(UNANSWERED_MAX - 1):
        assert begun_on_site.course.survive(SILENCE) is not None
        begun_on_site.take("failed")
    assert begun_on_site.course.survive(SILENCE) is None


def test_lab_starts_its_storage_anew_so_silence_in_a_row_does_not_end_the_run(begun: Begun) -> None:
    begun.take("done")
    for _ in range(UNANSWERED_MAX + 1):
        assert begun.course.survive(SILENCE) is not None
        begun.take("failed")


def test_lost_engine_ends_the_run_and_a_lost_guest_does_not(begun: Begun) -> None:
    begun.take("done")
    assert begun.course.survive(LostError("the array was lost")) is None
    assert begun.course.survive(GuestError("the guest was lost")) is not None


def test_resumed_run_that_was_killed_before_it_had_points_gets_them(prepared: Prepared, tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, "small", dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    StudyCourse(prepared).begin(writer, (), is_resumed=True)
    assert (writer.directory / "points.json").exists()
