"""A VM and an array in different VLANs with a router between them, with super-frames and with
single frames.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.lab.plan import actions, plan_lab
from hakaru.store import RunReader
from hakaru.study import of_described

from tests.cli.command import pages_of
from tests.run.conftest import Hakaru

# A super-frame of a node takes 1 ms of its link: one frame at 8 Mbit/s, sixteen at 200 Mbit/s.
# `sustained`: a busy machine that carries less is not refused.
STUDY = """\
format: 1
id: routed
title: {en: Routed, ja: 経路}
question: {en: Does it arrive?, ja: 届くか}
expectation: {en: It does., ja: 届く}
origin: emulated
lab:
  hosts: [kvm]
  arrays: [array]
  vlans:
    storage: {id: 10, subnet: 10.77.10.0/24}
    servers: {id: 20, subnet: 10.77.20.0/24}
  switches:
    edge: {}
    core: {router: {interfaces: [storage, servers]}}
  links:
    kvm: {between: [kvm, edge], rate: 200 Mbit/s, sustained: 1 Mbit/s, vlan: servers}
    uplink: {between: [edge, core], rate: 400 Mbit/s, sustained: 1 Mbit/s, vlans: [storage, servers], delay: 1 ms}
    array: {between: [edge, array], rate: 200 Mbit/s, sustained: 1 Mbit/s, vlans: [storage]}
array:
  target_name: iqn.2011-10.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 16 MiB
  patterns:
    mixed: {sizes: [{size: 64 KiB}], read_percent: 50, random_percent: 100, load: {kind: closed, queue_depth: 2}}
variables:
  rate: {sets: [lab.links.kvm.rate, lab.links.array.rate]}
factors: [{pattern: [mixed], vms: [1], rate: [200 Mbit/s, 8 Mbit/s]}]
measure: {warmup: 200 ms, time: 2 s, repetitions: 2, sample_interval: 100 ms, verify: true}
watch: {capture: {at: arrays, interface: eth0.10}}
"""
POINTS = {"p01": 200_000_000, "p02": 8_000_000}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    """Make the run that the tests inspect."""
    folder = tmp_path_factory.mktemp("routed")
    study = folder / "routed" / "study.yaml"
    study.parent.mkdir()
    study.write_text(STUDY)
    hakaru = Hakaru(folder / "runs")
    result = hakaru.run("run", str(study), "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    return RunReader(hakaru.only_run())


def last_counters(reader: RunReader, point: str, engine: str) -> dict[str, dict[str, float]]:
    """Return entity → last counters of an engine."""
    counters: dict[str, dict[str, float]] = {}
    rows = [row for row in reader.samples(point, 1).to_pylist() if row["engine"] == engine]
    for row in sorted(rows, key=lambda row: int(row["at_ns"])):
        counters.setdefault(row["entity"], {})[row["name"]] = row["value"]
    return counters


@pytest.mark.parametrize("point", POINTS)
def test_writes_of_a_vm_arrive_across_the_router(finished_run: RunReader, point: str) -> None:
    vms = last_counters(finished_run, point, "initiator")["vms"]
    assert vms["writes"] > 0 and vms["reads"] > 0
    assert vms["errors"] == 0
    counted = last_counters(finished_run, point, "fabric")
    for direction in ("a-b", "b-a"):
        uplink, array = counted[f"link/uplink/{direction}"], counted[f"link/array/{direction}"]
        # The trunk carries each frame to the router and back from it.
        assert uplink["frames_in"] >= array["frames_in"] > 100
    assert counted["switch/core"]["dropped_no_route"] == counted["switch/edge"]["dropped_vlan"] == 0


@pytest.mark.parametrize("point", POINTS)
def test_frames_are_conserved_at_every_port(finished_run: RunReader, point: str) -> None:
    counted = last_counters(finished_run, point, "fabric")
    links = {entity: counters for entity, counters in counted.items() if entity.startswith("link/")}
    # Both directions of kvm, the uplink, the trunk of the array and its interface on the trunk.
    assert len(links) == 8
    for entity, counters in links.items():
        lost = sum(value for name, value in counters.items() if name.startswith("dropped_"))
        assert (
            counters["frames_in"] + counters["duplicated"] == counters["frames_out"] + lost + counters["frames_now"]
        ), entity
    into = {"edge": ("kvm/a-b", "uplink/b-a", "array/b-a"), "core": ("uplink/a-b",)}
    for switch, ends in into.items():
        counters = counted[f"switch/{switch}"]
        assert counters["frames_in"] == sum(links[f"link/{end}"]["frames_out"] for end in ends)


def test_fast_point_uses_super_frames_and_slow_point_single_frames(finished_run: RunReader) -> None:
    study = json.loads((finished_run.directory / "study.json").read_text())
    for point in study["points"]:
        plan = plan_lab(of_described(study).at(point["factors"]).lab)
        shapes = [shape for shape in plan.settings if isinstance(shape, actions.Shape)]
        assert {(shape.node, shape.super_frame_bytes >= 8 * 1514) for shape in shapes} == {
            (node, POINTS[point["point"]] > 10**8) for node in ("kvm", "array")
        }
        assert all(shape.super_frame_bytes == 1514 for shape in shapes if POINTS[point["point"]] < 10**8)


def test_links_of_every_point_were_checked_once_with_their_settings(finished_run: RunReader) -> None:
    lab = finished_run.read("lab.json")
    (first,) = lab["checks"]
    assert (first["asked_bits_per_s"], first["vlan"], first["asked_rtt_us"]) == (200_000_000, "storage", 4000)
    (variant,) = lab["variants"]
    assert variant["points"] == ["p02"]
    assert variant["links"] == {
        "array": {"rate_bits_per_s": 8_000_000},
        "kvm": {"rate_bits_per_s": 8_000_000},
    }
    (check,) = variant["checks"]
    assert check["asked_bits_per_s"] == 8_000_000
    assert 0 < check["measured_bits_per_s"] < 1.05 * 8_000_000
    assert check["rtt_us_p50"] >= 4000
    assert variant["seconds"] > 0


def test_report_names_vlans_checks_and_captures(finished_run: RunReader) -> None:
    # Numbers and their units are joined by no-break spaces.
    page = pages_of(finished_run.directory)["en"].replace("\u00a0", " ")
    for words in ("trunk VLAN 10, 20", "access VLAN 20", "routes VLAN 10, 20", "10.77.10.254", "kvm – array (storage)"):
        assert words in page, words
    assert "kvm, array: rate 8 Mbit/s (mixed, 1 VM" in page
    for capture in finished_run.captures("p01", 1) + finished_run.captures("p02", 2):
        assert f'href="../capture/{capture.name}"' in page
        assert (finished_run.directory / "report" / "../capture" / capture.name).is_file()
    summary = finished_run.read("summary.json")
    assert [(captured["point"], captured["repetition"], captured["node"]) for captured in summary["captures"]] == [
        *(("p01", 1, "array"), ("p01", 2, "array"), ("p02", 1, "array"), ("p02", 2, "array"))
    ]
    assert all(captured["packets"] > 100 and captured["dropped"] == 0 for captured in summary["captures"])


def test_point_with_links_beyond_any_machine_is_refused_with_their_names(hakaru: Hakaru, tmp_path: Path) -> None:
    study = tmp_path / "routed" / "study.yaml"
    study.parent.mkdir()
    fast = STUDY.replace("rate: [200 Mbit/s, 8 Mbit/s]", "rate: [200 Mbit/s, 25 Gbit/s]")
    fast = fast.replace(", sustained: 1 Mbit/s", "")
    # No machine reaches the rate: a TCP window of at most 64 MiB carries 21 Gbit/s over a round
    # trip of 26 ms, in which the uplink counts four times.
    study.write_text(fast.replace("rate: 400 Mbit/s", "rate: 25 Gbit/s").replace("delay: 1 ms", "delay: 6.5 ms"))
    result = hakaru.run("run", str(study), "--report", "none", "--only", "rate=25 Gbit/s")
    assert result.returncode == 3, result.stderr
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "the links of point p02: this machine carries" in error
    assert "of the 25 Gbit/s needed on the path" in error
    assert "(link kvm, uplink, array; fabric backend, best of 3)" in error
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    assert "`sustained`" in hint and "--only" in hint
