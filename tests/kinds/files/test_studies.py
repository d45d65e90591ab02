"""The shipped studies of file servers: what they expect, and how long their full forms measure."""

from __future__ import annotations

import pytest
from hakaru.kinds.files.load import approximate_bytes, load_at
from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.study import expand
from hakaru.study.expectations import ExpectReference

from tests.study.shipped import shipped

MINUTE = 60 * 1_000_000_000


@pytest.mark.parametrize("name", ["file-server", "file-server-disks", "file-server-segments"])
def test_expectations_name_published_rows_that_need_no_other_equipment(name: str) -> None:
    """A row that is judged nowhere would be an expectation that nothing can breach."""
    study = shipped(name).study
    assert len(study.expect) >= 5
    needs = {row.id: row.needs for row in study.reference if row.kind != "table"}
    for expect in study.expect:
        if isinstance(expect, ExpectReference):
            assert expect.id in needs
            assert (need := needs[expect.id]) is None or need.hardware is None, expect.id


@pytest.mark.parametrize("name", ["file-server", "file-server-disks"])
def test_full_form_measures_half_an_hour_from_minute_1_with_cold_caches(name: str) -> None:
    expanded = expand(shipped(name).study)
    measure = expanded.measure
    assert (measure.warmup_most_ns, measure.time) == (MINUTE, 30 * MINUTE)
    assert measure.intervals.hosts == MINUTE // 6
    if name == "file-server-disks":
        assert (measure.intervals.arrays, measure.intervals.drives) == (MINUTE, MINUTE // 300)
    loads = [load_at(expanded.at(point)) for point in expanded.points]
    assert all(load.repeat and load.cold for load in loads)
    # The plan counts the time of the load itself.
    planned = estimate(expanded, plan_lab(expanded.study.lab))
    assert planned.seconds > len(expanded.points) * measure.repetitions * 31 * 60


def test_files_of_the_full_form_of_disks_are_larger_than_the_memory_of_the_guest() -> None:
    study = shipped("file-server-disks").study
    assert study.lab.load_guest is not None
    assert approximate_bytes(load_at(study)) > 1.4 * study.lab.load_guest.memory
