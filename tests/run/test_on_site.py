"""Runs on existing equipment: our own array and tgt on loopback."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from hakaru.store import RunReader

from tests.peers.tgt import LUN, TARGET_NAME, tgt
from tests.run.conftest import Hakaru, LoopbackArray, until

WriteSite = Callable[..., Path]
MEASURED = (0, 5)
"""Exit codes of a run with all its results: on a busy machine, a point may be invalid."""


def test_finished_run_has_everything_that_a_report_needs(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = write_site(array.portal, array.target_name, expendable=True)
    result = hakaru.run("run", str(study), "--site", str(site), "--json")
    assert result.returncode in MEASURED, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    names = [e["event"] for e in events]
    assert names[0] == "run_started" and names[-1] == "done"
    assert names.count("repetition") == 6
    assert "sample" in names
    directory = hakaru.only_run()
    reader = RunReader(directory)
    run = reader.read("run.json")
    assert (run["status"], run["origin"], run["run"]) == ("done", "measured", directory.name)
    study_json = reader.read("study.json")
    order = [f"{r['point']}-{r['repetition']}" for r in reader.repetitions()]
    assert order == [f"{o['point']}-{o['repetition']}" for o in study_json["order"]]
    for point in reader.read("summary.json")["points"]:
        assert point["metrics"]["iops"]["mean"] > 0
        assert point["metrics"]["errors_per_s"]["mean"] == 0
        assert point["origin"] == "measured"
        assert {"cpu/machine", "cpu/initiator"} <= point["utilisation"].keys()
    assert {p.suffix for p in (directory / "report").iterdir()} == {".html", ".pdf"}
    assert all(Path(p).is_file() for p in events[-1]["reports"])
    assert "CPU of this machine" in (directory / "report" / "report.en.html").read_text()


def test_all_engines_are_sampled_over_the_entire_measuring_time(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = write_site(array.portal, array.target_name, expendable=True)
    arguments = ["run", str(study), "--site", str(site), "--only", "vms=3", "--repetitions", "1", "--report", "none"]
    assert hakaru.run(*arguments).returncode in MEASURED
    reader = RunReader(hakaru.only_run())
    (record,) = reader.repetitions()
    samples = reader.samples(record["point"], 1).to_pylist()
    for engine in ("initiator", "watch"):
        instants = {row["at_ns"] for row in samples if row["engine"] == engine}
        assert min(instants) <= record["measure"]["start_ns"] < record["measure"]["end_ns"] <= max(instants)
    reads = [row["value"] for row in samples if row["entity"] == "vms" and row["name"] == "reads"]
    assert reads == sorted(reads) and reads[-1] > 0
    assert {f"vm/vm{i:02}" for i in (1, 2, 3)} <= {row["entity"] for row in samples}
    histograms = reader.histograms(record["point"], 1).to_pylist()
    whole = {(h["entity"], h["name"]) for h in histograms if h["at_ns"] is None}
    assert {("vms", "read_latency_ns"), ("vms", "write_latency_ns")} <= whole


def test_nothing_is_written_without_permission(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = write_site(array.portal, array.target_name)
    result = hakaru.ask("run", str(study), "--site", str(site))
    assert result.returncode == 2
    assert "nothing was written" in result.stderr and "expendable: true" in result.stderr
    assert not hakaru.runs.exists()
    only_reads = hakaru.run("run", str(study), "--site", str(site), "--only", "pattern=reads", "--report", "none")
    assert only_reads.returncode in MEASURED, only_reads.stderr
    run = RunReader(hakaru.only_run()).read("run.json")
    assert {"link_unchecked", "not_expendable"} <= {c["caveat"] for c in run["caveats"]}


def test_interrupted_run_keeps_finished_repetitions_and_resume_completes_it(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    with hakaru.start("run", str(study), "--site", site, "--json") as process:
        until(process, "repetition", 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr is not None and "--resume" in process.stderr.read()
    directory = hakaru.only_run()
    reader = RunReader(directory)
    assert reader.read("run.json")["status"] == "interrupted"
    kept = {p.name: p.stat().st_mtime_ns for p in (directory / "repetitions").iterdir()}
    assert len(kept) >= 2
    resumed = hakaru.run("run", str(study), "--site", site, "--resume", "latest", "--report", "none")
    assert resumed.returncode in MEASURED, resumed.stderr
    assert hakaru.only_run() == directory
    assert reader.read("run.json")["status"] == "done"
    assert len(reader.repetitions()) == 6
    assert {n: (directory / "repetitions" / n).stat().st_mtime_ns for n in kept} == kept
    again = hakaru.ask("run", str(study), "--site", site, "--resume", "latest")
    assert again.returncode == 2 and "is finished" in again.stderr


def test_run_whose_reader_closes_the_pipe_is_interrupted_and_kept(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    with hakaru.start("run", str(study), "--site", site, "--json") as process:
        until(process, "repetition", 1)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(120) == 128 + signal.SIGPIPE
        assert "Traceback" not in process.stderr.read()
    assert RunReader(hakaru.only_run()).read("run.json")["status"] == "interrupted"


def test_killed_run_stays_partial_and_can_be_resumed_with_other_texts(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    with hakaru.start("run", str(study), "--site", site, "--json") as process:
        until(process, "repetition", 1)
        process.kill()
    assert hakaru.only_run().suffix == ".partial"
    study.write_text(re.sub(r"(?m)^title: .*$", "title: Renamed", study.read_text()))
    resumed = hakaru.run("run", str(study), "--site", site, "--resume", "latest", "--report", "none")
    assert resumed.returncode in MEASURED, resumed.stderr
    assert hakaru.only_run().suffix == ""


def test_resume_refuses_a_study_that_has_changed_and_other_options(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    with hakaru.start("run", str(study), "--site", site, "--json") as process:
        until(process, "run_started")
        process.kill()
    resume = ("run", str(study), "--site", site, "--resume", "latest")
    text = study.read_text()
    for old, new in (("queue_depth: 4", "queue_depth: 8"), ("seed: 7", "seed: 8")):
        assert old in text
        study.write_text(text.replace(old, new))
        result = hakaru.ask(*resume)
        assert result.returncode == 2
        assert "study or site has changed" in result.stderr
    study.write_text(text)
    result = hakaru.ask(*resume, "--seed", "3")
    assert result.returncode == 2 and "cannot differ from those of the run to resume" in result.stderr


def test_vanished_target_ends_the_run_with_exit_code_7_and_keeps_finished_repetitions(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    with hakaru.start("run", str(study), "--site", site, "--json") as process:
        until(process, "repetition", 1)
        until(process, "sample", 1)
        array.kill()
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 7, stderr
    assert "error: initiator on this-host: " in stderr
    assert "repetitions are kept" in stderr and "--resume" in stderr
    reader = RunReader(hakaru.only_run())
    assert reader.read("run.json")["status"] == "failed"
    assert len(reader.repetitions()) >= 1


def test_refusing_portal_ends_the_run_with_exit_code_7_and_is_named(
    hakaru: Hakaru, study: Path, write_site: WriteSite
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        portal = f"127.0.0.1:{closed.getsockname()[1]}"
        result = hakaru.run("run", str(study), "--site", str(write_site(portal, "iqn.x", expendable=True)), "--quiet")
    assert result.returncode == 7, result.stderr
    assert portal in result.stderr and "hint:" in result.stderr


def test_unwritable_folder_ends_with_exit_code_3(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    site = str(write_site(array.portal, array.target_name, expendable=True))
    result = hakaru.ask("run", str(study), "--site", site, "--out", "/proc/runs")
    assert result.returncode == 3
    assert "/proc" in result.stderr and "--out" in result.stderr


def test_verified_run_of_a_correct_target_finds_no_error(
    hakaru: Hakaru, study: Path, array: LoopbackArray, write_site: WriteSite
) -> None:
    study.write_text(study.read_text().replace("repetitions: 2,", "repetitions: 1, verify: true,"))
    site = write_site(array.portal, array.target_name, expendable=True)
    result = hakaru.run("run", str(study), "--site", str(site), "--only", "vms=3", "--report", "none")
    # Exit code 6 would mean wrong data.
    assert result.returncode in MEASURED, result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done"


def test_target_of_another_vendor_is_loaded_like_ours(
    hakaru: Hakaru, study: Path, tmp_path: Path, write_site: WriteSite
) -> None:
    with tgt(tmp_path, 64 << 20) as target:
        site = write_site(target.portal, TARGET_NAME, expendable=True, lun=LUN)
        result = hakaru.run("run", str(study), "--site", str(site), "--repetitions", "1", "--report", "none", "--json")
    assert result.returncode in MEASURED, result.stderr
    points = RunReader(hakaru.only_run()).read("summary.json")["points"]
    assert len(points) == 3
    assert all(p["metrics"]["iops"]["mean"] > 0 and p["metrics"]["errors_per_s"]["mean"] == 0 for p in points)
