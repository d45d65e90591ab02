#!/usr/bin/env python3
"""Builds the documentation site in target/docs: `make docs`. The result needs no network.

The pages are docs/**/*.md (`X.ja.md` is X in Japanese) and the README of every study. They are
written for GitHub, whose Markdown is CommonMark. MkDocs reads another dialect, so `assemble` copies
them to target/docs-source and adapts what differs: indentation in lists, blank lines, and links out
of docs/. `--source` stops there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "target/docs-source"
RESULT = ROOT / "target/docs"
ASSETS = ("site.css", "iframe-worker/shim.js", "iframe-worker/LICENSE")
"""Files beside this script that the site uses."""
FENCE = re.compile(r"\s*(`{3,})")
ITEM = re.compile(r"( *)([-*]|\d+\.)( +)\S")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
PAGE_NAME = re.compile(r"(?<!\[)`docs/([\w/-]+\.md)`")
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements of a page whose address a browser loads by itself."""


def adapt(text: str) -> str:
    """Convert a page from CommonMark to the dialect of MkDocs."""
    lines: list[str] = []
    columns: list[int] = []  # where the contents of open list items begin, in the original
    fence = ""
    previous = ""
    for line in text.splitlines():
        if fence:
            lines.append(_indented(line, columns) if line.strip() else line)
            fence = "" if line.strip().startswith(fence) else fence
            previous = ""
            continue
        item, opened = ITEM.match(line), FENCE.match(line)
        indent = len(line) - len(line.lstrip())
        if line.strip():
            while columns and indent < columns[-1]:
                # A line that continues a paragraph may be less indented, but not after a blank one.
                if not item and previous and not opened and not line.startswith(("#", "|")):
                    break
                columns.pop()
        begins_block = (item or opened or line.lstrip().startswith("|")) and previous
        if begins_block and not _same_block(line, previous, item is not None):
            lines.append("")
        lines.append(_indented(line, columns) if line.strip() else line)
        if item:
            columns.append(len(item[1]) + len(item[2]) + len(item[3]))
        if opened:
            fence = opened[1]
        previous = line.strip()
    return "\n".join(lines) + "\n"


def _same_block(line: str, previous: str, is_item: bool) -> bool:
    """Whether a line continues the table or list of the line before it."""
    if line.lstrip().startswith("|"):
        return previous.startswith("|")
    return is_item and ITEM.match(previous + " x") is not None


def _indented(line: str, columns: list[int]) -> str:
    """The line, with four columns per open list item instead of two or three."""
    if not columns or len(line) - len(line.lstrip()) < columns[0]:
        return line
    return " " * (4 * len(columns) - columns[-1]) + line


def relink(text: str, page: Path) -> str:
    """Change links of a page at `page` (from the root of the checkout) for its place in the site.
    Links to files that the site lacks become plain text.
    """

    def changed(link: re.Match[str]) -> str:
        target, hash_, anchor = link[2].partition("#")
        if "://" in target or not target:
            return link[0]
        reached = (ROOT / page.parent / target).resolve()
        place = place_of(reached.relative_to(ROOT)) if reached.is_relative_to(ROOT) else None
        if place is None:
            return link[1]
        return f"[{link[1]}]({_relative(place, page)}{hash_}{anchor})"

    def named(name: re.Match[str]) -> str:
        exists = (ROOT / "docs" / name[1]).is_file()
        return f"[{name[0]}]({_relative(Path(name[1]), page)})" if exists else name[0]

    return PAGE_NAME.sub(named, LINK.sub(changed, text))


def place_of(path: Path) -> Path | None:
    """Place of a file of the checkout in the site; None if the site does not have it."""
    parts = path.parts
    if parts[0] == "docs" and path.suffix in (".md", ".png", ".svg"):
        return Path(*parts[1:])
    if parts[0] == "studies" and path.name == "README.md":
        return Path("studies", f"{parts[1]}.md")
    return None


def _relative(place: Path, page: Path) -> str:
    here = place_of(page)
    assert here is not None
    return Path(*[".."] * (len(here.parts) - 1), place).as_posix()


def assemble() -> None:
    """Write the source of the site."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for path in sorted([*(ROOT / "docs").rglob("*"), *(ROOT / "studies").glob("*/README.md")]):
        place = place_of(path.relative_to(ROOT))
        if place is None:
            continue
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            (SOURCE / place).write_text(adapt(relink(text, path.relative_to(ROOT))), encoding="utf-8")
        else:
            shutil.copyfile(path, SOURCE / place)
    for name in ASSETS:
        (SOURCE / "assets" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "tools/docs" / name, SOURCE / "assets" / name)


class _Loads(HTMLParser):
    """Addresses that a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the address of an element."""
        values = dict(attributes)
        address = values.get(LOADED.get(tag, "")) or ""
        if "//" in address and values.get("rel") not in ("canonical", "alternate"):
            self.found.append(address)


def external_loads(folder: Path) -> list[str]:
    """`page: address` of the images, scripts, frames and style sheets that pages of a site load
    from elsewhere. Contents of style sheets and scripts are not read.
    """
    found = []
    for path in sorted(folder.rglob("*.html")):
        loads = _Loads()
        loads.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(folder)}: {address}" for address in loads.found]
    return found


def main() -> int:
    """Build the site. Returns 1 if a link is broken or a page loads something from elsewhere."""
    assemble()
    if "--source" in sys.argv[1:]:
        return 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(RESULT)]
    # Without the advertisement of its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command += ["--config-file", str(ROOT / "mkdocs.yml")]
    if subprocess.run(command, check=False, env=environment).returncode:
        return 1
    external = external_loads(RESULT)
    print("\n".join(external), end="\n" if external else "", file=sys.stderr)
    if external:
        return 1
    print(RESULT / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
