"""Texts without the sentences that an earlier text of the same report has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hakaru.analysis import sentences
from hakaru.report.blocks import Table


class Once:
    """The sentences shown so far, in the order of the report."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._shown: set[str] = set()

    def tables(self, tables: Sequence[Table]) -> list[Table]:
        """The tables, each with the sentences of its caption that are new, or with all of them if
        none is: every table has a caption.
        """
        return [replace(table, caption=self.text(table.caption) or table.caption) for table in tables]

    def text(self, text: str) -> str:
        """The sentences of a text that are new."""
        new = [s for s in sentences.split(self._language, text) if s not in self._shown]
        self._shown |= set(new)
        return sentences.sentences(self._language, *new)
