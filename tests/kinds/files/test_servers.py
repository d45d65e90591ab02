"""Whole studies with several file servers and clients, and with cold caches, in a lab."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import pages_of
from tests.fileserver.conftest import need_samba
from tests.kinds.files.segments import LOAD, segments
from tests.kinds.files.study import LAB, TREE, written
from tests.kinds.files.test_run import hakaru


def result(folder: Path) -> tuple[dict[str, Any], Path]:
    """The report of a run of the study in `folder`, and its run directory."""
    ran = hakaru(folder, "run", str(folder / "study.yaml"), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (folder / "runs").iterdir()
    return json.loads((run / "report" / "report.json").read_text()), run


def test_two_servers_with_two_clients_each_serve_together_and_leave_nothing(tmp_path: Path) -> None:
    need_samba()
    loads = LOAD | {"verify": True, "tree": TREE | {"scale": "1/1000"}}
    written(tmp_path, lab=segments(2, 2), load=loads, factors=[{"tools": [2], "servers": [1, 2], "clients": [2]}])
    summary, run = result(tmp_path)
    one, two = summary["points"]
    assert [each["clients"] for each in two["servers"]] == [["c-11", "c-12"], ["c-21", "c-22"]]
    mean = {name: estimate["mean"] for name, estimate in two["metrics"].items()}
    rates = [mean[f"files_per_s/{server}"] for server in ("fs-1", "fs-2")]
    assert min(rates) > 0 and sum(rates) == pytest.approx(mean["files_per_s"])
    assert mean["files_per_s/c-21"] + mean["files_per_s/c-22"] == pytest.approx(rates[1])
    assert mean["server_fastest_to_slowest"] == pytest.approx(max(rates) / min(rates))
    assert 0.5 < mean["server_jain_index"] <= 1
    assert one["metrics"]["server_jain_index"]["mean"] is None and len(one["servers"]) == 1
    record = json.loads((run / "repetitions" / "p02-1.json").read_text())
    assert set(record["file_servers"]) == {"fs-1", "fs-2"}
    engines = [engine for engine in record["engines"] if engine["engine"] == "files"]
    assert {engine["node"] for engine in engines} == {"c-11", "c-12", "c-21", "c-22"}
    # The trees of a server are divided among its clients, and every file is used.
    assert {engine["found"]["trees"] for engine in engines} == {2}
    assert all(engine["values"]["errors"] == 0 for engine in engines)
    servers = [finding for finding in summary["findings"] if finding["kind"] == "servers"]
    assert (
        "Together, the 2 file servers serve" in servers[1]["text"] and "2 台のファイルサーバー" in servers[1]["text_ja"]
    )
    pages = pages_of(run)
    assert "client of fs-2" in pages["en"] and "fs-2 のクライアント" in pages["ja"]
    assert list((tmp_path / "scratch").iterdir()) == []


# The disk also counts reads of other programs.
@pytest.mark.alone
def test_cold_files_behind_samba_are_read_from_the_disk(tmp_path: Path) -> None:
    need_samba()
    if file_system(tmp_path) == "tmpfs":
        pytest.skip(f"{tmp_path} is in memory")
    # Files of about 100 KB.
    tree = TREE | {"targets": 100, "scale": "1/10"}
    loads = {"to": {"smb": {}}, "tree": tree, "verify": True}
    written(tmp_path, load=loads, factors=[{"tools": [1], "cold": [False, True]}])
    summary, _ = result(tmp_path)
    warm, cold = summary["points"]
    assert warm["metrics"]["read_below_percent"]["mean"] < 50
    assert cold["metrics"]["read_below_percent"]["mean"] >= 90
    assert "cache_not_cold" not in {caveat["caveat"] for caveat in cold["caveats"]}


@pytest.mark.alone
def test_files_in_memory_are_never_cold(tmp_path: Path) -> None:
    folder = Path("/dev/shm") / f"hakaru-test-{tmp_path.name}"
    if file_system(folder.parent) != "tmpfs":
        pytest.skip("/dev/shm is not in memory")
    tree = TREE | {"targets": 100, "scale": "1/10"}
    load = {"to": {"directory": "small"}, "tree": tree, "cold": True}
    study = written(tmp_path, lab=LAB, load=load, factors=[{"tools": [1]}])
    ran = hakaru(tmp_path, "run", str(study), "--report", "json", HAKARU_FILES=str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    (point,) = json.loads((run / "report" / "report.json").read_text())["points"]
    (caveat,) = [each for each in point["caveats"] if each["caveat"] == "cache_not_cold"]
    assert caveat["values"]["percent"] < 50 and "at least 90 % were expected" in caveat["text"]
    assert list(folder.iterdir()) == []
    folder.rmdir()


def file_system(folder: Path) -> str:
    """Type of the file system of a folder."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
