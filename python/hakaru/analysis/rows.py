"""A row of the scorecard: one published number, the measured value, and the error between them.

Produced by `hakaru.analysis.reference`, for every kind of reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hakaru.study.part import Level

Mark = Literal["calibrated", "predicted", "by_definition"]
Value = Level | list[Level] | None
"""A number; a level of a factor (a peak); or levels, highest first (a ranking)."""

DIFFERS_PERCENT = 100.0
"""Error of a value that cannot be compared by its size: another level, or anything instead of
"none".
"""


@dataclass(frozen=True)
class Measured:
    """The measured side of a row, over the points that it needs."""

    value: Value = None
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval; for a peak, the range of levels that it does not exclude."""
    n: int = 0
    """Repetitions, the lowest number of the points."""
    points: int = 0
    """Points with a value."""
    valid: bool = True
    """Whether the numbers of all these points may be used."""
    is_limited_by_setup: bool = False
    """Whether the bottleneck of one of these points is the test setup (load generator, emulated
    network, this machine), so that the value is that of the test setup.
    """


@dataclass(frozen=True)
class Row:
    """One published number and its measured counterpart."""

    id: str
    kind: str
    """The kind of reference."""
    publication: str
    metric: str
    published: Value
    measured: Measured
    error_percent: float | None
    """None if nothing was measured that can be compared."""
    mark: Mark
    unit: str = ""
    """Unit of the metric, `times` for a ratio, `level` for a peak, `order` for a ranking."""
    name: dict[str, str] | None = None
    """By language; None for a row of a table, whose name is its metric and level."""
    where: dict[str, Any] = field(default_factory=dict)
    over: str | None = None
    level: Level | None = None
    """Level of `over` of a row of a table."""
    table: str | None = None
    points_needed: int = 1
    """Points of the study's full form that the row needs."""
    note: dict[str, str] | None = None
    not_judged: dict[str, str] | None = None
    """Reasons, by language, why this machine, or this run on it, cannot be compared with the
    publication. Such a row has no error.
    """
    parts: tuple[float, ...] = ()
    """Summands of the published value (one per VM), if the table has them."""

    @property
    def is_counted(self) -> bool:
        """Whether the row's error counts: it was measured at valid points and does not hold by
        definition.
        """
        return self.error_percent is not None and self.measured.valid and self.mark != "by_definition"

    @property
    def levels(self) -> dict[str, Any]:
        """Levels of the row's points, as far as the reference names them."""
        return self.where | ({self.over: self.level} if self.over is not None and self.level is not None else {})


def relative_error(value: float | None, published: float) -> float | None:
    """(measured - published) / published, in percent. For a published 0 ("none"): 0 if the measured
    value is 0 as well, otherwise 100.
    """
    if value is None:
        return None
    if published == 0:
        return 0.0 if value == 0 else DIFFERS_PERCENT
    return 100 * (value - published) / abs(published)
