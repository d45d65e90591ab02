"""Output of the report of a run: a self-contained HTML file and a PDF for each language, and the
summary as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from hakaru.analysis import summarise
from hakaru.analysis.run_data import RunData
from hakaru.errors import UsageError
from hakaru.report import charts, document, kind
from hakaru.report.fonts import FACES, FAMILY, face
from hakaru.store import write_atomic
from hakaru.wording import LANGUAGES

FORMATS = ("html", "pdf", "json")
TEMPLATES = Path(__file__).parent / "templates"
# Text up to the end of a sequence of hiragana.
_PHRASE = re.compile(r"[^\u3040-\u309f]*[\u3040-\u309f]*")
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
    """Write the report of a run and return the paths, JSON first, then by language.

    `formats` are from `html`, `pdf`, `json`; `langs` from `en`, `ja`. `out` is a folder, created if
    missing, by default `RUN/report`. The run is analysed again unless its `summary` is given.
    Raises `UsageError` if the folder is not a run or a format or language is unknown, and
    `EnvironmentError_` if a file cannot be written.
    """
    for setting, names, known in (("format", formats, FORMATS), ("language", langs, LANGUAGES)):
        for name in names:
            if name not in known:
                raise UsageError(f"unknown report {setting} {name!r}", f"choose from {', '.join(known)}")
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
    groups = kind.of(summary["run"]["kind"]).groups(summary, RunData.read(run_dir).study, language)
    figures = {f.name: f for group in groups[series : series + 1] for f in group.figures}
    if name not in figures:
        raise UsageError(f"the run has no figure {name!r}", f"it has {', '.join(figures) or 'none'}")
    chart = figures[name].draw(charts.WIDE).properties(background="white")
    if path.suffix == ".png":
        return _write(path, charts.png(chart))
    if path.suffix == ".svg":
        return _write(path, charts.svg(chart, figures[name].title).encode())
    raise UsageError(f"{path}: unknown type of figure", "use a file name that ends in .svg or .png")


def make_folder(folder: Path) -> None:
    """Create a folder with its parents. Raises `EnvironmentError_` with the reason."""
    from hakaru.store.files import environment_error

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise environment_error(folder, "cannot create the folder", e) from e


def page(shown: dict[str, Any]) -> str:
    """The HTML of a report. Everything except the style sheet and the drawings is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["bound"] = bound
    environment.filters["phrases"] = phrases
    environment.filters["unbroken"] = unbroken
    css = (TEMPLATES / "report.css").read_text()
    drawn = environment.get_template("report.html.j2").render(**shown, css="@@FACES@@" + css)
    # The fonts come last, because they contain only the characters that the page uses.
    return drawn.replace("@@FACES@@", faces(str(Markup(drawn).striptags()) + css), 1)


def bound(text: str) -> str:
    """A sentence with no-break spaces between numbers and their units."""
    return _UNIT_OF_NUMBER.sub("\u00a0", text)


def unbroken(text: str) -> Markup:
    """A heading as markup whose units, such as `MB/s`, stay on one line."""
    span = Markup('<span class="unit">{}</span>')
    return Markup(" ").join(span.format(word) if "/" in word else word for word in text.split(" "))


def phrases(text: str) -> Markup:
    """A Japanese heading as markup that breaks lines between phrases, not inside words.

    A phrase ends after hiragana (particles and endings), which is a good approximation and needs no
    dictionary. Text without hiragana is one phrase, whose spaces still allow breaks.
    """
    span = Markup('<span class="phrase">{}</span>')
    parts = [part for part in _PHRASE.findall(text) if part]
    return Markup("").join(
        Markup(" " if part[0].isspace() else "") + span.format(part.strip()) for part in parts if part.strip()
    )


def faces(text: str) -> str:
    """`@font-face` rules with fonts subset to the characters of `text`."""
    rule = '@font-face {{ font-family: "{}"; font-weight: {}; src: url({}) format("woff2"); }}\n'
    return "".join(rule.format(FAMILY, weight, face(weight, text)) for weight in FACES)


def pdf(html: str) -> bytes:
    """The PDF of a report's HTML. Only `data:` URLs are fetched."""
    from weasyprint import HTML  # takes a second to import
    from weasyprint.urls import URLFetcher

    return bytes(HTML(string=html, url_fetcher=URLFetcher(allowed_protocols=("data",))).write_pdf())


def _write(path: Path, raw: bytes) -> Path:
    write_atomic(path, lambda file: file.write(raw))
    return path
