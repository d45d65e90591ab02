"""`hakaru docs`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["installation", "guide/installation", "docs/guide/installation.md"])
def test_a_page_has_several_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name, "--lang", "en"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/guide/installation.md").read_text()


def test_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--lang", "en"]) == 0
    listed = capsys.readouterr().out
    english = [path for path in (ROOT / "docs").rglob("*.md") if not path.name.endswith(".ja.md")]
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in english}
    studies = {f"studies/{path.parent.name}" for path in ROOT.glob("studies/*/README.md")}
    assert pages | studies <= set(listed.split())
    assert "Rules of thumb" in listed and ".ja" not in listed


@pytest.mark.parametrize("name", ["installation", "docs/guide/installation.ja.md"])
def test_a_page_is_printed_in_japanese_if_it_exists(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    assert main(["docs", name]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/guide/installation.ja.md").read_text()
    assert main(["docs", "compare"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/reference/compare.md").read_text()
    assert main(["docs"]) == 0
    assert "最初の検証シナリオ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("instalation", "no page named 'instalation'", "did you mean 'installation'?"),
        ("array", "several pages are named 'array'", "choose from guide/array, reference/array"),
        ("../README", "no page named '../README'", "`hakaru docs` lists them"),
    ],
)
def test_unknown_page_is_an_error(name: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err and hint in shown.err
