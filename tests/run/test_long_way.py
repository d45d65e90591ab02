"""VMs over an emulated network: points change the delay, and iSCSI and TCP at both ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import RunReader

from tests.run.conftest import Hakaru

ONE_WAY_NS = 5_000_000

LONG_WAY = """\
format: 1
id: long-way
title: {en: A long way, ja: 長い道}
question: {en: How long?, ja: 長さは}
expectation: {en: Longer., ja: 長い}
origin: emulated
lab:
  hosts: [kvm]
  arrays: [array]
  switches: {core: {}}
  links:
    kvm: {between: [kvm, core], rate: 200 Mbit/s, sustained: 1 Mbit/s, queue: 1 MiB}
    array: {between: [array, core], rate: 200 Mbit/s, sustained: 1 Mbit/s, queue: 1 MiB}
array:
  target_name: iqn.2011-10.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 32 MiB
  patterns:
    write: {sizes: [{size: 256 KiB}], read_percent: 0, random_percent: 0, load: {kind: closed, queue_depth: 1}}
    read: {sizes: [{size: 256 KiB}], read_percent: 100, random_percent: 0, load: {kind: closed, queue_depth: 1}}
variables:
  delay: {sets: [lab.links.array.delay]}
  settings:
    today: {}
    era:
      load.iscsi.initiator.command_max: 128 KiB
      load.iscsi.initiator.commands: 1
      load.iscsi.target.initial_r2t: true
      load.iscsi.target.immediate_data: false
      load.iscsi.target.max_burst_length: 64 KiB
      load.iscsi.target.max_recv_data_segment_length: 8 KiB
      load.iscsi.target.socket.receive_buffer: 60 KiB
      load.iscsi.initiator.socket: {send_buffer: 50 KiB, congestion_control: reno, not_sent_low_water: 16 KiB}
      lab.tcp.slow_start_after_idle: false
      lab.tcp.initial_window: 3
    sessions: {load.iscsi.initiator.sessions: 3, load.iscsi.initiator.command_max: 64 KiB}
factors:
  - {pattern: [write], vms: [1], delay: [0 ms, 5 ms], settings: [today]}
  - {pattern: [write, read], vms: [1], delay: [5 ms], settings: [era]}
  - {pattern: [write], vms: [2], delay: [5 ms], settings: [sessions]}
measure: {warmup: 0 s, time: 1 s, repetitions: 1, sample_interval: 100 ms, verify: true}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Write a study of five points of one second each."""
    path = tmp_path / "long-way" / "study.yaml"
    path.parent.mkdir()
    path.write_text(LONG_WAY)
    return path


def engine_of(record: dict[str, Any], kind: str) -> dict[str, Any]:
    (engine,) = [e for e in record["engines"] if e["engine"] == kind]
    return dict(engine)


def last_of(reader: RunReader, record: dict[str, Any], engine: str, entity: str) -> dict[str, float]:
    rows = reader.samples(record["point"], record["repetition"]).to_pylist()
    rows = sorted((r for r in rows if (r["engine"], r["entity"]) == (engine, entity)), key=lambda r: r["at_ns"])
    return {row["name"]: row["value"] for row in rows}


def test_points_change_the_delay_and_both_ends(hakaru: Hakaru, study: Path) -> None:
    result = hakaru.run("run", str(study), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    assert any(json.loads(line)["event"] == "sample" for line in result.stdout.splitlines())
    reader = RunReader(hakaru.only_run())
    records = {tuple(r["factors"][n] for n in ("pattern", "settings", "delay")): r for r in reader.repetitions()}
    assert len(records) == 5
    # Use the last sample: every load completes its requests, even on a slow machine.
    values = {key: last_of(reader, record, "initiator", "vms") for key, record in records.items()}
    far = values["write", "today", "5 ms"]
    # The R2T and the response take one round trip of 10 ms each, so no write can be faster.
    assert far["r2ts"] == far["commands"] == far["writes"] > 0
    assert far["write_latency_ns_sum"] >= far["writes"] * 4 * ONE_WAY_NS

    record = records["write", "era", "5 ms"]
    era, reported = values["write", "era", "5 ms"], engine_of(record, "initiator")["found"]
    assert reported["negotiated"]["initial_r2t"] is True
    assert reported["negotiated"]["immediate_data"] is False
    assert reported["negotiated"]["max_burst_length"] == 64 << 10
    assert reported["negotiated"]["peer_max_recv_data_segment_length"] == 8 << 10
    assert reported["socket"]["send_buffer_bytes"] == 2 * 50 << 10
    assert (reported["socket"]["congestion_control"], reported["socket"]["no_delay"]) == ("reno", True)
    assert engine_of(record, "array")["found"]["socket"]["receive_buffer_bytes"] == 2 * 60 << 10
    assert era["commands"] == 2 * era["writes"] > 0
    assert era["r2ts"] == 2 * era["commands"]
    # Each R2T takes a round trip, and each command one more for its response.
    assert era["wait_r2t_ns_sum"] >= era["r2ts"] * 2 * ONE_WAY_NS
    assert era["write_data_to_response_ns_sum"] >= era["commands"] * ONE_WAY_NS
    tcp = last_of(reader, record, "initiator", "tcp/vm01")
    assert tcp["rtt_us_now"] >= 2 * ONE_WAY_NS / 1000
    assert tcp["acked_bytes"] >= era["write_bytes"]
    assert last_of(reader, record, "array", "tcp/sessions")["rtt_us_now"] >= 2 * ONE_WAY_NS / 1000

    reads = values["read", "era", "5 ms"]
    assert reads["commands"] == 2 * reads["reads"] > 0
    assert reads["command_to_data_ns_sum"] >= reads["commands"] * 2 * ONE_WAY_NS

    record = records["write", "sessions", "5 ms"]
    several = values["write", "sessions", "5 ms"]
    assert engine_of(record, "initiator")["found"]["sessions"] == 6
    assert several["commands"] == 4 * several["writes"] > 0
    assert engine_of(record, "array")["values"]["logins"] == 6
