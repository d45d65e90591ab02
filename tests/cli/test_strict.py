"""`--strict`: an expectation that cannot be judged does not pass."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.cli.finish import judge
from hakaru.errors import ExpectationBreach, InvalidPoints, UnjudgedError


def summary(*held: bool | None, valid: bool = True) -> dict[str, Any]:
    expectations = [{"held": each, "text": f"statement {n}", "found": "nothing"} for n, each in enumerate(held, 1)]
    return {"points": [{"point": "p01", "valid": valid}], "expectations": expectations}


def test_without_strict_an_open_expectation_passes() -> None:
    judge(summary(True, None))


def test_strict_names_every_expectation_that_cannot_be_judged() -> None:
    with pytest.raises(UnjudgedError, match=r"statement 2 .*statement 3") as error:
        judge(summary(True, None, None), strict=True)
    assert error.value.exit_code == 8
    assert "statement 1" not in error.value.message and error.value.hint


def test_a_breach_and_invalid_points_come_first() -> None:
    with pytest.raises(ExpectationBreach):
        judge(summary(None, False), strict=True)
    with pytest.raises(InvalidPoints):
        judge(summary(None, valid=False), strict=True)


def test_strict_passes_if_all_hold() -> None:
    judge(summary(True, True), strict=True)
    judge(summary(), strict=True)
