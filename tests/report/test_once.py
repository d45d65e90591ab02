"""Sentences that a report shows once."""

from __future__ import annotations

from hakaru.report.blocks import Column, Table
from hakaru.report.once import Once


def table(caption: str) -> Table:
    return Table(caption, [Column("n")], [])


def test_a_caption_has_the_sentences_that_are_new_or_all_if_none_is() -> None:
    tables = [table("One VM. Measured."), table("Two VMs. Measured."), table("One VM. Measured.")]
    captions = [shown.caption for shown in Once("en").tables(tables)]
    assert captions == ["One VM. Measured.", "Two VMs.", "One VM. Measured."]
