"""Reports of runs for customers, as HTML and PDF, in English and Japanese, and single figures.

    render(run_dir, ["html", "pdf"], ["en", "ja"])   → paths
    figure(run_dir, "iops", Path("iops.png"))        → path

`document` defines the contents, `figures` the drawings, `charts` their appearance; `output` writes
files. All numbers come from the summary that `hakaru.analysis` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def render(
    run_dir: Path,
    formats: Sequence[str],
    langs: Sequence[str],
    out: Path | None = None,
    *,
    summary: dict[str, Any] | None = None,
) -> list[Path]:
    """See `hakaru.report.output.render`."""
    from hakaru.report.output import render as render_report  # importing it takes seconds

    return render_report(run_dir, formats, langs, out, summary=summary)


def figure(run_dir: Path, name: str, path: Path, *, language: str = "en", series: int = 0) -> Path:
    """See `hakaru.report.output.figure`."""
    from hakaru.report.output import figure as draw_figure

    return draw_figure(run_dir, name, path, language=language, series=series)


__all__ = ["figure", "render"]
