"""The start of a copy that does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.kinds.copy.run import RUN
from hakaru.run.kind import Phases
from hakaru.study import expand, load

from tests.analysis.small_backup import Copy, Pt, write_run
from tests.study.copying import COPYING, PUBLISHED

SECOND = 10**9


@pytest.mark.parametrize(
    ("warmup", "ends", "start"),
    [("0 s", (10, 40), 0.0), ("4 s", (10, 40), 4.0), ("8 s", (10, 40), 5.0), ("8 s", (), 0.0)],
)
def test_warm_up_takes_at_most_half_of_the_time_of_the_first_host(
    tmp_path: Path, warmup: str, ends: tuple[int, ...], start: float
) -> None:
    (tmp_path / "study.yaml").write_text(COPYING.replace("  time_limit:", f"  warmup: {warmup}\n  time_limit:"))
    (tmp_path / "published.csv").write_text(PUBLISHED)
    expanded = expand(load(str(tmp_path / "study.yaml")).study)
    phases = Phases(0, [100 * SECOND, 99 * SECOND], [(100 + end) * SECOND for end in ends])
    window = RUN.window(expanded, expanded.repetitions[0], phases)
    assert window == (int((100 + start) * SECOND), (100 + max(ends, default=0)) * SECOND)


def load_with(warmup: str) -> dict[str, object]:
    """Return the load of the small study with a warm-up."""
    ends = {"from": {"array": "primary", "lus": [0]}, "to": {"array": "vtl", "lus": [0]}}
    return {"kind": "copy", "jobs": 4, "streams": 1, "warmup": warmup} | ends


def test_rates_are_those_after_the_warm_up(tmp_path: Path) -> None:
    whole = summarise(write_run(tmp_path / "whole", [Pt({"case": "unthrottled"}, [Copy(seconds=8)])]))
    run = write_run(tmp_path, [Pt({"case": "unthrottled"}, [Copy(seconds=8, warmup=2)])], load=load_with("2 s"))
    point, unwarmed = summarise(run)["points"][0]["metrics"], whole["points"][0]["metrics"]
    for metric in ("mib_per_s", "sum_mib_per_s", "path_percent"):
        assert point[metric]["mean"] == pytest.approx(unwarmed[metric]["mean"])
    assert point["ranked_seconds/1"]["mean"] == 6
    assert point["last_done_s"]["mean"] == 8


def test_job_that_was_done_within_the_warm_up_has_no_rate(tmp_path: Path) -> None:
    copy = Copy(seconds=40, first_seconds=8, warmup=20)
    run = write_run(tmp_path, [Pt({"case": "unthrottled"}, [copy])], load=load_with("20 s"))
    mean = {name: each["mean"] for name, each in summarise(run)["points"][0]["metrics"].items()}
    # Three jobs of 20 MB/s each remain.
    assert mean["mib_per_s"] == pytest.approx(60e6 / 2**20) == mean["sum_mib_per_s"]
    # The fastest of them is not the fastest of the four.
    assert mean.get("ranked_mib_per_s/1") is mean.get("ranked_seconds/3") is None
    assert (mean["fastest_to_slowest"], mean["jain_index"]) == (None, None)


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (Copy(seconds=8, slowest_seconds=40, warmup=4), [{"asked_s": 16.0, "taken_s": 4.0, "done_s": 8.0}]),
        # The warm-up of the study, and a copy that is too short for it on every host.
        (Copy(seconds=32, slowest_seconds=40, warmup=16), []),
        (Copy(seconds=20, slowest_seconds=24, warmup=10), []),
    ],
)
def test_warm_up_cut_by_an_early_host_is_reported(tmp_path: Path, copy: Copy, expected: list[dict[str, float]]) -> None:
    run = write_run(tmp_path, [Pt({"case": "unthrottled"}, [copy])], load=load_with("16 s"))
    caveats = summarise(run)["points"][0]["caveats"]
    assert [c["values"] for c in caveats if c["caveat"] == "warmup_cut"] == expected
