"""The part of a kind that reports use: table for the terminal, sections, tiles and figures.

Implemented in `hakaru.kinds` and by other packages; `of` returns it.
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
from hakaru.report import point_names
from hakaru.report.blocks import Group, Section, Table
from hakaru.store import typed
from hakaru.study import Study

Json = dict[str, Any]


@dataclass(frozen=True)
class TerminalTable:
    """Columns of the terminal's table after the factors: titles, and the cells of each point in the
    order of the summary.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class ReportKind(ABC):
    """The contents of reports of this kind. `summary` is the result of `AnalysisKind.analyse`.

    Only `table` must be implemented. Without the rest, a report has only the parts common to all
    reports.
    """

    @abstractmethod
    def table(self, summary: Json) -> TerminalTable:
        """Cells of each point for the terminal, printed when the run has ended."""

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings that answer the study's question. Default: all."""
        return list(summary["findings"])

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The chief numbers at the head of the report, as `{title, value, small}`. Default:
        none.
        """
        return []

    def tiles_about(self, summary: Json, language: str) -> str:
        """The points that the tiles describe, if the run has others. Default: none."""
        return ""

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """Sentences about the method in addition to those of all reports. Default: none.

        `study` is the study in the form of the run. `plan` is the lab of the run; None on a site.
        """
        return []

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Figures of the section "Results". Default: none."""
        return []

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Tables of the section "All points". `letters`: caveat → its letter. Default: none."""
        return []

    def about_tables(self, summary: Json, language: str) -> str:
        """A sentence above these tables. Default: none."""
        return ""

    def sections(self, summary: Json, language: str) -> list[Section]:
        """Additional sections, after the tables or before the results. Default: none."""
        return []

    def point_name(self, point: Json, language: str) -> str:
        """Name of a point that is in no sweep. Default: its factors."""
        return sentences.series(point["factors"], language) or str(point["point"])

    def point_names(self, points: Sequence[Json], language: str) -> list[str]:
        """Names of points for a list. Default: their factors; points that differ in one share a
        name.
        """
        if not any(point["factors"] for point in points):
            return [str(point["point"]) for point in points]
        return point_names.names((point["factors"] for point in points), language)

    def redo(self, run: Json) -> str:
        """The command that repeats the measurement in the same order. `run` is the content of
        run.json.
        """
        options = run.get("options") or {}
        words = ["hakaru", "run", typed.study(run)]
        words += ["--quick"] if run.get("quick") else []
        words += ["--seed", str(run.get("seed"))]
        if options.get("repetitions") is not None:
            words += ["--repetitions", str(options["repetitions"])]
        for factor, levels in (options.get("only") or {}).items():
            words += ["--only", f"{factor}={','.join(map(str, levels))}"]
        # run.json contains the site, but not the name of its file.
        return shlex.join([*words, *typed.options(run, typed.SITE, typed.OUT)])


def of(name: str) -> ReportKind:
    """The report part of the kind called `name` (`run.kind` of a summary). Raises UsageError if it
    is not installed.
    """
    return cast(ReportKind, kind.named(name).report)
