"""Rows beside a limit in percent, and rows that have no percentage."""

from __future__ import annotations

from hakaru.analysis.comparison.rows import Row, judge, rows


def judged(before: list[float], after: list[float], unit: str = "timeouts") -> Row:
    def point(values: list[float]) -> dict[str, object]:
        metric = {"mean": sum(values) / len(values), "unit": unit}
        return {"factors": {}, "valid": True, "metrics": {"x": metric}, "repetitions": {"x": values}}

    (row,) = judge(rows([(point(before), point(after))], lambda _: "lower"))
    return row


def test_few_counts_are_judged_in_percent_of_the_first_run() -> None:
    row = judged([10.0, 10.5, 9.5, 10.0] * 4, [15.0, 15.5, 14.5, 15.0] * 4)
    assert row.difference is not None and row.difference.test == "welch"
    assert row.worse_percent == 50.0
    assert row.is_worse_by(40) and not row.is_worse_by(80)


def test_worse_than_nothing_is_worse_by_any_limit() -> None:
    assert judged([0.0, 0.0, 0.0, 0.0], [10.0, 11.0, 10.0, 11.0]).is_worse_by(1000)


def test_a_count_that_may_have_grown_from_nothing_is_not_excluded() -> None:
    row = judged([0.0, 0.0, 0.0], [0.0, 30.0, 0.0])
    assert not row.is_worse_by(5)
    assert row.may_be_worse_by(5)


def test_equal_constants_are_not_worse() -> None:
    row = judged([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert not row.is_worse_by(0) and not row.may_be_worse_by(0)
