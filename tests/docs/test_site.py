"""The source of the site: dialect and links. `make docs` builds it, which takes longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, tool

BUILD = tool("build")


@pytest.mark.parametrize(
    ("written", "adapted"),
    [
        # A list or table may follow a paragraph at once on GitHub.
        ("Text\n- one\n- two\n", "Text\n\n- one\n- two\n"),
        ("Text\n| a |\n|---|\n| b |\n", "Text\n\n| a |\n|---|\n| b |\n"),
        ("# Heading\n| a |\n|---|\n", "# Heading\n\n| a |\n|---|\n"),
        # Lists are indented by the width of their marker there, and by four columns in MkDocs.
        ("- one\n  more\n", "- one\n    more\n"),
        ("1. one\n   more\n", "1. one\n    more\n"),
        ("- one\n  - two\n    more\n", "- one\n    - two\n        more\n"),
        ("- one\n  ```yaml\n  a:\n    b: 1\n  ```\n", "- one\n\n    ```yaml\n    a:\n      b: 1\n    ```\n"),
        # Code stays as it is.
        ("```sh\n- a\n| b\n```\n", "```sh\n- a\n| b\n```\n"),
        ("- one\n\nText\n", "- one\n\nText\n"),
    ],
)
def test_pages_are_adapted_to_the_dialect_of_the_generator(written: str, adapted: str) -> None:
    assert BUILD.adapt(written) == adapted


@pytest.mark.parametrize(
    ("page", "written", "relinked"),
    [
        ("docs/guide/array.md", "[a](../reference/array.md#metrics)", "[a](../reference/array.md#metrics)"),
        ("docs/reference/tune.md", "[a](../../studies/long-distance/README.md)", "[a](../studies/long-distance.md)"),
        ("docs/gallery.md", "[a](../studies/vm-sweep/README.md)", "[a](studies/vm-sweep.md)"),
        ("docs/gallery.md", "![a](figures/vm-sweep.png)", "![a](figures/vm-sweep.png)"),
        ("studies/initiators/README.md", "[a](../vm-sweep/README.md)", "[a](../studies/vm-sweep.md)"),
        (
            "studies/backup-mismatch/README.md",
            "[a](../../docs/reference/lab.md#guests)",
            "[a](../reference/lab.md#guests)",
        ),
        # Files that the site lacks.
        ("docs/reference/files.md", "[a](../../crates/smb/src/lib.rs)", "a"),
        ("docs/reference/files.md", "[a](https://example.com/x)", "[a](https://example.com/x)"),
        # Names of pages become links.
        (
            "studies/vm-sweep/README.md",
            "(`docs/concepts/hypervisor.md`)",
            "([`docs/concepts/hypervisor.md`](../concepts/hypervisor.md))",
        ),
        ("studies/vm-sweep/README.md", "`docs/none.md`", "`docs/none.md`"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, written: str, relinked: str) -> None:
    assert BUILD.relink(written, Path(page)) == relinked


def test_pages_of_other_folders_and_figures_are_in_the_site() -> None:
    assert BUILD.place_of(Path("studies/vm-sweep/README.md")) == Path("studies/vm-sweep.md")
    assert BUILD.place_of(Path("docs/figures/vm-sweep.png")) == Path("figures/vm-sweep.png")
    assert BUILD.place_of(Path("schema/study.schema.json")) is None
    assert (DOCS / "figures").is_dir() and (ROOT / "mkdocs.yml").is_file()


def test_anything_that_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://a.example/"><link rel="stylesheet" href="a.css">'
        '<script src="//cdn.example/x.js"></script><a href="https://b.example/">b</a>'
        '<img src="data:image/png;base64,AA">'
    )
    assert BUILD.external_loads(tmp_path) == ["a.html: //cdn.example/x.js"]
