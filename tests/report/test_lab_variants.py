"""Changes of the lab between points, as the report lists them beside the drawing."""

from __future__ import annotations

from hakaru.report import lab_variants

from tests.study.shipped import shipped


def test_levels_are_listed_with_their_changes_of_the_lab() -> None:
    rows = dict(lab_variants.rows(shipped("backup-mismatch").study, "en"))
    assert rows["case throttled"] == "guests.kvm-2.nic_rate: 1 Gbit/s"
    assert "links.vtl.rate: 10 Gbit/s" in rows["case ten-to-ten"]
    assert "links.kvm-2.pause: true" in rows["case pause"]
    assert "case unthrottled" not in rows, "it is the lab of the drawing"
    assert rows["tape appended"] == "vtl: model kind none, tape_library generation lto5, cartridges 1, capacity 64 GiB"


def test_levels_of_a_place_are_listed_once() -> None:
    rows = dict(lab_variants.rows(shipped("backup-remedies").study, "en"))
    assert rows["buffer"].startswith("links.vtl.queue: ")
    assert "streams" not in rows, "it changes only the load"


def test_study_that_varies_only_its_load_has_no_variants() -> None:
    assert lab_variants.rows(shipped("vm-sweep").study, "ja") == []
