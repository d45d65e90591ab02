"""The table and sentences that `hakaru run` prints at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.report.points_table import print_summary
from hakaru.terminal import new_console, print_rows, say

from tests.analysis.small_run import Pt, Rep, write_run
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


def test_the_terminal_prints_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither as markup nor as an emoji."""
    text = "[fd00:100::10] disk[sync] [/x]"
    say(new_console(), text)
    print_rows(["a[b]"], [[text], [":100:"]])
    printed = capsys.readouterr().out
    assert printed.count(text) == 2 and "a[b]" in printed and ":100:" in printed


def test_levels_are_printed_as_studies_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [Pt({"verify": level, "disk": "raw[sync]"}, [Rep()]) for level in (False, True)]
    print_summary(summarise(write_run(tmp_path, points)), [])
    printed = capsys.readouterr().out
    assert "false" in printed and "False" not in printed and "raw[sync]" in printed
