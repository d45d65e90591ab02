"""Searches in real labs: frames through every kind of device, and devices that cannot be built."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import RunReader

from tests.kinds.packets.study import written
from tests.run.conftest import Hakaru

SLOW = {
    "frame": 512,
    "search": {"lowest": 500.0, "highest": 4000.0, "budget": "4 s", "goals": [{"trial": "500 ms", "time": "1 s"}]},
    "latency": {"percent": [50], "time": "200 ms"},
}
"""Rates that every machine and device reaches, so that no frame may be lost."""


def forwarding(folder: Path, devices: list[str], direction: str) -> Path:
    variables = {"device": {"sets": ["lab.device.forwards"]}}
    factors = [{"device": devices}]
    return written(folder, load=SLOW | {"direction": direction}, variables=variables, factors=factors)


def records_of(hakaru: Hakaru, study: Path) -> list[dict[str, Any]]:
    result = hakaru.run("run", str(study), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    return RunReader(hakaru.only_run()).repetitions()


@pytest.mark.alone
@pytest.mark.parametrize("direction", ["one", "both"])
def test_every_device_forwards_and_every_frame_is_accounted_for(hakaru: Hakaru, tmp_path: Path, direction: str) -> None:
    records = records_of(hakaru, forwarding(tmp_path / "study", ["bridge", "routing", "switch"], direction))
    assert sorted(record["factors"]["device"] for record in records) == ["bridge", "routing", "switch"]
    for record in records:
        trials = record["trials"]
        assert {"tester", "flood", "search"} <= {trial["purpose"] for trial in trials["log"]}
        searched = [trial for trial in trials["log"] if trial["purpose"] in ("search", "latency")]
        for trial in searched:
            assert len(trial["streams"]) == (1 if direction == "one" else 2)
            for stream in trial["streams"]:
                assert stream["sent"] == stream["received"] + stream["lost"]
        valid = [trial for trial in searched if trial.get("is_valid", not trial["faults"])]
        assert valid, "this machine sends some thousand frames per second in time"
        received = sum(stream["received"] for trial in valid for stream in trial["streams"])
        assert received > 0


@pytest.mark.alone
@pytest.mark.parametrize("transmit", ["af_xdp", "sendmmsg"])
def test_frames_that_a_full_queue_drops_count_as_sent_and_lost(hakaru: Hakaru, tmp_path: Path, transmit: str) -> None:
    study = written(tmp_path / "study", load=SLOW | {"frame": 64, "transmit": transmit, "latency": None})
    (record,) = records_of(hakaru, study)
    assert record["status"] == "done", record["error"]
    (flood,) = [trial for trial in record["trials"]["log"] if trial["purpose"] == "flood"]
    lost = sum(stream["lost"] for stream in flood["streams"])
    dropped = sum(port["tx_dropped"] for port in flood["ports"])
    elsewhere = sum(flood["device_losses"].values()) + sum(p["ring_dropped"] + p["rx_dropped"] for p in flood["ports"])
    # A frame that is dropped and sent again would be a drop without a loss.
    assert lost == dropped + elsewhere, flood


@pytest.mark.alone
def test_device_that_cannot_be_built_is_marked_and_the_run_continues(hakaru: Hakaru, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may load programs; tests/lab runs labs as an ordinary user too")
    records = records_of(hakaru, forwarding(tmp_path / "study", ["bridge", "xdp"], "one"))
    by_device = {record["factors"]["device"]: record for record in records}
    assert by_device["bridge"]["status"] == "done"
    assert by_device["xdp"]["status"] == "failed" and "XDP program" in by_device["xdp"]["error"]
    assert by_device["xdp"]["caveats"][0]["caveat"] == "device_failed"


@pytest.mark.alone
def test_failed_device_is_tried_again_by_resume(hakaru: Hakaru, tmp_path: Path) -> None:
    study = forwarding(tmp_path / "study", ["bridge"], "one")
    records_of(hakaru, study)
    run = hakaru.only_run()
    path = next((run / "repetitions").glob("*.json"))
    done = json.loads(path.read_text())
    failed = done | {"status": "failed", "error": "no device", "hint": "try again", "engines": []}
    path.write_text(json.dumps(failed))
    result = hakaru.run("run", str(study), "--resume", run.name, "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done" and record["measure"]["start_ns"] > done["measure"]["start_ns"]
    refused = hakaru.run("run", str(study), "--resume", run.name, "--json", "--report", "none")
    assert refused.returncode == 2 and "is finished" in refused.stderr


def test_plan_names_the_device(hakaru: Hakaru, tmp_path: Path) -> None:
    result = hakaru.run("plan", str(forwarding(tmp_path / "study", ["bridge"], "one")))
    assert result.returncode == 0 and "one search each, at most 4 s" in result.stdout, result
    assert json.loads((tmp_path / "study/study.yaml").read_text())["lab"]["device"]["forwards"] == "bridge"
