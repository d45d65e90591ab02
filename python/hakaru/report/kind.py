"""The part of a kind that reports use: rows of the terminal's table, sections, tiles and figures.

Implemented in `hakaru.kinds` and by other packages; asked for through `of`.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hakaru import kind
from hakaru.analysis import sentences
from hakaru.lab.plan import LabPlan
from hakaru.report.blocks import Group, Section, Table
from hakaru.study import Study

Json = dict[str, Any]


@dataclass(frozen=True)
class TerminalTable:
    """The terminal's table beside the factors: titles of columns, and cells of each point in the
    summary's order.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class ReportKind(ABC):
    """The contents of reports of this kind. `summary` is as `AnalysisKind.analyse` gave it.

    Only the table must be written; a report without the rest has the parts that all reports have.
    """

    @abstractmethod
    def table(self, summary: Json) -> TerminalTable:
        """Cells of each point for the terminal, printed when the run has ended."""

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings that answer the study's question. Default: all."""
        return list(summary["findings"])

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The numbers at the head of the report: `{title, value, small}`. Default: none."""
        return []

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """Sentences about the method beside those that all reports have. Default: none.

        `study` is the study in the form of the run. `plan` is the lab of the run; None on a site.
        """
        return []

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Figures of the section "Results". Default: none."""
        return []

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Tables of the section "All points"; `letters` are those of caveats, by name. Default:
        none.
        """
        return []

    def about_tables(self, summary: Json, language: str) -> str:
        """A sentence above these tables. Default: none."""
        return ""

    def sections(self, summary: Json, language: str) -> list[Section]:
        """Sections of this kind alone, after the tables or before the results. Default: none."""
        return []

    def point_name(self, point: Json, language: str) -> str:
        """Name of a point outside of any sweep. Default: its factors."""
        return sentences.series(point["factors"], language) or str(point["point"])

    def redo(self, run: Json) -> str:
        """The command that measures the same again, in the same order. `run` is run.json."""
        options = run.get("options") or {}
        words = ["hakaru", "run", str(run.get("study"))]
        words += ["--quick"] if run.get("quick") else []
        words += ["--seed", str(run.get("seed"))]
        if options.get("repetitions") is not None:
            words += ["--repetitions", str(options["repetitions"])]
        for factor, levels in (options.get("only") or {}).items():
            words += ["--only", f"{factor}={','.join(map(str, levels))}"]
        command = [*map(str, run.get("command") or []), ""]
        if run.get("site") and "--site" in command:  # run.json has the site, not the name of its file
            words += ["--site", command[command.index("--site") + 1]]
        return shlex.join(words)


def of(name: str) -> ReportKind:
    """The part of the kind of that name: a summary's `run.kind`."""
    return cast(ReportKind, kind.named(name).report)
