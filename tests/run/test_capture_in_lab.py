"""A study with packet captures: the captures and the counters of the initiator have the same
commands and phases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import RunReader

from tests.cli.command import run_here
from tests.run.conftest import Hakaru

pytestmark = pytest.mark.alone

RTT_NS = 50_000_000
REQUEST_BYTES = 256 << 10
BURST_BYTES = 64 << 10

# A write takes four R2Ts of one round trip each and one round trip for its response, a read takes
# one. A burst is sent at once: it fits into the first window of TCP, which does not shrink when
# idle.
STUDY = """\
format: 1
id: captured
title: {en: Captured, ja: キャプチャー}
question: {en: Do both tell the same?, ja: 一致するか}
expectation: {en: They do., ja: 一致する}
origin: emulated
lab:
  hosts: [kvm]
  arrays: [array]
  switches: {core: {}}
  links:
    kvm: {between: [kvm, core], rate: 200 Mbit/s, sustained: 1 Mbit/s, queue: 4 MiB}
    array: {between: [array, core], rate: 200 Mbit/s, sustained: 1 Mbit/s, queue: 4 MiB, delay: 25 ms}
  tcp: {slow_start_after_idle: false, initial_window: 100}
array:
  target_name: iqn.2011-10.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 32 MiB
  patterns:
    mixed: {sizes: [{size: 256 KiB}], read_percent: 50, random_percent: 100, load: {kind: closed, queue_depth: 1}}
  iscsi:
    target: {initial_r2t: true, immediate_data: false, max_burst_length: 64 KiB, max_outstanding_r2t: 1}
factors: [{pattern: [mixed], vms: [1]}]
measure: {warmup: 0 s, time: 5 s, repetitions: 1, sample_interval: 100 ms}
watch: {capture: {at: both, snap: 256 KiB}}
"""
# Names of the phases in a capture and in the counters of the initiator.
WRITES = {
    "wait_r2t": "wait_r2t_ns_sum",
    "r2t_to_data": "r2t_to_data_ns_sum",
    "data_transfer": "write_data_transfer_ns_sum",
    "data_to_response": "write_data_to_response_ns_sum",
}
READS = {
    "command_to_data": "command_to_data_ns_sum",
    "data_transfer": "read_data_transfer_ns_sum",
    "data_to_response": "read_data_to_response_ns_sum",
}
# The capture sees an answer when it arrives, the initiator when it wakes up. That is some hundreds
# of microseconds later, and more on a busy machine. Swapped phases would differ by a round trip of
# 50 ms for each command.
SHARE = 0.2


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    """Make the run that the tests inspect."""
    folder = tmp_path_factory.mktemp("captured")
    study = folder / "captured" / "study.yaml"
    study.parent.mkdir()
    study.write_text(STUDY)
    hakaru = Hakaru(folder / "runs")
    result = hakaru.run("run", str(study), "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    return RunReader(hakaru.only_run())


def analysed(file: Path) -> dict[str, Any]:
    result = run_here("analyse", file, "--json")
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def counted(reader: RunReader) -> dict[str, float]:
    """Return the last counters of the initiator."""
    rows = [row for row in reader.samples("p01", 1).to_pylist() if (row["node"], row["entity"]) == ("kvm", "vms")]
    return {row["name"]: row["value"] for row in sorted(rows, key=lambda row: int(row["at_ns"]))}


def captures(reader: RunReader) -> dict[str, Path]:
    """Return node → capture."""
    files = reader.captures("p01", 1)
    assert [file.name for file in files] == ["p01-1-array.pcapng", "p01-1-kvm.pcapng"]
    return dict(zip(("array", "kvm"), files, strict=True))


def test_capture_and_initiator_agree_on_every_command_and_on_its_phases(captured: RunReader) -> None:
    reader, file = captured, captures(captured)["kvm"]
    (record,) = reader.repetitions()
    watches = {e["node"]: e["values"] for e in record["engines"] if e["engine"] == "watch"}
    assert {node for node, values in watches.items() if "capture_packets" in values} == {"kvm", "array"}
    assert watches["kvm"]["capture_dropped"] == watches["kvm"]["capture_cut_short"] == 0
    analysis = analysed(file)
    assert analysis["capture"]["packets"] == watches["kvm"]["capture_packets"]
    (session,) = analysis["capture"]["sessions"]
    assert session["from_start"] and session["negotiated"]["MaxBurstLength"] == str(BURST_BYTES)
    assert session["commands_not_whole"] == session["commands_unfinished"] == session["assumed_pdus"] == 0
    reads, writes, own = session["reads"], session["writes"], counted(reader)
    assert reads["commands"] > 5 and writes["commands"] > 5
    assert reads["commands"] + writes["commands"] == own["commands"] == own["reads"] + own["writes"]
    assert writes["r2ts"] == own["r2ts"] == writes["commands"] * REQUEST_BYTES // BURST_BYTES
    for direction, names in ((writes, WRITES), (reads, READS)):
        total = direction["latency_sum_ns"]
        assert sum(phase["sum_ns"] for phase in direction["phases"].values()) == total
        assert sum(own[name] for name in names.values()) == pytest.approx(total, rel=SHARE)
        for phase, name in names.items():
            assert own[name] == pytest.approx(direction["phases"][phase]["sum_ns"], abs=SHARE * total), phase
    for waited_ns in (own["wait_r2t_ns_sum"], writes["phases"]["wait_r2t"]["sum_ns"]):
        assert waited_ns >= 0.95 * RTT_NS * own["r2ts"]
    for waited_ns in (own["command_to_data_ns_sum"], reads["phases"]["command_to_data"]["sum_ns"]):
        assert waited_ns >= 0.95 * RTT_NS * reads["commands"]


def test_capture_at_the_array_has_the_round_trip_after_the_r2t(captured: RunReader) -> None:
    assert not (captured.directory / "watching").exists()
    ends = {node: analysed(file)["capture"]["sessions"][0] for node, file in captures(captured).items()}
    array, host = ends["array"], ends["kvm"]
    assert array["from_initiator"]["pdus"] == host["from_initiator"]["pdus"]
    assert array["from_target"]["pdus"] == host["from_target"]["pdus"]
    # A command with retransmitted packets is counted but not timed.
    for end in (array, host):
        assert end["writes"]["commands"] > 5
        if end["from_initiator"]["retransmitted_segments"] == end["from_target"]["retransmitted_segments"] == 0:
            assert end["commands_not_whole"] == 0
    assert array["writes"]["phases"]["r2t_to_data"]["sum_ns"] >= 0.95 * RTT_NS * array["writes"]["r2ts"]
    assert host["writes"]["phases"]["r2t_to_data"]["sum_ns"] < SHARE * host["writes"]["latency_sum_ns"]
