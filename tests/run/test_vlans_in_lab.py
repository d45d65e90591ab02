"""A VM that loads an array in another VLAN, across a switch that routes: by super-frames, and frame
by frame.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.lab.plan import actions, plan_lab
from hakaru.store import RunReader
from hakaru.study import of_described

from tests.run.conftest import Hakaru

# A node's super-frame is a millisecond of its link: of 8 Mbit/s a frame, of 200 Mbit/s sixteen.
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
    kvm: {between: [kvm, edge], rate: 200 Mbit/s, vlan: servers}
    uplink: {between: [edge, core], rate: 400 Mbit/s, vlans: [storage, servers], delay: 1 ms}
    array: {between: [edge, array], rate: 200 Mbit/s, vlans: [storage]}
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
def ran(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    """One run that the tests look at."""
    folder = tmp_path_factory.mktemp("routed")
    study = folder / "routed" / "study.yaml"
    study.parent.mkdir()
    study.write_text(STUDY)
    hakaru = Hakaru(folder / "runs")
    result = hakaru.run("run", str(study), "--report", "html")
    assert result.returncode in (0, 5), result.stderr  # on a machine that is busy a point may be invalid
    return RunReader(hakaru.only_run())


def last(reader: RunReader, point: str, engine: str) -> dict[str, dict[str, float]]:
    """Entity → what an engine had counted when it ended."""
    found: dict[str, dict[str, float]] = {}
    rows = [row for row in reader.samples(point, 1).to_pylist() if row["engine"] == engine]
    for row in sorted(rows, key=lambda row: int(row["at_ns"])):
        found.setdefault(row["entity"], {})[row["name"]] = row["value"]
    return found


@pytest.mark.parametrize("point", POINTS)
def test_what_a_vm_writes_arrives_across_the_router(ran: RunReader, point: str) -> None:
    vms = last(ran, point, "initiator")["vms"]
    assert vms["writes"] > 0 and vms["reads"] > 0
    assert vms["errors"] == 0
    counted = last(ran, point, "fabric")
    for way in ("a-b", "b-a"):
        there, array = counted[f"link/uplink/{way}"], counted[f"link/array/{way}"]
        # Both directions of the trunk carry what goes to the router and what comes from it.
        assert there["frames_in"] >= array["frames_in"] > 100
    assert counted["switch/core"]["dropped_no_route"] == counted["switch/edge"]["dropped_vlan"] == 0


@pytest.mark.parametrize("point", POINTS)
def test_frames_are_conserved_at_every_port(ran: RunReader, point: str) -> None:
    counted = last(ran, point, "fabric")
    links = {entity: of for entity, of in counted.items() if entity.startswith("link/")}
    # kvm, uplink, the array's trunk and its one interface on it; each way.
    assert len(links) == 8
    for entity, of in links.items():
        lost = sum(value for name, value in of.items() if name.startswith("dropped_"))
        assert of["frames_in"] + of["duplicated"] == of["frames_out"] + lost + of["frames_now"], entity
    into = {"edge": ("kvm/a-b", "uplink/b-a", "array/b-a"), "core": ("uplink/a-b",)}
    for switch, ends in into.items():
        of = counted[f"switch/{switch}"]
        assert of["frames_in"] == sum(links[f"link/{end}"]["frames_out"] for end in ends)


def test_one_point_is_super_frames_and_the_other_frame_by_frame(ran: RunReader) -> None:
    study = json.loads((ran.directory / "study.json").read_text())
    for point in study["points"]:
        plan = plan_lab(of_described(study).at(point["factors"]).lab)
        shapes = [one for one in plan.settings if isinstance(one, actions.Shape)]
        assert {(one.node, one.super_frame_bytes >= 8 * 1514) for one in shapes} == {
            (node, POINTS[point["point"]] > 10**8) for node in ("kvm", "array")
        }
        assert all(one.super_frame_bytes == 1514 for one in shapes if POINTS[point["point"]] < 10**8)


def test_the_links_of_every_point_were_checked_once_as_they_were_there(ran: RunReader) -> None:
    lab = ran.read("lab.json")
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


def test_the_report_names_vlans_checks_and_captures(ran: RunReader) -> None:
    page = (ran.directory / "report" / "report.en.html").read_text()
    for said in ("trunk VLAN 10, 20", "access VLAN 20", "routes VLAN 10, 20", "10.77.10.254", "kvm – array (storage)"):
        assert said in page, said
    assert "kvm, array: rate 8 Mbit/s (mixed, 1 VM" in page
    for capture in ran.captures("p01", 1) + ran.captures("p02", 2):
        assert f'href="../capture/{capture.name}"' in page
        assert (ran.directory / "report" / "../capture" / capture.name).is_file()
    summary = ran.read("summary.json")
    assert [(one["point"], one["repetition"], one["node"]) for one in summary["captures"]] == [
        *(("p01", 1, "array"), ("p01", 2, "array"), ("p02", 1, "array"), ("p02", 2, "array"))
    ]
    assert all(one["packets"] > 100 and one["dropped"] == 0 for one in summary["captures"])


def test_links_of_a_point_that_no_machine_can_carry_are_refused_with_their_names(
    hakaru: Hakaru, tmp_path: Path
) -> None:
    study = tmp_path / "routed" / "study.yaml"
    study.parent.mkdir()
    fast = STUDY.replace("rate: [200 Mbit/s, 8 Mbit/s]", "rate: [200 Mbit/s, 25 Gbit/s]")
    # No machine can: a TCP window of at most 64 MiB carries 21 Gbit/s over a round trip of 26 ms,
    # the uplink 4 times.
    study.write_text(fast.replace("rate: 400 Mbit/s", "rate: 25 Gbit/s").replace("delay: 1 ms", "delay: 6.5 ms"))
    result = hakaru.run("run", str(study), "--report", "none", "--only", "rate=25 Gbit/s")
    assert result.returncode == 3, result.stderr
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "the links of point p02: this machine carries" in error
    assert "of the 25 Gbit/s asked on the way" in error
    assert "(link kvm, uplink, array; fabric backend, best of 3)" in error
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    assert "`sustained`" in hint and "--only" in hint
