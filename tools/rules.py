#!/usr/bin/env python3
"""Writes the tables of rules in docs/methodology/limiter.md, between `<!-- rules KIND -->` and
`<!-- /rules -->`; `--check` reports whether they are up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hakaru import kind
from hakaru.analysis.rules.judge import Stages

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methodology/limiter.md"
MARKED = re.compile(r"(<!-- rules (\w+) -->\n).*?(<!-- /rules -->)", re.DOTALL)


def stages() -> dict[str, Stages]:
    """Kind → its rules, of every kind of hakaru that has any."""
    return {name: one.analysis.rules for name, one in kind.registered().items() if one.analysis.rules}


def table(rules: Stages) -> str:
    """One row per rule, in the order in which they are looked at."""
    rows = [
        f"| {place} | `{rule.name}` | {rule.resource} | {rule.criterion} |\n"
        for place, stage in enumerate(rules, start=1)
        for rule in stage
    ]
    return "| order | verdict | layer | holds where |\n|---|---|---|---|\n" + "".join(rows)


def page(text: str) -> str:
    """The page with its tables made anew."""
    known = stages()
    return MARKED.sub(lambda found: found[1] + table(known[found[2]]) + found[3], text)


def wanted() -> dict[Path, str]:
    """File → the text that it should have."""
    return {PAGE: page(PAGE.read_text())}


def main() -> int:
    """Writes the files, or (`--check`) names those that are not up to date; exit code 1 if there
    are any.
    """
    stale = [file for file, text in wanted().items() if not file.exists() or file.read_text() != text]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not up to date: run tools/rules.py", file=sys.stderr)
        return 1 if stale else 0
    for file in stale:
        file.write_text(wanted()[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
