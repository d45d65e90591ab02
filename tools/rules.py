#!/usr/bin/env python3
"""Writes the tables of rules in docs/methodology: in limiter.md between `<!-- rules KIND -->` and
`<!-- /rules -->`, in rule-book.md between `<!-- rule book -->` and `<!-- /rule book -->`. `--check`
reports whether they are up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hakaru import kind
from hakaru.analysis.rule_book import BOOK
from hakaru.analysis.rules.judge import Stages
from hakaru.wording import MISSING, number, say

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methodology/limiter.md"
BOOK_PAGE = ROOT / "docs/methodology/rule-book.md"
MARKED = re.compile(r"(<!-- rules (\w+) -->\n).*?(<!-- /rules -->)", re.DOTALL)
BOOK_MARKED = re.compile(r"(<!-- rule book -->\n).*?(<!-- /rule book -->)", re.DOTALL)


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


def bounds(pair: tuple[float, float] | None) -> str:
    """Return a range, or its only value."""
    if pair is None:
        return MISSING
    low, high = (number(value) for value in pair)
    return low if low == high else f"{low} to {high}"


def book_page(text: str) -> str:
    """Return the page of the rule book with its table generated anew."""
    rows = [
        f"| `{rule.rule}` | {say('en', f'rule_book.{rule.rule}')} | {bounds(rule.limit)} | {bounds(rule.published)} | "
        f"{f'`{rule.overridden_by}`' if rule.overridden_by else MISSING} |\n"
        for rule in BOOK
    ]
    head = "| rule | value | limit | published, and judged fine | overridden by |\n|---|---|---|---|---|\n"
    return BOOK_MARKED.sub(lambda match: match[1] + head + "".join(rows) + match[2], text)


def expected_files() -> dict[Path, str]:
    """Return file → the text that it should have."""
    return {PAGE: page(PAGE.read_text()), BOOK_PAGE: book_page(BOOK_PAGE.read_text())}


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
