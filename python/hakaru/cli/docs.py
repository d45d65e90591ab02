"""The command `docs`: pages of the documentation, which a wheel contains as well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from hakaru.errors import UsageError
from hakaru.suggest import closest

EXAMPLES = "Examples: hakaru docs; hakaru docs installation; hakaru docs docs/reference/lab.md | less"


def docs(
    page: Annotated[str | None, Parameter(name="PAGE", help="Name or path of a page. Default: list them.")] = None,
    /,
    *,
    lang: Annotated[
        Literal["en", "ja"] | None,
        Parameter(name="--lang", help="Language, if the page has it: en, ja. Default: that of the locale."),
    ] = None,
) -> int:
    """Print a page of the documentation (Markdown), or list all pages with their titles."""
    from hakaru.wording import language_of_locale

    language = lang or language_of_locale()
    pages = _pages()
    if page is None:
        from hakaru.terminal import print_rows

        print_rows(["page", "title"], [(name, _title(_in(language, path))) for name, path in pages.items()])
        return 0
    print(_in(language, _find(page, pages)).read_text(encoding="utf-8"), end="")
    return 0


def _in(language: str, path: Path) -> Path:
    """The file of a page in a language, or in English if there is none."""
    own = path.with_suffix(f".{language}.md")
    return own if own.is_file() else path


def _pages() -> dict[str, Path]:
    """Name → file: `guide/installation` of docs/guide/installation.md, `studies/vm-sweep` of the
    study's README.
    """
    from hakaru.study.load import shipped

    folder = shipped("docs")
    english = [path for path in sorted(folder.rglob("*.md")) if not path.name.endswith(".ja.md")]
    pages = {str(path.relative_to(folder).with_suffix("")): path for path in english}
    readmes = sorted(shipped("studies").glob("*/README.md"))
    return pages | {f"studies/{path.parent.name}": path for path in readmes}


def _find(page: str, pages: dict[str, Path]) -> Path:
    wanted = page.removeprefix("docs/").removesuffix(".md").removesuffix(".ja").removesuffix("/README")
    if wanted in pages:
        return pages[wanted]
    found = [name for name in pages if name.rpartition("/")[2] == wanted]
    if len(found) == 1:
        return pages[found[0]]
    if found:
        raise UsageError(f"several pages are named {page!r}", f"choose from {', '.join(found)}")
    near = closest(wanted, [*pages, *(name.rpartition("/")[2] for name in pages)])
    raise UsageError(f"no page named {page!r}", f"did you mean {near!r}?" if near else "`hakaru docs` lists them")


def _title(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("# ")[2]
    return first.partition("\n")[0]
