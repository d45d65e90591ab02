"""A study without Japanese texts has a Japanese report with the English texts, which says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.report import render

from tests.analysis.small_run import Pt, Rep, write_run

NOTICE = "日本語がないため、英語で示す"


@pytest.mark.parametrize(
    ("title", "untranslated"),
    [({"en": "A small study", "ja": "小さな検証"}, False), ("A small study", True)],
)
def test_japanese_report_says_which_language_it_lacks(title: object, untranslated: bool, tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 1}, [Rep(), Rep()])], title=title)
    english, japanese = (
        path.read_text() for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name)
    )
    assert (NOTICE in japanese) == untranslated
    assert ("A small study" in japanese) == untranslated
    assert "shown in English" not in english
