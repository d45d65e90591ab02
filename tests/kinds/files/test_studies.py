"""The shipped studies of file servers: what they expect, and the times of their full forms."""

from __future__ import annotations

from collections import Counter

import pytest
from hakaru.study.expectations import ExpectReference

from tests.study.shipped import shipped


@pytest.mark.parametrize("name", ["file-server", "file-server-disks", "file-server-segments"])
def test_expectations_name_published_rows_that_other_equipment_is_not_needed_for(name: str) -> None:
    """A row that is judged nowhere would be an expectation that nothing can breach."""
    study = shipped(name).study
    assert len(study.expect) >= 5
    rows = {row.id: row for row in study.reference if row.kind != "table"}
    named = {expect.id for expect in study.expect if isinstance(expect, ExpectReference)}
    assert named <= rows.keys()
    assert all(rows[each].needs is None or rows[each].needs.hardware is None for each in named)  # type: ignore[union-attr]


def test_every_expectation_of_the_quick_form_of_disks_has_its_points() -> None:
    study = shipped("file-server-disks").study
    kinds = Counter(expect.kind for expect in study.expect)
    assert kinds["reference"] == 4 and kinds["bound"] >= 5 and kinds["ratio"] >= 3
