"""From a run directory to files: one self-contained HTML, one PDF, or the summary as JSON, per
language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hakaru.analysis import summarise
from hakaru.errors import UsageError
from hakaru.report import charts, document, kind
from hakaru.report.fonts import FACES, FAMILY, face
from hakaru.store import RunReader, write_atomic
from hakaru.wording import LANGUAGES

FORMATS = ("html", "pdf", "json")
TEMPLATES = Path(__file__).parent / "templates"
# The space between a number and its unit.
_UNIT_OF_NUMBER = re.compile(r"(?<=\d) (?=(?:%|[kKMGT]?i?B(?:/s)?|[kMGT]?bit/s|[nµm]?s|IOPS|GHz|台|秒)(?!\w))")


def render(
    run_dir: Path,
    formats: Sequence[str],
    langs: Sequence[str],
    out: Path | None = None,
    *,
    summary: dict[str, Any] | None = None,
) -> list[Path]:
    """Write the report of a run and give the paths, in the order asked for.

    `formats` are of `html`, `pdf`, `json`; `langs` of `en`, `ja`; `out` is a folder, made if
    absent, by default `RUN/report`. The run is analysed anew unless its `summary` is given. Raises
    `UsageError` for what is not a run or not a format, `EnvironmentError_` where files cannot be
    written.
    """
    for given, known in ((formats, FORMATS), (langs, LANGUAGES)):
        for one in given:
            if one not in known:
                raise UsageError(f"no {one!r} report", f"choose from {', '.join(known)}")
    summary = summary or summarise(run_dir)
    folder = out or run_dir / "report"
    make_folder(folder)
    written: list[Path] = []
    if "json" in formats:
        written.append(_write(folder / "report.json", (run_dir / "summary.json").read_bytes()))
    if not {"html", "pdf"} & set(formats):
        return written
    inputs = document.load(run_dir, summary, folder)
    for language in langs:
        html = page(document.build(inputs, language))
        if "html" in formats:
            written.append(_write(folder / f"report.{language}.html", html.encode()))
        if "pdf" in formats:
            written.append(_write(folder / f"report.{language}.pdf", pdf(html)))
    return written


def figure(run_dir: Path, name: str, path: Path, *, language: str = "en", series: int = 0) -> Path:
    """Draw one figure of a run (`iops`, `latency`, …) into `path`, a .svg or .png file.

    `series` counts the groups of figures of the run: one for each curve of a sweep. Raises
    `UsageError` for a figure that the run does not have.
    """
    summary = summarise(run_dir)
    study = RunReader(run_dir).read("study.json")
    groups = kind.of(summary["run"]["kind"]).groups(summary, study, language)
    figures = {f.name: f for group in groups[series : series + 1] for f in group.figures}
    if name not in figures:
        raise UsageError(f"the run has no figure {name!r}", f"it has {', '.join(figures) or 'none'}")
    chart = figures[name].draw(charts.WIDE).properties(background="white")
    if path.suffix == ".png":
        return _write(path, charts.png(chart))
    if path.suffix == ".svg":
        return _write(path, charts.svg(chart, figures[name].title).encode())
    raise UsageError(f"{path}: not a figure", "name it .svg or .png")


def make_folder(folder: Path) -> None:
    """Make a folder, or say why not."""
    from hakaru.store.files import environment_error

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise environment_error(folder, "cannot make the folder", e) from e


def page(shown: dict[str, Any]) -> str:
    """The HTML of a report. Everything but our own style sheet and drawings is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["bound"] = bound
    css = (TEMPLATES / "report.css").read_text()
    drawn = environment.get_template("report.html.j2").render(**shown, css="@@FACES@@" + css)
    # Which letters the page needs is known once it is there: the fonts come last.
    return drawn.replace("@@FACES@@", faces(str(Markup(drawn).striptags()) + css), 1)


def bound(text: str) -> str:
    """A sentence whose numbers stay on one line with their units."""
    return _UNIT_OF_NUMBER.sub("\u00a0", text)


def faces(text: str) -> str:
    """`@font-face` rules with the faces cut down to what `text` needs."""
    rule = '@font-face {{ font-family: "{}"; font-weight: {}; src: url({}) format("woff2"); }}\n'
    return "".join(rule.format(FAMILY, weight, face(weight, text)) for weight in FACES)


def pdf(html: str) -> bytes:
    """The PDF of a report's HTML. Nothing is fetched but `data:` URLs."""
    from weasyprint import HTML  # takes a second to import
    from weasyprint.urls import URLFetcher

    return bytes(HTML(string=html, url_fetcher=URLFetcher(allowed_protocols=("data",))).write_pdf())


def _write(path: Path, raw: bytes) -> Path:
    write_atomic(path, lambda file: file.write(raw))
    return path
