"""A trial has the same caveats as the point of the same repetition."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.run_data import RunData
from hakaru.tune import kind

from tests.analysis.small_distance import Load, Pt, factors, spec_of, write_run


@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_late_network_makes_a_trial_invalid_only_below_the_closed_form(tmp_path: Path, slower: float) -> None:
    load = Load(spec_of("default", 20), slower=slower, fabric_cpu=0.97, late_us=900)
    folder = write_run(tmp_path, [Pt(factors(), [load])])
    (point,) = summarise(folder)["points"]
    run = RunData.read(folder)
    (described,) = run.points
    (repetition,) = run.repetitions(described["point"])
    _, caveats = kind.of_run(run).rate(run, repetition, described["factors"])
    is_saturated = "fabric_saturated" in {caveat.name for caveat in caveats}
    assert is_saturated == ("fabric_saturated" in {c["caveat"] for c in point["caveats"]}) == (slower > 1)
