"""The report as data: everything the template shows, in one language, as plain strings.

All numbers come from the summary and are formatted by `hakaru.wording`, so that HTML, PDF and JSON
cannot disagree. Nothing here is markup except the SVG of figures and of the lab, which hakaru draws
itself.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.run_data import RunData
from hakaru.caveats import Caveat, worst_of_each
from hakaru.engine.contract import PresetModel
from hakaru.report import (
    capture_files,
    charts,
    conditions,
    findings,
    first_page,
    goals,
    kind,
    precision,
    rule_book,
    scorecard,
    sources,
)
from hakaru.report.blocks import Group, Section, without_empty_columns
from hakaru.report.figures import Figure
from hakaru.report.lab import plan_of
from hakaru.report.once import Once
from hakaru.study import Study
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
_SEVERITIES = ("invalid", "warning", "note")
# C0 and C1 controls, and characters that reorder or hide the text after them.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a report."""

    summary: Json
    run: RunData
    run_path: str = ".."
    """Relative path from the folder of the report to the run directory."""


def clean(text: object) -> str:
    """Text from a study, a site or a peer, with control and direction-changing characters made
    visible.
    """
    return _UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", str(text))


def build(inputs: Inputs, language: str) -> Json:
    """Everything that the template needs, in one language."""
    summary, study, lab = _clean_all(inputs.summary), inputs.run.study, inputs.run.lab
    report_kind = kind.of(summary["run"]["kind"])
    letters = _letters(summary)
    others = [finding for finding in report_kind.chief_findings(summary) if finding["kind"] != "goal"]
    all_chief = [*goals.findings(summary), *others]
    chief = findings.on_first_page(all_chief)
    groups = [_group(group) for group in report_kind.groups(summary, study, language)]
    _label(groups, language)
    lead = _taken_lead(groups)
    shown_groups = [group for group in groups if group["figures"] or (group["name"] and group["is_empty"])]
    once = Once(language)
    sections = [
        *scorecard.section(summary, language),
        *report_kind.sections(summary, language),
        *rule_book.section(summary, language),
    ]
    # In the order of the page, so that an explanation stands where it is needed first.
    before = [_shown_once(section, once) for section in sections if section.before_results]
    for group in shown_groups:
        if group["name"]:  # the page shows no `about` of other groups
            group["about"] = once.text(group["about"])
    tables = once.tables(without_empty_columns(report_kind.tables(summary, letters, language)))
    after = [_shown_once(section, once) for section in sections if not section.before_results]
    return {
        "language": language,
        "title": summary["study"]["title"][language],
        "question": summary["study"]["question"][language],
        "expectation": summary["study"]["expectation"][language],
        "run": summary["run"]["run"],
        "date": str(summary["run"].get("started") or "")[:10],
        "badge": first_page.badge(summary, study, language),
        "notices": _notices(summary, _clean_all(inputs.run.run), language),
        "answer": [*findings.paragraphs(chief, language), *scorecard.answer(summary, language)],
        "answer_more": len(all_chief) - len(chief),
        "tiles": [*goals.tiles(summary, language), *report_kind.tiles(summary, language)],
        "tiles_about": report_kind.tiles_about(summary, language),
        "lead": lead,
        "next_steps": first_page.next_steps(summary, _clean_all(inputs.run.run), report_kind, language),
        "groups": shown_groups,
        "tables": tables,
        "about_tables": report_kind.about_tables(summary, language),
        "sections": [*before, *after],
        "lab": conditions.of_lab(lab, study, summary, clean, language),
        "method": [text for text in map(once.text, _method(inputs.run, summary, language)) if text],
        "findings": findings.rows(summary, language, chief),
        "expectations": [_expectation(e, language) for e in summary["expectations"]],
        "caveats": _caveats(summary, letters, language),
        "captures": capture_files.rows(summary, inputs.run_path, language),
        "captures_more": max(0, len(summary.get("captures") or []) - capture_files.SHOWN_MAX),
        "environment": conditions.of_machine(summary["run"], _clean_all(inputs.run.machine), language),
        "sources": sources.rows(summary, language),
        "redo": _redo(summary["run"]["kind"], _clean_all(inputs.run.run)),
        "say": lambda message, **values: say(language, message, values),
    }


def _shown_once(section: Section, once: Once) -> Section:
    return replace(section, tables=once.tables(section.tables))


def _clean_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(k): _clean_all(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean_all(v) for v in value]
    return clean(value) if isinstance(value, str) else value


def _localised_key(name: str, language: str) -> str:
    return name if language == "en" else f"{name}_{language}"


def _notices(summary: Json, run: Json, language: str) -> list[str]:
    notices = []
    status = summary["run"].get("status")
    if status in ("running", "interrupted"):
        notices.append(say(language, f"status.{status}"))
    if status == "failed":
        values = {"error": str(run.get("error") or "").rstrip("."), "hint": str(run.get("hint") or "").rstrip(".")}
        form = "hint" if values["hint"] else "error" if values["error"] else "alone"
        notices.append(say(language, f"status.failed.{form}", values))
    if not summary["valid"]:
        notices.append(say(language, "status.invalid"))
    if any(_is_untranslated(summary["study"][name], language) for name in ("title", "question", "expectation")):
        notices.append(say(language, "study.untranslated"))
    return notices


def _is_untranslated(text: Mapping[str, str], language: str) -> bool:
    """Whether a text of the study has no translation, so that the English text stands in its
    place.
    """
    return language != "en" and text[language] == text["en"]


def _method(run: RunData, summary: Json, language: str) -> list[str]:
    study, plan = run.study, plan_of(run.lab)
    repetitions = _finished(run, summary) or [study.measure.repetitions]
    counts = {
        "points": len(summary["points"]),
        "count": len(summary["points"]),
        "repetitions": first_page.range_text(repetitions),
        "seed": str(study.seed),
    }
    message = "method.points.once" if repetitions == [1] else "method.points"
    texts = goals.method(summary, study, language) or [say(language, message, counts)]
    texts += precision.method(summary, study, language)
    kind_texts = kind.of(run.kind).method(summary, study, plan, language)
    texts += [clean(text) for text in kind_texts]
    texts += _warm_ups(run, summary, language)
    # A run on a site used the arrays of the site, not those of the study.
    texts += [] if run.is_site else _arrays(study, language)
    texts.append(say(language, "method.statistics"))
    origins = dict.fromkeys(p["origin"] for p in summary["points"])
    texts += [say(language, f"method.origin.{o}") for o in origins if o in ("measured", "emulated", "simulated")]
    if run.run.get("quick"):
        texts.append(say(language, "method.quick"))
    duration_min = _minutes(run.run)
    return (
        [*texts, say(language, "method.took", {"minutes": tenths(duration_min, language)})] if duration_min else texts
    )


def _warm_ups(run: RunData, summary: Json, language: str) -> list[str]:
    """How long the warm-ups took, if they ended when the rate was steady; nothing if every
    repetition had the same one.
    """
    records = [record for point in summary["points"] for record in run.records(str(point["point"]))]
    found = [record["warm_up"] for record in records if record["status"] == "done" and "warm_up" in record]
    if not found:
        return []
    seconds = [each["seconds"] for each in found]
    low, high = (number(end, language) for end in (min(seconds), max(seconds)))
    shown = low if low == high else say(language, "range", {"low": low, "high": high})
    steady = sum(each["steady"] for each in found)
    return [say(language, "method.warm_ups", {"seconds": shown, "n": len(found), "steady": steady})]


def _arrays(study: Study, language: str) -> list[str]:
    """The models of the arrays, with their names if there are several. Equal arrays share a
    sentence.
    """
    names: dict[tuple[str, int], list[str]] = {}
    for name, array in study.storage.items():
        model = array.model.name if isinstance(array.model, PresetModel) else array.model.kind
        if model == "array":
            model = say(language, "method.array.described")
        names.setdefault((model, len(array.lus)), []).append(clean(name))
    message = "method.array" if len(study.storage) == 1 else "method.array.named"
    separator = say(language, "list.separator")
    return [
        say(language, message, {"names": separator.join(of), "model": clean(model), "lus": lus, "count": lus})
        for (model, lus), of in names.items()
    ]


def _finished(run: RunData, summary: Json) -> list[int]:
    """The numbers of repetitions that points have, ascending."""
    records = (run.records(str(point["point"])) for point in summary["points"])
    return sorted({sum(record["status"] == "done" for record in of_point) for of_point in records})


def _minutes(run: Json) -> float | None:
    try:
        started, ended = (dt.datetime.fromisoformat(str(run[k])) for k in ("started", "ended"))
    except (KeyError, ValueError):
        return None
    return round((ended - started).total_seconds() / 60, 1)


def _group(group: Group) -> Json:
    return {
        "name": clean(group.name),
        "about": clean(group.about),
        "is_empty": not group.figures,
        "figures": [_figure(figure) for figure in group.figures],
    }


def _figure(figure: Figure) -> Json:
    wide, narrow = figure.draw(charts.WIDE), figure.draw(charts.NARROW)
    return {
        "name": figure.name,
        "title": figure.title,
        "note": figure.note,
        "series": charts.series_of(wide),
        "wide": charts.svg(wide, figure.title),
        "narrow": charts.svg(narrow, figure.title),
    }


def _label(groups: list[Json], language: str) -> None:
    """Number the figures. A note that an earlier figure has is replaced by a reference to it."""
    figures = [figure for group in groups for figure in group["figures"]]
    noted: dict[str, int] = {}
    for n, figure in enumerate(figures, 1):
        figure["label"] = say(language, "figure", {"n": n})
        first = noted.setdefault(figure["note"], n)
        if first != n:
            figure["note"] = say(language, "figure.note.as", {"n": first})
    with_figures = [group for group in groups if group["figures"]]
    # Figures about all series belong to a group without a name.
    for group in (group for group in with_figures if len(with_figures) > 1 and group["name"]):
        for figure in group["figures"]:
            figure["title"] = say(language, "series", {"series": group["name"], "text": figure["title"]})


def _taken_lead(groups: list[Json]) -> Json | None:
    """The figure of the first page, which is the first one. It is taken out of its group."""
    group = next((group for group in groups if group["figures"]), None)
    return group["figures"].pop(0) if group else None


def _expectation(expectation: Json, language: str) -> Json:
    verdict = {True: "held", False: "breached", None: "unknown"}[expectation["held"]]
    texts = {
        "text": expectation[_localised_key("text", language)],
        "found": expectation[_localised_key("found", language)],
    }
    return texts | {"verdict": verdict, "word": say(language, f"verdict.{verdict}")}


def _letters(summary: Json) -> dict[str, str]:
    """The caveats of points in the order of their list, the most severe first, each with its
    letter.
    """
    severities: dict[str, str] = {}
    for point in summary["points"]:
        for caveat in point["caveats"]:
            severities.setdefault(caveat["caveat"], caveat["severity"])
    names = sorted(severities, key=lambda name: _SEVERITIES.index(severities[name]))
    return {name: chr(ord("a") + i) if i < 26 else str(i) for i, name in enumerate(names)}


def _caveats(summary: Json, letters: dict[str, str], language: str) -> list[Json]:
    """Each caveat once, with its text and its points. If texts differ, that of the worst is shown;
    if the caveat has a place (a link), that of the worst at each place.
    """
    caveats = [_caveat([c], "", [say(language, "caveats.run")], language) for c in summary["caveats"]]
    report_kind = kind.of(summary["run"]["kind"])
    for name, letter in letters.items():
        affected = [(p, c) for p in summary["points"] for c in p["caveats"] if c["caveat"] == name]
        points = list({point["point"]: point for point, _ in affected}.values())
        places = report_kind.point_names(points, language)
        if len(points) == len(summary["points"]) > 3:
            places = [say(language, "caveats.all")]
        caveats.append(_caveat([c for _, c in affected], letter, places, language))
    return sorted(caveats, key=lambda e: _SEVERITIES.index(e["severity"]))


def _caveat(instances: list[Json], letter: str, places: list[str], language: str) -> Json:
    caveats = [caveat for each in instances if (caveat := Caveat.from_json(each)) is not None]
    shown = [sentences.caveat(language, caveat) for caveat in worst_of_each(caveats)]
    texts = {each[_localised_key("text", language)] for each in instances}
    severity = instances[0]["severity"]
    return {
        "letter": letter,
        "severity": severity,
        "word": say(language, f"caveat.severity.{severity}"),
        "text": (" " if language == "en" else "").join(shown),
        "more": say(language, "caveats.worst") if len(texts) > len(shown) else "",
        "places": places,
    }


def _redo(kind_name: str, run: Json) -> list[str]:
    """The command that repeats the measurement, and the original command if it differs."""
    command, repeat = run.get("command"), kind.of(kind_name).redo(run)
    original = shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")
    return [repeat, "" if original == repeat else original]


def load(run_dir: Path, summary: Json, folder: Path) -> Inputs:
    """Load the inputs of a report that is written into `folder`. Raises `UsageError` like
    `RunData.read`.
    """
    run_path = Path(os.path.relpath(run_dir.resolve(), folder.resolve())).as_posix()
    return Inputs(summary, RunData.read(run_dir), run_path)
