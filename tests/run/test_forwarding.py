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

SLOW: dict[str, Any] = {
    "frame": 512,
    "search": {"lowest": 500.0, "highest": 4000.0, "budget": "4 s", "goals": [{"trial": "500 ms", "time": "1 s"}]},
    "latency": {"percent": [50], "time": "200 ms"},
}
"""Rates that every machine and device reaches, so that no frame may be lost."""
FLOODED: dict[str, Any] = {"search": SLOW["search"] | {"budget": "1 s"}, "latency": None}
"""A load of which only the flood before the search is of interest."""


def forwarding(folder: Path, **devices: list[str]) -> Path:
    """Write a study with these devices for frames in `one` direction and in `both`."""
    variables = {"device": {"sets": ["lab.device.forwards"]}, "direction": {"sets": ["load.direction"]}}
    factors = [{"device": names, "direction": [direction]} for direction, names in devices.items()]
    return written(folder, load=SLOW, variables=variables, factors=factors)


def records_of(hakaru: Hakaru, study: Path) -> list[dict[str, Any]]:
    result = hakaru.run("run", str(study), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    return RunReader(hakaru.only_run()).repetitions()


@pytest.mark.alone
def test_every_device_forwards_and_every_frame_is_accounted_for(hakaru: Hakaru, tmp_path: Path) -> None:
    study = forwarding(tmp_path / "study", both=["bridge", "routing", "switch"], one=["routing"])
    records = records_of(hakaru, study)
    devices = {(record["factors"]["device"], record["factors"]["direction"]) for record in records}
    assert devices == {("bridge", "both"), ("routing", "both"), ("switch", "both"), ("routing", "one")}
    for record in records:
        trials, direction = record["trials"], record["factors"]["direction"]
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
def test_ports_forward_a_flood_at_most_at_their_rate_and_count_every_frame_that_they_drop(
    hakaru: Hakaru, tmp_path: Path
) -> None:
    """`make calibrate` also searches for this rate, which needs an idle machine."""
    variables = {"device": {"sets": ["lab.device.forwards"]}, "frame": {"sets": ["load.frame"]}}
    study = written(
        tmp_path / "study",
        lab={"hosts": ["generator"], "device": {"port_rate": "20 Mbit/s"}},
        load=FLOODED,
        variables=variables,
        factors=[{"device": ["bridge", "routing"], "frame": [512]}],
    )
    records = records_of(hakaru, study)
    assert sorted(record["factors"]["device"] for record in records) == ["bridge", "routing"]
    for record in records:
        # It is repeated if processors stopped in it.
        *_, flood = [trial for trial in record["trials"]["log"] if trial["purpose"] == "flood"]
        (stream,) = flood["streams"]
        seconds = (flood["end_ns"] - flood["start_ns"]) / 1e9
        # Preamble and gap are 20 bytes. The queue, which holds 10 ms, is sent after the flood.
        assert 0 < stream["received"] / seconds < 1.05 * 20e6 / 8 / (512 + 20), flood
        located = sum(flood["device_losses"].values()) + sum(port["tx_dropped"] for port in flood["ports"])
        assert stream["lost"] == located
        assert flood["device_losses"]["device/right/queue"] > 0


@pytest.mark.alone
def test_frames_that_a_full_queue_drops_count_as_sent_and_lost(hakaru: Hakaru, tmp_path: Path) -> None:
    methods = ["af_xdp", "sendmmsg"]
    variables = {"frame": {"sets": ["load.frame"]}, "transmit": {"sets": ["load.transmit"]}}
    factors = [{"frame": [64], "transmit": methods}]
    records = records_of(hakaru, written(tmp_path / "study", load=FLOODED, variables=variables, factors=factors))
    assert sorted(record["factors"]["transmit"] for record in records) == methods
    for record in records:
        assert record["status"] == "done", record["error"]
        # It is repeated if processors stopped in it.
        *_, flood = [trial for trial in record["trials"]["log"] if trial["purpose"] == "flood"]
        lost = sum(stream["lost"] for stream in flood["streams"])
        dropped = sum(port["tx_dropped"] for port in flood["ports"])
        located = sum(flood["device_losses"].values())
        elsewhere = located + sum(port["ring_dropped"] + port["rx_dropped"] for port in flood["ports"])
        # A frame that is dropped and sent again would be a drop without a loss.
        assert lost == dropped + elsewhere, flood


def test_device_that_cannot_be_built_is_marked_and_the_run_continues(hakaru: Hakaru, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may load programs; tests/lab runs labs as an ordinary user too")
    records = records_of(hakaru, forwarding(tmp_path / "study", one=["bridge", "xdp"]))
    by_device = {record["factors"]["device"]: record for record in records}
    assert by_device["bridge"]["status"] == "done"
    assert by_device["xdp"]["status"] == "failed" and "XDP program" in by_device["xdp"]["error"]
    assert by_device["xdp"]["caveats"][0]["caveat"] == "device_failed"


def test_failed_device_is_tried_again_by_resume(hakaru: Hakaru, tmp_path: Path) -> None:
    study = forwarding(tmp_path / "study", one=["bridge"])
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
    result = hakaru.ask("plan", str(forwarding(tmp_path / "study", one=["bridge"])))
    assert result.returncode == 0 and "one search each, at most 4 s" in result.stdout, result
    assert json.loads((tmp_path / "study/study.yaml").read_text())["lab"]["device"]["forwards"] == "bridge"
