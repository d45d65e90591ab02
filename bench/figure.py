"""A figure of the benchmark: the values of hakaru and its peers in every round, and its line in the
table.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Figure:
    """One line of the table. `goal`: ratio to reach, by peer. `limit`: value not to exceed."""

    name: str
    unit: str
    ours: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)
    goal: dict[str, float] = field(default_factory=dict)
    lower_is_better: bool = False
    limit: float | None = None

    def add(self, ours: float, **others: float) -> None:
        """Add the values of one round."""
        self.ours.append(ours)
        for peer, value in others.items():
            self.peers.setdefault(peer, []).append(value)

    def ratios(self) -> dict[str, float]:
        """Return, by peer, the median over the rounds of how many times better hakaru is."""
        return {
            peer: statistics.median(
                _times(theirs, ours) if self.lower_is_better else _times(ours, theirs)
                for ours, theirs in zip(self.ours, values, strict=True)
            )
            for peer, values in self.peers.items()
        }

    def document(self) -> dict[str, Any]:
        """Return the figure as an entry of results/bench.json."""
        return {
            "name": self.name,
            "value": statistics.median(self.ours),
            "low": min(self.ours),
            "high": max(self.ours),
            "n": len(self.ours),
            "unit": self.unit,
            "peer": {peer: statistics.median(values) for peer, values in self.peers.items()},
            "ratio": self.ratios(),
            "goal": self.goal,
            "limit": self.limit,
            "lower_is_better": self.lower_is_better,
        }


def _times(better: float, than: float) -> float:
    """Return `better` / `than`; 1 if the two are equal, even at 0."""
    if better == than:
        return 1.0
    return better / than if than else float("inf")


def table(figures: list[Figure]) -> str:
    """Return the table for stdout."""
    lines = [
        "| figure | hakaru (median; min–max) | n | peer | peer's median | ratio | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        d = figure.document()
        value = f"{d['value']:,.6g} {figure.unit} ({d['low']:,.6g}–{d['high']:,.6g})"
        for peer in d["peer"] or {"": None}:
            theirs = f"{d['peer'][peer]:,.6g}" if peer else ""
            ratio = f"{d['ratio'][peer]:.2f}" if peer else ""
            goal = f"{figure.goal[peer]:g}" if peer in figure.goal else ""
            if not goal and figure.limit is not None:
                goal = f"≤ {figure.limit:g} {figure.unit}"
            lines.append(f"| {figure.name} | {value} | {d['n']} | {peer} | {theirs} | {ratio} | {goal} |")
    lines.append("A ratio says how many times better than the peer hakaru was in the same round (median over rounds).")
    return "\n".join(lines)
