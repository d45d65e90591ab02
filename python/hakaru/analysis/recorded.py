"""Measured sides of scorecards that outlive their runs (docs/scorecard.json).

    record(card)               the measured side of a card, as JSON
    later(kept, found)         the one of two records that counts
    cards(studies, records)    the cards of studies as they are now, with recorded measured sides

The published numbers, the marks and the notes are those of the study as it is now, so only the
measured side is recorded, with digests of what it was measured by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from hakaru.analysis import newest, reference, scorecard
from hakaru.analysis.newest import Card, Run
from hakaru.analysis.rows import Measured, Row
from hakaru.errors import UsageError
from hakaru.study import Loaded, Study, expand
from hakaru.study.model import MEASURED_PARTS
from hakaru.study.references import TableReference

Json = dict[str, Any]

OF_MEASURED = ("low", "high", "n", "points", "valid")
"""Fields of `Measured` that have the same name in a row as JSON."""
OF_ROW = ("unit", "error_percent", "not_judged")
"""Fields of `Row` that depend on the run, and have the same name in a row as JSON."""
JUDGING = {"note", "name", "publication", "calibrated", "by_definition"}
"""Fields of a reference that do not affect the measured side of its rows."""


def record(card: Card) -> Json:
    """Return the measured side of a card that has a run: `run`, `study`, a digest of the parts of
    the study that affect measured values, or null if these had changed after the run, and `rows` by
    their IDs. A row has the digest of its reference.
    """
    assert card.run is not None, "only measured cards are recorded"
    run = {name: value for name, value in vars(card.run).items() if name != "changed"}
    definitions = _definitions(card.study)
    rows = {}
    for row in card.scorecard["rows"]:
        if row["points"] or row["not_judged"]:
            fields = {name: row[name] for name in ("published", "mean", *OF_MEASURED, *OF_ROW)}
            rows[row["row"]] = {"reference": definitions[_source(row["table"], row["metric"], row["row"])], **fields}
    return {
        "run": run,
        "study": None if card.run.changed else _measured_parts(card.study, card.run.quick),
        "rows": rows,
    }


def later(kept: Json, found: Json) -> Json:
    """Return the record of the run that was started later; of one run `found`, because it may have
    been continued after it was recorded.
    """
    return kept if str(kept["run"]["started"]) > str(found["run"]["started"]) else found


def cards(studies: Sequence[Loaded], records: Mapping[str, Json]) -> list[Card]:
    """The cards of studies. One without a record has no run.

    Raises UsageError if a record is damaged, or if it has rows that the study lacks or defines in
    another way.
    """
    return [_card(loaded, records.get(loaded.study.id)) for loaded in studies]


def _card(loaded: Loaded, recorded: Json | None) -> Card:
    """The card of a study. Rows added to the study after the run have no measured value."""
    study, card = loaded.study, newest.card(loaded, None)
    if recorded is None:
        return card
    hint = f"measure it again: `make scorecard STUDIES={study.id}`"
    compared = reference.compare_points(study, loaded.reference_rows, [])
    definitions = _definitions(study)
    try:
        left = dict(recorded["rows"])
        rows = []
        for row in compared.rows:
            kept = left.pop(row.id, None)
            rows.append(row if kept is None else _with(row, kept, definitions[_source(row.table, row.metric, row.id)]))
        run = Run(**recorded["run"], changed=recorded["study"] != _measured_parts(study, recorded["run"]["quick"]))
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise UsageError(f"the record of {study.id} is damaged", hint) from e
    if left or None in rows:
        raise UsageError(f"the published numbers of {study.id} are not those of its record", hint)
    known = replace(compared, rows=tuple(row for row in rows if row is not None))
    return replace(card, run=run, scorecard=scorecard.to_json(known))


def _with(row: Row, recorded: Mapping[str, Any], definition: str) -> Row | None:
    """The row with its recorded measured side; None if it is another number now."""
    if (recorded["published"], recorded["reference"]) != (row.published, definition):
        return None
    measured = Measured(value=recorded["mean"], **{name: recorded[name] for name in OF_MEASURED})
    return replace(row, measured=measured, **{name: recorded[name] for name in OF_ROW})


def _source(table: str | None, metric: str, row: str) -> str:
    """The key of the reference that a row comes from, in `_definitions`."""
    return row if table is None else f"{table}/{metric}"


def _definitions(study: Study) -> dict[str, str]:
    """Digests of the references, which select what a row measures. A table has one for each
    metric.
    """
    digests: dict[str, str] = {}
    for each in study.reference:
        parts = each.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=JUDGING)
        if isinstance(each, TableReference):
            columns = parts.pop("metrics")
            for name in columns:
                digests[f"{each.table}/{name}"] = _digest(parts | {"metrics": {name: columns[name]}})
        else:
            digests[each.id] = _digest(parts)
    return digests


def _measured_parts(study: Study, quick: bool) -> str:
    """A digest of the parts of a study that affect what a point measures. The number of repetitions
    does not.
    """
    form = expand(study, quick=quick)
    changed = form.study.model_copy(update={"measure": form.measure.model_copy(update={"repetitions": 1})})
    parts = changed.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=set(MEASURED_PARTS))
    return _digest(parts)


def _digest(parts: Json) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
