"""The check that caches were empty before a load, of each point, and the report of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.kinds.files.report import REPORT
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report.blocks import Row, Table
from hakaru.study import Study
from hakaru.wording import say

from tests.analysis.run_files import RepetitionData, write
from tests.kinds.files import test_analysis as plain
from tests.kinds.files.study import TREE, fields
from tests.kinds.files.test_chain import LAB, to
from tests.kinds.files.test_chain_analysis import SCHEMA, Pt, Rep, build

FILES_PER_S, ROUND = 500.0, TREE["trees"] * TREE["targets"]
VARIABLES: dict[str, Any] = {
    "case": {
        "once": {"load.repeat": False},
        "again": {},
        "half": {},
        "users": {"load.users": {"think": "1 s"}, "load.repeat": False},
        "warm": {"load.cold": False},
    }
}


def build_of_array(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    """Tools use all files within two seconds, from one second before the measuring phase. The array
    delivers them once, or half of them; `once` reads another file each time.
    """
    content, samples, histograms = build({}, rep)
    for second in range(-1, plain.SECONDS + 2):
        files = FILES_PER_S * (second + 1)
        below = {"once": files, "half": min(files, ROUND) / 2}.get(factors["case"], min(files, ROUND))
        samples.add("storage", "array", plain.START + second * plain.SECOND, {"lu/0": {"read_bytes": 0.8e6 * below}})
    return content, samples, histograms


def study_of(cases: list[str]) -> dict[str, Any]:
    measure = {"time": "4 s", "repetitions": 1, "sample_interval": "1 s"}
    load = to() | {"cold": True, "repeat": True}
    return fields(lab=LAB, load=load, factors=[{"case": cases}], measure=measure) | {"variables": VARIABLES}


def summary_of(folder: Path, cases: list[str], reps: int = 1) -> dict[str, Any]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    points = [Pt({"case": case}, [Rep(FILES_PER_S)] * reps) for case in cases]
    run = write(folder, {"study": study_of(cases), "lab": described}, points, build_of_array)
    summary = summarise(run)
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    return summary


def test_trees_that_are_used_again_are_judged_by_their_first_round(tmp_path: Path) -> None:
    once, again, half = summary_of(tmp_path, ["once", "again", "half"], reps=2)["points"]
    assert [point["metrics"]["read_below_percent"]["mean"] for point in (once, again, half)] == [
        pytest.approx(100),
        pytest.approx(25),
        pytest.approx(12.5),
    ]
    assert [point["caches"]["percent"] for point in (once, again, half)] == pytest.approx([100, 100, 50])
    assert [point["caches"]["cold"] for point in (once, again, half)] == [True, True, False]
    assert again["caches"]["layer"] == "lu" and again["caches"]["drives_percent"] is None
    marked = [[each["caveat"] for each in point["caveats"]].count("cache_not_cold") for point in (once, again, half)]
    assert marked == [0, 0, 1]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_report_states_the_caches_of_each_point(tmp_path: Path, language: str) -> None:
    cases = ["once", "half", "users", "warm"]
    summary = summary_of(tmp_path, cases)
    table = caches_table(summary, language)
    assert table is not None
    words = [[str(getattr(cell, "text", cell)) for cell in row.cells] for row in table.rows if isinstance(row, Row)]
    states = ("cold", "not_cold", "emptied", "kept")
    assert [row[:2] for row in words] == [
        [case, say(language, f"caches.{state}")] for case, state in zip(cases, states, strict=True)
    ]
    assert [row[3] for row in words[:2]] == ["100.0", "50.0"]
    texts = REPORT.method(summary, Study.model_validate(study_of(cases)), None, language)
    assert say(language, "method.files.cold.repeat") in texts


def test_report_of_warm_loads_has_no_table_of_caches(tmp_path: Path) -> None:
    assert caches_table(summary_of(tmp_path, ["warm"]), "en") is None


def caches_table(summary: dict[str, Any], language: str) -> Table | None:
    letters = {caveat["caveat"]: "a" for point in summary["points"] for caveat in point["caveats"]}
    title = say(language, "table.files.caches")
    return next((table for table in REPORT.tables(summary, letters, language) if table.caption.startswith(title)), None)
