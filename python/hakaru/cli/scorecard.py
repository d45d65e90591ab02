"""The command `scorecard`: the published numbers of studies beside those of their newest runs."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from hakaru.cli.options import RunsFolder
from hakaru.output import print_json, print_text

EXAMPLES = "Examples: hakaru scorecard; hakaru scorecard vm-sweep --format markdown"


def scorecard(
    *studies: Annotated[
        str, Parameter(name="STUDY", help="IDs, folders or files of studies. Default: all with published numbers.")
    ],
    out: RunsFolder = None,
    format_: Annotated[
        Literal["text", "json", "markdown"], Parameter(name="--format", help="Form of the output.")
    ] = "text",
) -> int:
    """Compare the newest run of each study with its publication: published and measured value,
    error, and whether the number was predicted.
    """
    from hakaru.analysis.newest import cards
    from hakaru.store import runs_folder

    found = cards(studies, runs_folder(out))
    if format_ == "json":
        print_json([card.to_json() for card in found])
        return 0
    from hakaru.report import scorecard_page

    if format_ == "markdown":
        print(scorecard_page.markdown(found), end="")
        return 0
    from hakaru.report.scorecard import full_name
    from hakaru.terminal import print_rows
    from hakaru.translation import shown
    from hakaru.wording import language_of_locale

    language = language_of_locale()
    for card in found:
        print_text(scorecard_page.text(card, language))
        if card.run is not None:
            rows = [[shown(cell) for cell in scorecard_page.cells(row, language)] for row in card.scorecard["rows"]]
            print_rows([shown(name) for name in scorecard_page.columns()], rows)
            notes = {row["note"][language]: row for row in card.scorecard["rows"] if row["note"] and row["counted"]}
            notes |= {row["not_judged"][language]: row for row in card.scorecard["rows"] if row["not_judged"]}
            for note, row in notes.items():
                print(f"  {full_name(row, language)}: {note}")
    if len(found) > 1:
        print_text(scorecard_page.together(found))
    return 0
