"""Links of the documentation lead to files and headings, and every page is in the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.docs.pages import DOCS, FENCED, PAGES, ROOT, without_code

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Anchors of a page: those that it has itself, and those of its headings, as GitHub and the
    site make them.
    """
    found = set(re.findall('<a id="([^"]+)"></a>', page.read_text(encoding="utf-8")))
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (unique := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(unique)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(without_code(page)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        reached = (page.parent / target).resolve() if target else page
        if not reached.exists() or (anchor and reached.suffix == ".md" and anchor not in anchors(reached)):
            broken.append(link)
    assert broken == []


def test_anchors_are_those_of_the_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `hakaru analyse`: where, and why\n## A goal\n```sh\n# no heading\n```\n## A goal\n## 応答時間\n")
    assert anchors(page) == {"hakaru-analyse-where-and-why", "a-goal", "a-goal-1", "応答時間"}


def in_navigation(entries: list[object]) -> list[str]:
    """Pages of mkdocs.yml, in their order."""
    found = []
    for entry in entries:
        if isinstance(entry, str):
            found.append(entry)
        elif isinstance(entry, dict):
            found += [page for part in entry.values() for page in in_navigation(part)]
    return found


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    # The tags of Python objects in this file are MkDocs'.
    text = re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = in_navigation(YAML(typ="safe", pure=True).load(text)["nav"])
    english = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if not path.name.endswith(".ja.md")]
    studies = [f"studies/{path.parent.name}.md" for path in (ROOT / "studies").glob("*/README.md")]
    assert sorted(listed) == sorted([*english, *studies])


def test_guides_exist_in_both_languages() -> None:
    guides = [DOCS / "index.md", DOCS / "gallery.md", *(DOCS / "guide").rglob("*.md")]
    english = {path for path in guides if not path.name.endswith(".ja.md")}
    assert [path for path in english if not path.with_suffix(".ja.md").is_file()] == []
    assert [path for path in DOCS.rglob("*.ja.md") if not path.with_name(path.name.replace(".ja", "")).is_file()] == []
