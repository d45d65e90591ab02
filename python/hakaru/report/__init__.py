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

from hakaru.errors import EnvironmentError_
from hakaru.extras import import_weasyprint, is_installed

CHARTS = ("altair", "vl_convert", "fontTools")
"""Packages of the extra `report` that every report with figures needs."""


def can_draw() -> bool:
    """Whether the packages that draw figures are installed."""
    return all(is_installed(package) for package in CHARTS)


def default_formats() -> tuple[str, ...]:
    """The formats of a report if the user names none: HTML, and PDF if the system has Pango."""
    try:
        import_weasyprint()
    except EnvironmentError_:
        return ("html",)
    return ("html", "pdf")


def check_packages(formats: Sequence[str] | None) -> None:
    """Check that the packages which the formats need are installed, and Pango if PDF is named.
    `formats` is None if the user names none. Raises EnvironmentError_ otherwise, so that a run ends
    before it has measured anything.
    """
    named = ("html",) if formats is None else formats
    needed = [*(CHARTS if set(named) & {"html", "pdf"} else ()), *(("weasyprint",) if "pdf" in named else ())]
    missing = [package for package in needed if not is_installed(package)]
    if missing:
        raise EnvironmentError_(
            f"reports need the package {missing[0]}, which is not installed",
            "install hakaru with its extra `report` (docs/guide/installation.md), or leave reports out: --report none",
        )
    if "pdf" in named:
        import_weasyprint()


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


__all__ = ["can_draw", "check_packages", "default_formats", "figure", "render"]
