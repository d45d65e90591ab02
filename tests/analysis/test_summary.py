"""The summary: its schema, its sums, and runs without results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.analysis.report_model import FindingReport, report_schema
from hakaru.errors import UsageError
from pydantic import ValidationError

from tests.analysis.small_run import Pt, Rep, write_run

SCHEMA = Path(__file__).parents[2] / "schema" / "report.schema.json"


def check(summary: dict[str, Any]) -> None:
    """Check that a summary matches the schema and is plain JSON without NaN."""
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    json.dumps(summary, allow_nan=False)


def test_checked_in_schema_is_up_to_date() -> None:
    assert json.loads(SCHEMA.read_text()) == report_schema(), "run `make schema`"


def test_field_unknown_to_the_model_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        FindingReport.model_validate(
            {"kind": "peak", "where": {}, "text": "a", "text_ja": "b", "limiter": None, "evidence": {}, "extra": 1}
        )


def test_summary_of_a_study_matches_the_schema(invented_run: Path) -> None:
    summary = summarise(invented_run)
    check(summary)
    assert json.loads((invented_run / "summary.json").read_text()) == summary
    assert not list(invented_run.glob(".*writing"))
    assert len(summary["points"]) == 6
    assert {f["kind"] for f in summary["findings"]} == {"peak", "limiter", "decline", "scalability", "reference"}


def test_metrics_follow_from_the_counters(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"vms": 2}, [Rep()] * 3)]))
    metrics = {name: m["mean"] for name, m in summary["points"][0]["metrics"].items()}
    assert metrics["iops"] == pytest.approx(2000)
    assert metrics["read_iops"] + metrics["write_iops"] == metrics["iops"]
    assert metrics["read_mb_per_s"] == pytest.approx(1400 * 4096 / 1e6)
    assert metrics["mib_per_s"] == pytest.approx(2000 / 256)
    assert metrics["latency_ms_mean"] == pytest.approx(10)
    assert metrics["latency_ms_p99"] == pytest.approx(10, rel=1e-3)
    assert metrics["outstanding_mean"] == pytest.approx(20)
    assert metrics["initiator_cpu_us_per_io"] == pytest.approx(0.1e6 / 2000)


def test_time_before_the_measuring_phase_does_not_count(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep(reads=(9999, 700, 700), writes=(300,) * 3)])])
    file = run / "repetitions" / "p01-1.json"
    repetition = json.loads(file.read_text())
    repetition["measure"]["start_ns"] += 1_000_000_000
    file.write_text(json.dumps(repetition))
    assert summarise(run)["points"][0]["metrics"]["read_iops"]["mean"] == pytest.approx(1400)


def test_point_whose_repetitions_all_failed_is_null_and_invalid(tmp_path: Path) -> None:
    failed = Rep(status="failed", error="the array vanished")
    summary = summarise(write_run(tmp_path, [Pt({"vms": 1}, [failed] * 3), Pt({"vms": 2}, [Rep()] * 3)]))
    check(summary)
    empty = summary["points"][0]
    assert empty["metrics"]["iops"] == {"mean": None, "low": None, "high": None, "n": 0, "unit": "1/s"}
    assert empty["valid"] is False
    assert "no_data" in {c["caveat"] for c in empty["caveats"]}
    assert summary["points"][1]["valid"] is True


@pytest.mark.parametrize(
    "rep",
    [
        Rep(reads=(0,) * 8, writes=(0,) * 8, histograms=False),
        Rep(reads=(0,) * 8, writes=(0,) * 8, errors=50),
        Rep(reads=(700,), writes=(300,)),
    ],
    ids=["no request at all", "errors alone", "one sample"],
)
def test_unusual_points_have_a_summary(tmp_path: Path, rep: Rep) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"vms": 1}, [rep])]))
    check(summary)
    assert summary["points"][0]["metrics"]["iops"]["mean"] is not None


def test_run_without_any_finished_repetition_has_a_summary(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"vms": 1}, []), Pt({"vms": 2}, [])]))
    check(summary)
    assert summary["sweeps"][0]["limiter"] == "undetermined"


def test_run_without_points_has_a_summary(tmp_path: Path) -> None:
    check(summarise(write_run(tmp_path, [])))


def test_points_without_a_numeric_factor_have_a_summary(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"pattern": "a"}, [Rep()]), Pt({"pattern": "b"}, [Rep()])]))
    check(summary)
    assert summary["sweeps"] == []


def test_damaged_run_is_a_clear_error(tmp_path: Path, invented_run: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(invented_run, broken)
    next(iter((broken / "samples").iterdir())).write_bytes(b"PAR1 no more")
    with pytest.raises(UsageError, match=r"\.parquet"):
        summarise(broken)
    (broken / "lab.json").write_text("{")
    with pytest.raises(UsageError, match=r"lab\.json"):
        summarise(broken)
    with pytest.raises(UsageError, match=r"run\.json"):
        summarise(tmp_path)


def test_study_that_was_changed_after_the_run_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 1}, [Rep()])])
    study = json.loads((run / "study.json").read_text())
    (run / "study.json").write_text(json.dumps(study | {"seed": "x"}))
    with pytest.raises(UsageError, match=r"study\.json cannot be read") as e:
        summarise(run)
    assert "changed after the run" in e.value.hint


def test_recorded_factors_that_do_not_fit_the_study_name_the_directory_and_the_point(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"speed": "fast"}, [Rep()])], variables={"speed": {"slow": {"load.image": "1 GiB"}}})
    with pytest.raises(UsageError, match=r"point p01 .*speed=fast") as e:
        summarise(run)
    assert str(run) in e.value.message
    assert "study.json" in e.value.hint
