"""The section "Rules of thumb": each point's devices beside the limits of the rule book."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.report import common
from hakaru.report.blocks import Across, Cell, Column, Row, Section, Table
from hakaru.report.sweep import factor_title
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]

ROWS_MAX = 40
"""Maximum number of points in the table, in the order of the run. A page holds about thirty."""
FACTORS_MAX = 4
"""Maximum number of factors with a column each. Beside the columns of the rules, a page has no room
for more, so the levels of a point are then in one column.
"""


def section(summary: Json, language: str) -> list[Section]:
    """The section; none if no point has counters that a rule looks at."""
    points = [point for point in summary["points"] if point.get("rule_book")]
    if not points:
        return []
    rules = list({judgement["rule"]: judgement for point in points for judgement in point["rule_book"]}.values())
    sources = {rule["source"]: say(language, f"rule_book.source.{rule['source']}") for rule in rules}
    about = sentences.sentences(language, say(language, "rule_book.about"), *sources.values())
    return [Section("rule_book", say(language, "section.rule_book"), about, [_table(points, rules, language)])]


def _table(points: Sequence[Json], rules: Sequence[Json], language: str) -> Table:
    shown = points[:ROWS_MAX]
    varied = common.varied_factors(points)
    is_wide = len(varied) > FACTORS_MAX
    titles = [say(language, "rule_book.point")] if is_wide else [factor_title(factor, language) for factor in varied]
    # A study without factors has a single point.
    heads = [Column(title, "level", header=True) for title in titles or [""]]
    before = len(heads)
    heads += [Column(say(language, f"rule_book.{rule['rule']}")) for rule in rules]
    headroom = any(rule["headroom"] for rule in rules)
    heads += [Column(say(language, "rule_book.headroom"))] if headroom else []
    rows: list[Row | Across] = []
    for bounds in ("limit", "published"):
        ranges = [_bounds(rule[bounds], language) for rule in rules]
        name = [say(language, f"rule_book.{bounds}"), *([""] * (before - 1))]
        rows.append(Row([*name, *ranges, *([""] if headroom else [])]))
    for point in shown:
        judged = {judgement["rule"]: judgement for judgement in point["rule_book"]}
        cells: list[Cell | str] = [_cell(judged.get(rule["rule"]), language) for rule in rules]
        cells += [_headroom(judged.values(), language)] if headroom else []
        if is_wide:
            levels = [sentences.series({f: v for f, v in point["factors"].items() if f in varied}, language)]
        else:
            levels = [common.level(point, factor, language) for factor in varied] or [str(point["point"])]
        rows.append(Row([*levels, *cells], "" if point["valid"] else "invalid"))
    if len(points) > len(shown):
        rows.append(Across(say(language, "rule_book.more", {"count": len(points) - len(shown)}), heading=False))
    return Table(say(language, "rule_book.caption"), heads, rows)


def _bounds(bounds: Sequence[float] | None, language: str) -> str:
    if bounds is None:
        return MISSING
    low, high = (number(bound, language) for bound in bounds)
    return low if low == high else f"{low}–{high}"


def _cell(judgement: Json | None, language: str) -> Cell | str:
    if judgement is None:
        return MISSING
    text, outcome = number(judgement["value"]["mean"], language), judgement["outcome"]
    if outcome in ("fine", "shown"):
        return text
    return Cell(text, say(language, f"rule_book.outcome.{outcome}"), bold=outcome == "above")


def _headroom(judgements: Iterable[Json], language: str) -> str:
    found = next((judgement["headroom"] for judgement in judgements if judgement["headroom"]), None)
    if found is None:
        return MISSING
    low, high = (tenths(bound, language) for bound in found)
    return f"{low}–{high}"
