"""The findings of a report: paragraphs of the first page, and the entries of the section.

No sentence is shown twice, except in a long run (below). The first page has the chief findings, of
each bottleneck only the first sentence, which names it. The section has the rest, with the
evidence.

Up to `EACH_MAX` points, each point's bottleneck is an entry with its arithmetic. In a longer run,
points with the same bottleneck share one entry: the text of the first of them, and the names of the
others. Its numbers are those of the first, so none of its sentences stands for other entries. The
results of the run have the text of every point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import sentences
from hakaru.report.point_names import names
from hakaru.wording import has, say, tenths

Json = dict[str, Any]

EACH_MAX = 40
"""Number of bottlenecks up to which every point has an entry of its own. A page holds about
seven.
"""
FIRST_PAGE_MAX = 900
"""Number of characters of the paragraphs of the first page, as far as they are about several sets
of points.
"""
SHOWN_MAX = 6
"""Number of resources listed as the evidence of an entry, the busiest first."""


@dataclass(frozen=True)
class _Entry:
    """A finding taken apart: the name of its points, if its text begins with it, and its
    sentences.
    """

    finding: Json
    name: str
    sentences: tuple[str, ...]

    @property
    def is_limiter(self) -> bool:
        return bool(self.finding["kind"] == "limiter")


def on_first_page(chief: Sequence[Json]) -> list[Json]:
    """The chief findings for which the first page has room: those of the first points, at most
    `FIRST_PAGE_MAX` characters of English text.
    """
    lengths: dict[str, int] = {}
    for finding in chief:
        entry = _entry(finding, "en")
        lengths[entry.name] = lengths.get(entry.name, 0) + sum(map(len, _on_first_page(entry)))
    room = FIRST_PAGE_MAX
    shown: set[str] = set()
    for name, length in lengths.items():
        room -= length
        if shown and room < 0:
            break
        shown.add(name)
    return [finding for finding in chief if _entry(finding, "en").name in shown]


def paragraphs(chief: Sequence[Json], language: str) -> list[Json]:
    """The chief findings as paragraphs `{name, text}`, one for each set of points that share their
    sentences.
    """
    entries = [_entry(finding, language) for finding in chief]
    wheres: dict[str, list[_Entry]] = {}
    for entry in entries:
        for sentence in _on_first_page(entry):
            wheres.setdefault(sentence, []).append(entry)
    texts: dict[str, list[str]] = {}
    for sentence, holders in wheres.items():
        texts.setdefault(_names(holders, language), []).append(sentence)
    return [{"name": name, "text": sentences.sentences(language, *parts)} for name, parts in texts.items()]


def rows(summary: Json, language: str, chief: Sequence[Json] = ()) -> list[Json]:
    """The entries of the section in their order, as the template shows them. `chief`: the findings
    that `paragraphs` shows.
    """
    first_page: dict[str, set[str]] = {}
    for entry in (_entry(finding, language) for finding in chief):
        for sentence in _on_first_page(entry):
            first_page.setdefault(sentence, set()).add(entry.name)
    listed = [(_entry(finding, language), also) for finding, also in _listed(summary)]
    single = [entry for entry, also in listed if not also]
    counts = Counter(sentence for entry in single for sentence in dict.fromkeys(entry.sentences))
    # A sentence of several entries stands before them. If none begins with it, it refers to another
    # sentence of each, and stands after them.
    beginnings = {entry.sentences[0] for entry in single if entry.sentences}
    last = {sentence: entry for entry in single for sentence in entry.sentences}
    shown: list[Json] = []
    shared: set[str] = set()
    for entry, also in listed:
        own, is_on_first_page = [], False
        after: list[Json] = []
        for sentence in entry.sentences:
            holders = first_page.get(sentence, set())
            if entry.name in holders or (holders and entry.is_limiter):
                is_on_first_page = is_on_first_page or entry.name not in holders
            elif also or counts[sentence] == 1:
                own.append(sentence)
            elif sentence not in shared and (sentence in beginnings or last[sentence] is entry):
                shared.add(sentence)
                wheres = [e.finding["where"] for e in single if sentence in e.sentences]
                row = _row(entry.finding["kind"], "; ".join(names(wheres, language)), sentence)
                (shown if sentence in beginnings else after).append(row)
        evidence = _evidence(entry.finding, language)
        # An entry whose sentences all stand elsewhere still names its bottleneck, if theirs is that
        # of other points.
        if own or evidence or is_on_first_page:
            row = _row(entry.finding["kind"], entry.name, sentences.sentences(language, *own)) | evidence
            shown.append(row | {"label": _label(entry, language), "places": names(also, language)})
        shown += after
    return shown


def _entry(finding: Json, language: str) -> _Entry:
    text: str = finding["text" if language == "en" else f"text_{language}"]
    prefix = sentences.in_series(language, finding["where"], "", True)
    bare = text.removeprefix(prefix)
    name = sentences.series(finding["where"], language) if len(bare) < len(text) else ""
    return _Entry(finding, name, tuple(sentences.split(language, bare)))


def _on_first_page(entry: _Entry) -> tuple[str, ...]:
    return entry.sentences[:1] if entry.is_limiter else entry.sentences


def _names(holders: Sequence[_Entry], language: str) -> str:
    """The names of the points of some entries; empty if the run has no need to name them."""
    if not any(entry.name for entry in holders):
        return ""
    wheres = {entry.name: entry.finding["where"] for entry in holders}
    return "; ".join(names(wheres.values(), language))


def _listed(summary: Json) -> list[tuple[Json, list[Json]]]:
    """The findings of the section, each with the levels of further points that it covers."""
    findings: list[Json] = summary["findings"]
    limiters = [f for f in findings if f["kind"] == "limiter"]
    if len(limiters) <= EACH_MAX:
        return [(finding, []) for finding in findings]
    groups: dict[tuple[str | None, str | None], list[Json]] = {}
    for finding in limiters:
        groups.setdefault(_bottleneck(finding, summary["points"]), []).append(finding)
    others = {id(group[0]): group[1:] for group in groups.values()}
    listed = [f for f in findings if f["kind"] != "limiter" or id(f) in others]
    return [(f, [o["where"] for o in others.get(id(f), [])]) for f in listed]


def _bottleneck(finding: Json, points: list[Json]) -> tuple[str | None, str | None]:
    resource = next((p.get("resource") for p in points if p["factors"] == finding["where"]), None)
    return finding["limiter"], resource


def _row(kind: str, name: str, text: str) -> Json:
    return {"kind": kind, "name": name, "label": "", "text": text, "evidence": [], "evidence_of": "", "places": []}


def _label(entry: _Entry, language: str) -> str:
    """The bottleneck of the entry in a few words; empty for other findings."""
    message = f"limiter.{entry.finding.get('limiter')}"
    if not entry.is_limiter or not has(message):
        return ""
    return say(language, "findings.bottleneck", {"limiter": say(language, message)})


def _evidence(finding: Json, language: str) -> Json:
    """The utilisation behind a bottleneck; empty without one."""
    evidence = finding["evidence"]
    at_peak = evidence.get("at_peak") or {}
    if finding["kind"] != "limiter" or not at_peak:
        return {}
    ranked = sorted(at_peak.items(), key=lambda item: -item[1])[:SHOWN_MAX]
    heading = "evidence.at_point" if "port" in evidence or "jobs" in evidence else "evidence.at_limit"
    return {
        "evidence": [f"{sentences.resource(language, r)} {tenths(u, language)} %" for r, u in ranked],
        "evidence_of": say(language, heading),
    }
