"""Reports of tunings have the numbers of the JSON in both languages and the configuration text, and
escape markup.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.kinds.tuning.parts import tables
from hakaru.report import figure, render
from hakaru.report.blocks import Cell, Row
from hakaru.tune.table import print_tuning
from hakaru.wording import LANGUAGES, number, say

from tests.report.test_output import Page, sentences_of, squeezed
from tests.tune.model_run import refuse_settings, run_model, small_setup


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tuning of a few trials, one of which failed with a message that contains markup."""
    hostile = refuse_settings(lambda settings, order: order == 3)
    return run_model(tmp_path_factory.mktemp("runs"), small_setup(trials=4), hostile, 0.9)


@pytest.fixture(scope="module")
def rendered(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("report")
    return {p.name: p for p in render(run, ["html", "json"], LANGUAGES, out)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_shows_advice_trials_and_contributions(rendered: dict[str, Path], language: str) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    text = squeezed("".join(Page(rendered[f"report.{language}.html"].read_text()).text))
    tuning = summary["tuning"]
    for block in tuning["text"]:
        assert squeezed(block["text"]) in text
        assert squeezed(say(language, f"tuning.text.{block['name']}")) in text
    assert tuning["text"]
    for contribution in tuning["contributions"]:
        assert squeezed(say(language, f"knob.{contribution['knob']}")) in text
        assert squeezed(number(contribution["loss_percent"], language)) in text
    for trial in tuning["trials"]:
        shown = trial["error"] or number(trial["mb_per_s"], language)
        assert squeezed(shown) in text
    for finding in summary["findings"]:
        assert all(squeezed(sentence) in text for sentence in sentences_of(finding, language))
    assert "hakarutune" in text


def test_figures_can_be_drawn(run: Path, tmp_path: Path) -> None:
    for name in ("course", "knobs"):
        assert figure(run, name, tmp_path / f"{name}.png").stat().st_size > 2000


def test_printed_tuning_has_the_configuration_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summarise(run)
    print_tuning(summary, [])
    lines = capsys.readouterr().out.splitlines()
    assert any("failed" in line for line in lines) and any("reverted" in line for line in lines)
    expected = [line for block in summary["tuning"]["text"] for line in block["text"].splitlines()]
    assert expected and [line for line in lines if line in expected] == expected


def test_invalid_trial_is_marked_in_the_tables(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summarise(run)
    first = summary["tuning"]["trials"][0]
    first["valid"] = False
    print_tuning(summary, [])
    marked = [line for line in capsys.readouterr().out.splitlines() if "(invalid)" in line]
    assert len(marked) == 1 and number(first["mb_per_s"]) in marked[0]
    trials = tables(summary, "en")[-1]
    assert [row.state for row in trials.rows if isinstance(row, Row)] == ["invalid"] + [""] * (len(trials.rows) - 1)
    assert Cell(number(first["mb_per_s"]), "invalid") in trials.rows[0].cells  # type: ignore[union-attr]
