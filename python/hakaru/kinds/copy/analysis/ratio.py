"""The ratio of two rates in words."""

from __future__ import annotations

from typing import Any

from hakaru.analysis.estimate import Estimate
from hakaru.wording import say


def ratio_words(language: str, ratio: Estimate) -> dict[str, Any]:
    """`ratio` and `interval` (with n) as values of a message, with two decimal places."""
    rounded = {name: value and round(value, 2) for name, value in (("low", ratio.low), ("high", ratio.high))}
    message = "backup.interval" if ratio.low is not None else "backup.interval.none"
    interval = say(language, message, rounded | {"n": ratio.n})
    return {"ratio": ratio.mean and round(ratio.mean, 2), "interval": interval}
