"""A sweep of a summary with its points, for captions, tables and figures."""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.wording import has, say

Summary = dict[str, Any]


class Sweep:
    """One sweep of a summary with its points."""

    def __init__(self, summary: Summary, index: int) -> None:
        self.raw = summary["sweeps"][index]
        self._alike = sum(sweep["where"] == self.raw["where"] for sweep in summary["sweeps"]) > 1
        by_id = {p["point"]: p for p in summary["points"]}
        self.points: list[dict[str, Any]] = [by_id[i] for i in self.raw["points"]]
        self.over: str = self.raw["over"]
        self.where: dict[str, Any] = self.raw["where"]
        self.measured = [p for p in self.points if p["metrics"]["iops"]["mean"] is not None]
        self.peak: dict[str, Any] | None = by_id.get(self.raw["peak"])
        self.goal: dict[str, Any] | None = next(
            (g for g in summary.get("goals") or [] if g["where"] == self.where and g["over"] == self.over), None
        )
        self.references = [r for r in summary["references"] if r["where"] == self.where and r["over"] == self.over]

    def name(self, language: str) -> str:
        """The levels of the other factors, with the swept one if another sweep has the same levels;
        empty without other factors.
        """
        series = sentences.series(self.where, language)
        if not (series and self._alike):
            return series
        return say(language, "series.by", {"series": series, "factor": factor_title(self.over, language)})

    def level(self, point: dict[str, Any]) -> float:
        """The point's level of the swept factor."""
        return float(point["factors"][self.over])

    def line(self, metric: str) -> list[tuple[float, float, float | None, float | None]]:
        """`(level, mean, low, high)` of every point that has the metric."""
        estimates = [(self.level(p), p["metrics"][metric]) for p in self.measured]
        return [(x, m["mean"], m["low"], m["high"]) for x, m in estimates if m["mean"] is not None]

    def published(self, metric: str, factor: float = 1.0) -> list[tuple[float, float, float | None, float | None]]:
        """The published curve of a metric, multiplied by `factor` to convert its unit."""
        rows = [row for r in self.references if r["metric"] == metric for row in r["rows"]]
        return [(float(row["level"]), float(row["published"]) * factor, None, None) for row in rows]

    def reference_title(self, language: str) -> str:
        """Title of the publication of the curve; empty without one."""
        return str(self.references[0]["title"][language]) if self.references else ""


def factor_title(over: str, language: str) -> str:
    """Name of a factor, for an axis."""
    name = f"factor.{over}"
    return say(language, name) if has(name) else over
