"""Names of the factors of published studies in tables, for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.kinds.copy import tables as copy_tables
from hakaru.kinds.vms import path
from hakaru.report import lab_variants
from hakaru.report.blocks import Table
from hakaru.wording import has

from tests.analysis import small_backup, small_distance
from tests.study.shipped import shipped


def heads(table: Table, n: int) -> list[str]:
    return [column.title for column in table.columns[:n]]


@pytest.mark.parametrize(("study", "least"), [("backup-mismatch", 3), ("backup-remedies", 8), ("long-distance", 6)])
def test_every_factor_has_a_name(study: str, least: int) -> None:
    factors = {factor for block in shipped(study).study.factors for factor in block.levels()}
    assert len(factors) >= least
    assert [factor for factor in sorted(factors) if not has(f"factor.{factor}")] == []


def test_tables_of_copies_have_names_of_factors(tmp_path: Path) -> None:
    run = small_backup.published_shape(tmp_path, (32, 512), (1, 8), [small_backup.PUBLISHED])
    summary = summarise(run)
    letters = {caveat["caveat"]: "a" for point in summary["points"] for caveat in point["caveats"]}
    assert heads(copy_tables.of_run(summary, letters, "en")[0], 2) == ["case", "TCP"]
    assert heads(copy_tables.of_run(summary, letters, "ja")[0], 2) == ["ケース", "TCP"]


def test_tables_of_a_distance_have_names_of_factors(tmp_path: Path) -> None:
    summary = summarise(small_distance.published_shape(tmp_path))
    letters = {caveat["caveat"]: "a" for point in summary["points"] for caveat in point["caveats"]}
    for language, names in (("en", {"settings", "round-trip time"}), ("ja", {"設定", "往復時間"})):
        assert names <= set(heads(path.tables(summary, letters, language)[0], 3))


def test_changes_of_the_lab_have_names_of_factors() -> None:
    rows = dict(lab_variants.rows(shipped("backup-mismatch").study, "ja"))
    assert rows["ケース throttled"] == "guests.kvm-2.nic_rate: 1 Gbit/s"
    rows = dict(lab_variants.rows(shipped("backup-remedies").study, "ja"))
    assert rows["バッファ"].startswith("links.vtl.queue: ")
