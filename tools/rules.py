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
    """Return kind → rules, for every kind of hakaru that has rules."""
    return {
        name: study_kind.analysis.rules for name, study_kind in kind.registered().items() if study_kind.analysis.rules
    }


def table(rules: Stages) -> str:
    """Return a table with one row per rule, in order of evaluation."""
    rows = [
        f"| {place} | `{rule.name}` | {rule.resource} | {rule.criterion} |\n"
        for place, stage in enumerate(rules, start=1)
        for rule in stage
    ]
    return "| order | verdict | layer | holds where |\n|---|---|---|---|\n" + "".join(rows)


def page(text: str) -> str:
    """Return the page with its tables generated anew."""
    rules = stages()
    return MARKED.sub(lambda match: match[1] + table(rules[match[2]]) + match[3], text)


def expected_files() -> dict[Path, str]:
    """Return file → the text that it should have."""
    return {PAGE: page(PAGE.read_text())}


def main() -> int:
    """Write the files, or with `--check` list those that are not up to date. Exit code 1 if any are
    not.
    """
    stale = [file for file, text in expected_files().items() if not file.exists() or file.read_text() != text]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not up to date: run tools/rules.py", file=sys.stderr)
        return 1 if stale else 0
    for file in stale:
        file.write_text(expected_files()[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
