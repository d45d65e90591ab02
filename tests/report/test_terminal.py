"""The table and sentences that `hakaru run` prints at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.report.points_table import print_summary

from tests.fixtures.make_run import make_run


@pytest.mark.parametrize(
    ("language", "shown", "hidden"),
    [
        ("en", ["origin: simulated", "report: report.en.html", "expectations: ", "hold"], ["由来", "報告書"]),
        (
            "ja",
            ["由来：", "報告書：report.en.html", "予想：", "ボトルネック"],
            ["origin:", "report:", "expectations:", "bottleneck"],
        ),
    ],
)
def test_the_terminal_uses_one_language(
    language: str, shown: list[str], hidden: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(summarise(make_run(tmp_path)), [Path("report.en.html")], language)
    printed = capsys.readouterr().out
    assert [text for text in shown if text not in printed] == []
    assert [text for text in hidden if text in printed] == []
