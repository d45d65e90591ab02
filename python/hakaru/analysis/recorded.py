"""Measured sides of scorecards that outlive their runs (docs/scorecard.json).

    record(card)                the measured side of a card, as JSON
    recalled(loaded, recorded)  the card of a study as it is now, with a recorded measured side

The published numbers, the marks and the notes are those of the study as it is now, so only the
measured side is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from hakaru.analysis import newest, reference, scorecard
from hakaru.analysis.newest import Card, Run
from hakaru.analysis.rows import Measured, Row
from hakaru.errors import UsageError
from hakaru.study import Loaded, Study, expand
from hakaru.study.model import MEASURED_PARTS

Json = dict[str, Any]

OF_MEASURED = ("low", "high", "n", "points", "valid")
"""Fields of `Measured` that have the same name in a row as JSON."""
OF_ROW = ("unit", "error_percent", "not_judged")
"""Fields of `Row` that depend on the run, and have the same name in a row as JSON."""
RECORDED = ("published", "mean", *OF_MEASURED, *OF_ROW)


def record(card: Card) -> Json:
    """Return the measured side of a card: `run`, `rows` by their IDs, and `study`: a digest of the
    parts of the study that affect measured values, or null if these had changed after the run.

    Raises ValueError if the card has no run.
    """
    if card.run is None:
        raise ValueError(f"{card.study.id} has no run")
    run = {name: value for name, value in vars(card.run).items() if name != "changed"}
    measured = (row for row in card.scorecard["rows"] if row["points"] or row["not_judged"])
    return {
        "run": run,
        "study": None if card.run.changed else _digest(card.study, card.run.quick),
        "rows": {row["row"]: {name: row[name] for name in RECORDED} for row in measured},
    }


def recalled(loaded: Loaded, recorded: Json) -> Card:
    """The card of a study with a recorded measured side. A row that the study has got since then is
    not measured.

    Raises UsageError if the study lacks a recorded row, or if its published number is another one.
    """
    study = loaded.study
    compared = reference.compare_points(study, loaded.reference_rows, [])
    left = dict(recorded["rows"])
    rows = tuple(_measured(row, left.pop(row.id, None)) for row in compared.rows)
    if left or None in rows:
        message = f"the published numbers of {study.id} have changed after its run was recorded"
        raise UsageError(message, f"run it: `hakaru run {study.id}`")
    changed = recorded["study"] != _digest(study, recorded["run"]["quick"])
    known = replace(compared, rows=tuple(row for row in rows if row is not None))
    card = newest.card(loaded, None)
    return replace(card, run=Run(**recorded["run"], changed=changed), scorecard=scorecard.to_json(known))


def _measured(row: Row, recorded: Mapping[str, Any] | None) -> Row | None:
    """The row with its measured side; None if its published number was another one."""
    if recorded is None:
        return row
    if recorded["published"] != row.published:
        return None
    measured = Measured(value=recorded["mean"], **{name: recorded[name] for name in OF_MEASURED})
    return replace(row, measured=measured, **{name: recorded[name] for name in OF_ROW})


def _digest(study: Study, quick: bool) -> str:
    """A digest of the parts of a study that affect what a point measures. The number of repetitions
    does not.
    """
    form = expand(study, quick=quick)
    measure = form.measure.model_dump(mode="json", by_alias=True, exclude={"repetitions"})
    parts = {part: form.study.written[part] for part in MEASURED_PARTS} | {"measure": measure}
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
