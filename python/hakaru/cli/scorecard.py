"""The command `scorecard`: the published numbers of studies beside those of their newest runs."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from hakaru.cli.options import RunsFolder
from hakaru.output import print_json

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

    for card in found:
        print(scorecard_page.text(card))
        if card.run is not None:
            print_rows(scorecard_page.columns(), [scorecard_page.cells(row) for row in card.scorecard["rows"]])
            notes = {row["note"]["en"]: row for row in card.scorecard["rows"] if row["note"] and row["counted"]}
            notes |= {row["not_judged"]["en"]: row for row in card.scorecard["rows"] if row["not_judged"]}
            for note, row in notes.items():
                print(f"  {full_name(row, 'en')}: {note}")
    return 0
