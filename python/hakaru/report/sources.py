"""The publications whose numbers a report shows, each once."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def rows(summary: Json, language: str) -> list[Json]:
    """Title and full citation of each publication, in the order of the study."""
    cited: dict[str, str] = {}
    for publication in (*summary["scorecard"]["publications"], *summary["references"]):
        cited.setdefault(str(publication["title"][language]), str(publication["source"]))
    return [{"title": title, "source": source} for title, source in cited.items()]
