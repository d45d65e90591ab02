"""A comparison of runs in words: the conditions that differ, and a table of differences, in both
languages. `hakaru compare` prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.comparison.rows import Row
from hakaru.analysis.comparison.runs import Compared
from hakaru.study.part import level_text
from hakaru.terminal import new_console, print_rows
from hakaru.terminal import say as print_paragraph
from hakaru.wording import MISSING, number, say, tenths

CHANGED = ("better", "worse", "differs")


def print_comparison(compared: Compared, language: str, *, all_rows: bool) -> None:
    """Print one comparison. Without `all_rows`, only differences and the chief metrics."""
    console = new_console()
    names = {"before": compared.before["run"], "after": compared.after["run"]}
    print_paragraph(console, say(language, "compare.title", names))
    _print_conditions(compared, language)
    for text in of_one_run(compared, language):
        print_paragraph(console, text)
    shown = [row for row in compared.rows if all_rows or row.is_chief or row.verdict in CHANGED]
    columns = ("point", "metric", "before", "after", "difference", "p", "n", "verdict")
    varied = varied_factors(compared.rows)
    print_rows([say(language, f"compare.{name}") for name in columns], [cells(row, language, varied) for row in shown])
    for text in notes(compared, shown, language):
        print_paragraph(console, text)


def of_one_run(compared: Compared, language: str) -> list[str]:
    """Sentences about the points that only one of the runs has."""
    sides = ((compared.before["run"], compared.only_before), (compared.after["run"], compared.only_after))
    return [
        say(
            language,
            "compare.only",
            {"run": run, "count": len(only), "points": "; ".join(_factors(factors) for factors in only)},
        )
        for run, only in sides
        if only
    ]


def _print_conditions(compared: Compared, language: str) -> None:
    if not compared.conditions:
        print_paragraph(new_console(), say(language, "compare.same_conditions"))
        return
    columns = [say(language, f"compare.{name}") for name in ("condition", "before", "after")]
    rows = [(f"{c.part}: {c.name}", _value(c.before), _value(c.after)) for c in compared.conditions]
    print_rows(columns, rows)


def _value(value: Any) -> str:
    return MISSING if value is None else str(value)


def _factors(factors: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {level_text(level)}" for name, level in factors.items())


def varied_factors(rows: Sequence[Row]) -> set[str]:
    """Factors with several levels at the points of these rows; of one point, all factors."""
    levels: dict[str, set[str]] = {}
    for row in rows:
        for name, level in (row.factors or {}).items():
            levels.setdefault(name, set()).add(str(level))
    return {name for name, found in levels.items() if len(found) > 1} or set(levels)


def cells(row: Row, language: str, varied: set[str]) -> list[str]:
    """The cells of a row: point with its levels of the varied factors, metric, both means,
    difference with interval, p, n, verdict.
    """
    if row.factors is None:
        point = say(language, "compare.all_points", {"count": row.points})
    else:
        point = _factors({name: level for name, level in row.factors.items() if name in varied})
    return [
        point,
        row.metric,
        number(row.before, language) if row.before is not None else "",
        number(row.after, language) if row.after is not None else "",
        change(row, language),
        "" if row.p_corrected is None else _probability(row.p_corrected),
        f"{row.n[0]}, {row.n[1]}",
        verdict(row, language),
    ]


def change(row: Row, language: str) -> str:
    """`-4.8 % (-5.9 to -3.7)`; the reason if there is no difference."""
    found = row.difference
    if found is None:
        return say(language, f"compare.reason.{row.reason}")
    percent = found.test == "welch_log"
    change, low, high = (_signed(value, language, percent) for value in (found.change, found.low, found.high))
    unit = sentences.unit("percent" if percent else row.unit)
    return say(language, "compare.change", {"change": f"{change}{unit}", "low": low, "high": high})


def _signed(value: float, language: str, percent: bool) -> str:
    """A difference with its sign; percentages have one decimal."""
    rounded = round(value, 1) if percent else value
    return f"{'+' if rounded > 0 else ''}{tenths(rounded + 0.0, language) if percent else number(value, language)}"


def _probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def verdict(row: Row, language: str) -> str:
    """The verdict in words."""
    return say(language, f"compare.verdict.{row.verdict}")


def notes(compared: Compared, shown: Iterable[Row], language: str) -> list[str]:
    """Sentences below the table: the hidden rows, and the method."""
    hidden = Counter(row.verdict for row in compared.rows)
    hidden.subtract(row.verdict for row in shown)
    texts = []
    if hidden.total():
        listed = say(language, "list.separator").join(
            say(language, "compare.counted", {"verdict": say(language, f"compare.verdict.{name}"), "number": many})
            for name, many in hidden.items()
            if many
        )
        texts.append(say(language, "compare.hidden", {"count": hidden.total(), "verdicts": listed}))
    tested = sum(row.difference is not None for row in compared.rows)
    return [*texts, say(language, "compare.method", {"count": tested})]
