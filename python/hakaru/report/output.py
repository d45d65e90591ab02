"""Output of the report of a run: a self-contained HTML file and a PDF for each language, and the
summary as JSON.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from hakaru.analysis import summarise
from hakaru.analysis.run_data import RunData
from hakaru.errors import UsageError
from hakaru.report import charts, csv_link, document, kind
from hakaru.report.fonts import FACES, FAMILY, face
from hakaru.report.paper import pdf
from hakaru.store import write_atomic
from hakaru.wording import LANGUAGES

FORMATS = ("html", "pdf", "json")
TEMPLATES = Path(__file__).parent / "templates"
_SECTION = re.compile(r'<section id="([a-z_]+)"[^>]*>\s*<h2>(.*?)</h2>', re.DOTALL)
# The space between a number and its unit.
_UNIT_OF_NUMBER = re.compile(
    r"(?<=\d) (?=(?:%|[kKMGT]?i?B(?:/s)?|[kMGT]?bit/s|[nµm]?s|IOPS|GHz|VMs?|台|回|個|秒)(?!\w))"
    r"|(?<=\bn) (?==)|(?<=\bn =) (?=\d)"
)

_CODE = re.compile(r"`([^`]+)`")


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
    return charts.save(figures[name].draw(charts.WIDE), figures[name].title, path)


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
    environment.filters["prose"] = prose
    environment.filters["csv"] = csv_link.href
    environment.filters["sections"] = sections
    environment.filters["phrases"] = phrases
    environment.filters["unbroken"] = unbroken
    css = (TEMPLATES / "report.css").read_text() + charts.DARK_CSS.read_text()
    drawn = environment.get_template("report.html.j2").render(**shown, css="@@FACES@@" + css)
    # The fonts come last, because they contain only the characters that the page uses.
    return drawn.replace("@@FACES@@", faces(str(Markup(drawn).striptags()) + css), 1)


def bound(text: str) -> str:
    """A sentence with no-break spaces between numbers and their units."""
    return _UNIT_OF_NUMBER.sub("\u00a0", text)


def prose(text: str) -> Markup:
    """A sentence as markup: `bound`, and with its parts in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(bound(text)))))


def sections(body: str) -> list[tuple[str, Markup]]:
    """Anchor and heading of each section of a page, for its table of contents."""
    return [(anchor, Markup(heading)) for anchor, heading in _SECTION.findall(body)]


_UNIT = r"\S*/\S*|（[^（）]*）"
_WORD = r"(?<![ァ-ヶー])[ァ-ヶー]{2,7}(?![ァ-ヶー])|(?<![一-龠])[一-龠]{2,5}(?![一-龠])"
_WHOLE = re.compile(f"({_UNIT})|({_WORD})")


def unbroken(text: str) -> Markup:
    """A heading as markup whose units (`MB/s`), Japanese parentheses and short words of katakana
    or kanji stay on one line.
    """
    shown, end = Markup(), 0
    for match in _WHOLE.finditer(text):
        name = "unit" if match[1] else "word"
        shown += text[end : match.start()]
        shown += Markup('<span class="{}">{}</span>').format(name, match[0])
        end = match.end()
    return shown + text[end:]


@functools.cache
def _phrase_parser() -> Any:
    from budoux import load_default_japanese_parser  # reads its model

    return load_default_japanese_parser()


def phrases(text: str, language: str = "ja") -> Markup | str:
    """A Japanese heading as markup that breaks lines between phrases, not inside words. Headings of
    other languages stay as they are.
    """
    if language != "ja":
        return text
    span = Markup('<span class="phrase">{}</span>')
    parts: list[str] = _phrase_parser().parse(text)
    return Markup("").join(
        Markup(" " if part[0].isspace() else "") + span.format(part.strip()) for part in parts if part.strip()
    )


def faces(text: str) -> str:
    """`@font-face` rules with fonts subset to the characters of `text`."""
    rule = '@font-face {{ font-family: "{}"; font-weight: {}; src: url({}) format("woff2"); }}\n'
    return "".join(rule.format(FAMILY, weight, face(weight, text)) for weight in FACES)


def _write(path: Path, raw: bytes) -> Path:
    write_atomic(path, lambda file: file.write(raw))
    return path
