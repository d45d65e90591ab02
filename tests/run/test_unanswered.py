"""A whole run whose storage does not answer the load of some repetitions, and its completion by
`--resume`. Everything is real but the measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis.summary import summarise
from hakaru.errors import UnansweredError
from hakaru.run.course import StudyCourse
from hakaru.run.options import Options
from hakaru.run.outcome import Outcome
from hakaru.run.place import Place
from hakaru.run.preparation import prepare
from hakaru.run.progress import Watchers
from hakaru.run.repetition import OnSample
from hakaru.run.runner import Run, drive
from hakaru.store import RunReader
from hakaru.study import Expanded, Repetition, load

from tests.tune.model_run import empty_place, outcome

ERROR = "initiator on host: vm01: a command was not answered within 30 s"


@pytest.fixture
def run_with(study: Path, tmp_path: Path) -> Callable[[set[int], str | None], Path]:
    """Return a function that runs the study, or continues a run. Repetitions whose place in the
    order is given are not answered.
    """

    def go(silent: set[int], resume: str | None = None) -> Path:
        async def measure(
            place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample, folder: Path
        ) -> Outcome:
            if turn.order in silent:
                raise UnansweredError(ERROR, "check the load of the array")
            return outcome(turn, 1e8, 65536)

        prepared = prepare(
            load(str(study)), Options(), folder=tmp_path / "runs", site=None, resume=resume, command=["hakaru"]
        )
        course = StudyCourse(prepared)
        return drive(Run(prepared, Watchers([]), course, open_place=empty_place, measure=measure))

    return go


def records(directory: Path) -> dict[int, dict[str, Any]]:
    """Return the repetitions of a run by their place in the order."""
    return {record["order"]: record for record in RunReader(directory).repetitions()}


def test_repetition_without_an_answer_is_marked_and_resume_measures_it(
    run_with: Callable[..., Path],
) -> None:
    orders = sorted(records(run_with(set())))
    silent = set(orders[1:4])
    directory = run_with(silent)
    assert RunReader(directory).read("run.json")["status"] == "done"
    found = records(directory)
    assert sorted(found) == orders
    assert {order for order, record in found.items() if record["status"] == "failed"} == silent
    for order in silent:
        assert found[order]["error"] == ERROR and found[order]["engines"] == []
        assert [caveat["caveat"] for caveat in found[order]["caveats"]] == ["load_unanswered"]
    marked = [point for point in summarise(directory)["points"] if "load_unanswered" in _names(point)]
    assert {point["point"] for point in marked} == {found[order]["point"] for order in silent}
    assert all("did not answer in time" in _text(point) for point in marked)

    resumed = run_with(set(), directory.name)
    assert resumed == directory
    assert {record["status"] for record in records(resumed).values()} == {"done"}
    assert not any("load_unanswered" in _names(point) for point in summarise(resumed)["points"])


def test_run_whose_first_load_is_not_answered_ends_with_exit_code_7(run_with: Callable[..., Path]) -> None:
    with pytest.raises(UnansweredError) as ended:
        run_with({min(records(run_with(set())))})
    assert ended.value.exit_code == 7 and ended.value.message == ERROR


def _names(point: dict[str, Any]) -> set[str]:
    return {caveat["caveat"] for caveat in point["caveats"]}


def _text(point: dict[str, Any]) -> str:
    return " ".join(caveat["text"] for caveat in point["caveats"])
