"""Compares this checkout's benchmark with that of an earlier commit, part by part, in rounds.

Each round of a part runs the `bench.py` of both checkouts in sequence, in alternating order.
Each checkout drives its own engine through its own contract, so the two may differ in their
configuration. A figure is worse if its median is more than 5 % worse and no round of this
checkout reaches a round of the baseline.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figure import Figure

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 0.05
"""A larger loss than this is a finding, unless the rounds overlap."""


def missing(baseline: Path) -> str | None:
    """Return the first file that the checkout `baseline` lacks; None if its benchmark can run."""
    needed = (baseline / "bench" / "bench.py", baseline / ".venv" / "bin" / "hakaru-engine")
    return next((str(path) for path in needed if not path.is_file()), None)


def compare(
    baseline: Path, parts: Sequence[str], rounds: int, seconds: int, long_seconds: int
) -> tuple[list[Figure], list[str]]:
    """Return figures with `baseline` as the peer, and the parts that failed in either checkout."""
    figures: dict[str, Figure] = {}
    failed: list[str] = []
    for part in parts:
        for number in range(rounds):
            print(f"{part}, round {number + 1} of {rounds} …", file=sys.stderr, flush=True)
            order = (ROOT, baseline) if number % 2 == 0 else (baseline, ROOT)
            try:
                values = {tree: _run(tree, part, seconds, long_seconds) for tree in order}
            except RuntimeError as error:
                print(f"error: {error}", file=sys.stderr)
                failed.append(part)
                break
            missing_in = [tree for tree in order if not values[tree]]
            if missing_in:
                print(f"error: {part} has no figures in {missing_in[0]}; run it there alone", file=sys.stderr)
                failed.append(part)
                break
            _add(figures, values[ROOT], values[baseline])
    return list(figures.values()), failed


def table(figures: Sequence[Figure]) -> str:
    """Return the table for stdout: medians, ranges and the median of the rounds' ratios."""
    lines = [
        "| figure | current (median; min–max) | baseline (median; min–max) | n | ratio | |",
        "|---|---|---|---|---|---|",
    ]
    for figure in figures:
        current, before = figure.document(), figure.peers["baseline"]
        lines.append(
            f"| {figure.name} | {current['value']:,.6g} {figure.unit} ({current['low']:,.6g}–{current['high']:,.6g}) "
            f"| {current['peer']['baseline']:,.6g} ({min(before):,.6g}–{max(before):,.6g}) "
            f"| {current['n']} | {_number(current['ratio'].get('baseline'))} | {verdict(figure)} |"
        )
    lines.append("A ratio above 1 is better than the baseline in the same round (median over rounds).")
    return "\n".join(lines)


def verdict(figure: Figure) -> str:
    """Return `better` or `same`; for a loss `overlap` if the rounds overlap, `within limit` if
    every round of both stays within the figure's limit, else `worse`.
    """
    ratio, before = figure.ratios()["baseline"], figure.peers["baseline"]
    if ratio >= 1 - TOLERANCE:
        return "better" if ratio > 1 + TOLERANCE else "same"
    best_now = min(figure.ours) if figure.lower_is_better else max(figure.ours)
    worst_before = max(before) if figure.lower_is_better else min(before)
    reached = best_now <= worst_before if figure.lower_is_better else best_now >= worst_before
    if reached:
        return "overlap"
    limit = figure.limit
    return "within limit" if limit is not None and max(*figure.ours, *before) <= limit else "worse"


def _run(tree: Path, part: str, seconds: int, long_seconds: int) -> dict[str, dict[str, Any]]:
    """Run one round of one part with a checkout's own benchmark; return its figures by name."""
    command = [str(tree / ".venv" / "bin" / "python"), str(tree / "bench" / "bench.py"), "--rounds", "1"]
    command += ["--seconds", str(seconds), "--long-seconds", str(long_seconds), "--only", part]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree)
    if done.returncode:
        raise RuntimeError(f"part {part} failed in {tree}: {done.stderr.strip()}")
    document = json.loads((tree / "results" / "bench.json").read_text())
    return {figure["name"]: figure for figure in document["figures"]}


def _add(figures: dict[str, Figure], current: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    for name in (name for name in current if name in before):
        ours, theirs = current[name], before[name]
        figure = figures.setdefault(
            name,
            Figure(name, ours["unit"], limit=ours["limit"], lower_is_better=ours["lower_is_better"]),
        )
        figure.add(ours["value"], baseline=theirs["value"])


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
