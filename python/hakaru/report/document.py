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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.run_data import RunData
from hakaru.engine.contract import PresetModel
from hakaru.report import (
    calibrated,
    capture_files,
    charts,
    environment,
    findings,
    kind,
    lab_variants,
    link_checks,
    rule_book,
    scorecard,
)
from hakaru.report.blocks import Group
from hakaru.report.figures import Figure
from hakaru.report.lab import describe_lab, plan_of
from hakaru.study import Study
from hakaru.units import format_duration
from hakaru.wording import say, tenths

Json = dict[str, Any]
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
    groups = [_group(group) for group in report_kind.groups(summary, study, language)]
    for n, figure in enumerate((figure for group in groups for figure in group["figures"]), 1):
        figure["label"] = say(language, "figure", {"n": n})
    factors = {point["point"]: point["factors"] for point in summary["points"]}
    return {
        "language": language,
        "title": _localised(summary["study"]["title"], language),
        "question": _localised(summary["study"].get("question"), language),
        "expectation": _localised(summary["study"].get("expectation"), language),
        "run": summary["run"]["run"],
        "date": str(summary["run"].get("started") or "")[:10],
        "numbers": _numbers(summary, study, language),
        "notices": _notices(summary, language),
        "answer": [*_answer(summary, language), *scorecard.answer(summary, language)],
        "tiles": report_kind.tiles(summary, language),
        "groups": groups,
        "tables": report_kind.tables(summary, letters, language),
        "about_tables": report_kind.about_tables(summary, language),
        "sections": [
            *scorecard.section(summary, language),
            *report_kind.sections(summary, language),
            *rule_book.section(summary, language),
        ],
        "lab": _lab(lab, study, language),
        "method": _method(inputs.run, summary, language),
        "findings": findings.rows(summary, language),
        "expectations": [_expectation(e, language) for e in summary["expectations"]],
        "caveats": _caveats(summary, letters, language),
        "links": link_checks.groups(summary["links"], factors, language),
        "captures": capture_files.rows(summary, inputs.run_path, language),
        "captures_more": max(0, len(summary.get("captures") or []) - capture_files.SHOWN_MAX),
        "environment": environment.rows(summary["run"], _clean_all(inputs.run.machine), language),
        "redo": _redo(summary["run"]["kind"], _clean_all(inputs.run.run)),
        "say": lambda message, **values: say(language, message, values),
    }


def _clean_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(k): _clean_all(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean_all(v) for v in value]
    return clean(value) if isinstance(value, str) else value


def _localised_key(name: str, language: str) -> str:
    return name if language == "en" else f"{name}_{language}"


def _localised(text: Any, language: str) -> str:
    """A text of a study in one language. Studies of older versions may have text in one language
    only.
    """
    return str(text.get(language) or text.get("en") or "") if isinstance(text, dict) else str(text or "")


def _numbers(summary: Json, study: Study, language: str) -> list[str]:
    """Origin of the numbers and measuring time of each point, for the cover."""
    origins = dict.fromkeys(point["origin"] for point in summary["points"])
    words = [say(language, "list.separator").join(say(language, f"origin.{origin}") for origin in origins)]
    words.append(say(language, "cover.quick" if summary["run"].get("quick") else "cover.full"))
    counts = sorted({repetitions for point in summary["points"] if (repetitions := _repetitions(point))})
    if counts:
        n = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        time = study.measure.time
        message = "cover.repetitions" if time else "cover.repetitions.alone"
        words.append(say(language, message, {"n": n, "time": format_duration(time) if time else ""}))
    return [word for word in words if word]


def _repetitions(point: Json) -> int:
    return max((int(metric.get("n") or 0) for metric in point["metrics"].values()), default=0)


def _lab(lab: Json, study: Study, language: str) -> Json:
    """The lab, with its changes between points, and the calibrated parameters of the study."""
    described = describe_lab(lab, clean, language)
    calibrated_rows = [(clean(name), clean(value)) for name, value in calibrated.rows(study, language)]
    variants = [(clean(name), clean(changes)) for name, changes in lab_variants.rows(study, language)]
    shown = variants if described["drawing"] else []
    return described | {"about": [*described["about"], *calibrated_rows], "variants": shown}


def _notices(summary: Json, language: str) -> list[str]:
    notices = []
    if summary["run"].get("status") in ("running", "interrupted"):
        notices.append(say(language, f"status.{summary['run']['status']}"))
    if not summary["valid"]:
        notices.append(say(language, "status.invalid"))
    if any(_is_untranslated(summary["study"].get(name), language) for name in ("title", "question", "expectation")):
        notices.append(say(language, "study.untranslated"))
    return notices


def _is_untranslated(text: Any, language: str) -> bool:
    """Whether a text of the study has no translation, so that the English text stands in its
    place.
    """
    return language != "en" and isinstance(text, dict) and text.get(language) == text.get("en")


def _answer(summary: Json, language: str) -> list[Json]:
    """The chief findings, one paragraph per sweep, each with the name of the sweep once."""
    texts_by_name: dict[str, list[str]] = {}
    for finding in kind.of(summary["run"]["kind"]).chief_findings(summary):
        name = sentences.series(finding["where"], language)
        prefix = sentences.in_series(language, finding["where"], "", True)
        texts_by_name.setdefault(name, []).append(finding[_localised_key("text", language)].removeprefix(prefix))
    several = len(texts_by_name) > 1
    return [
        {"name": n if several else "", "text": sentences.sentences(language, *texts)}
        for n, texts in texts_by_name.items()
    ]


def _method(run: RunData, summary: Json, language: str) -> list[str]:
    study, plan = run.study, plan_of(run.lab)
    counts = {
        "points": len(summary["points"]),
        "repetitions": study.measure.repetitions,
        "seed": str(study.seed),
    }
    texts = [say(language, "method.points", counts)]
    kind_texts = kind.of(run.kind).method(summary, study, plan, language)
    texts += [clean(text) for text in kind_texts]
    # A run on a site used the arrays of the site, not those of the study.
    for array in () if run.is_site else study.storage.values():
        name = array.model.name if isinstance(array.model, PresetModel) else array.model.kind
        texts.append(say(language, "method.array", {"model": name, "lus": len(array.lus)}))
    texts.append(say(language, "method.statistics"))
    origins = dict.fromkeys(p["origin"] for p in summary["points"])
    texts += [say(language, f"method.origin.{o}") for o in origins if o in ("measured", "emulated", "simulated")]
    if run.run.get("quick"):
        texts.append(say(language, "method.quick"))
    duration_min = _minutes(run.run)
    return (
        [*texts, say(language, "method.took", {"minutes": tenths(duration_min, language)})] if duration_min else texts
    )


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
        "figures": [_figure(figure) for figure in group.figures],
    }


def _figure(figure: Figure) -> Json:
    return {
        "name": figure.name,
        "title": figure.title,
        "note": figure.note,
        "wide": charts.svg(figure.draw(charts.WIDE), figure.title),
        "narrow": charts.svg(figure.draw(charts.NARROW), figure.title),
    }


def _expectation(expectation: Json, language: str) -> Json:
    verdict = {True: "held", False: "breached", None: "unknown"}[expectation["held"]]
    texts = {
        "text": expectation[_localised_key("text", language)],
        "found": expectation[_localised_key("found", language)],
    }
    return texts | {"verdict": verdict, "word": say(language, f"verdict.{verdict}")}


def _letters(summary: Json) -> dict[str, str]:
    names = dict.fromkeys(c["caveat"] for p in summary["points"] for c in p["caveats"])
    return {name: chr(ord("a") + i) if i < 26 else str(i) for i, name in enumerate(names)}


def _caveats(summary: Json, letters: dict[str, str], language: str) -> list[Json]:
    """Each caveat once, with its text and its points. If texts differ, the one with the largest
    number is shown.
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
    order = ("invalid", "warning", "note")
    return sorted(caveats, key=lambda e: order.index(e["severity"]))


def _caveat(instances: list[Json], letter: str, places: list[str], language: str) -> Json:
    def size(caveat: Json) -> float:
        return max((abs(float(v)) for v in caveat["values"].values() if isinstance(v, (int, float))), default=0.0)

    worst = max(instances, key=size)
    text = _localised_key("text", language)
    return {
        "letter": letter,
        "severity": worst["severity"],
        "word": say(language, f"caveat.severity.{worst['severity']}"),
        "text": worst[text],
        "more": say(language, "caveats.largest") if len({c[text] for c in instances}) > 1 else "",
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
