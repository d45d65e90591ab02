"""The estimate of time and memory before a run starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hakaru.guest.requirements import EMULATOR_BYTES, MEMORY_DEFAULT_BYTES, Accelerator, Facts
from hakaru.kinds.copy.load import load_at
from hakaru.lab.plan import plan_lab
from hakaru.run.devices import images_of, refusals
from hakaru.run.plan import estimate, lines, link_rates
from hakaru.run.plan_place import topology
from hakaru.run.site_file import load_site
from hakaru.study import expand, load
from hakaru.study.storage import Fill

from tests.run.conftest import STUDY
from tests.study.shipped import shipped

MIB = 1 << 20


def test_plan_counts_memory_for_a_frame_ring_per_fabric_interface() -> None:
    study = shipped("vm-sweep").study
    labs = {kind: plan_lab(study.lab.model_copy(update={"backend": kind})) for kind in ("fabric", "kernel")}
    assert labs["fabric"].fabric_node and not labs["kernel"].fabric_node
    estimates = {kind: estimate(expand(study), lab) for kind, lab in labs.items()}
    engines = (estimates["fabric"].engines - estimates["kernel"].engines) * 24 * MIB
    extra_bytes = estimates["fabric"].memory_bytes - estimates["kernel"].memory_bytes
    assert extra_bytes - engines == len(labs["fabric"].links) * 16 * MIB


@pytest.mark.parametrize(("filled", "images"), [("primary", 2 * 4), ("vtl", 4), ("zstd", 4)])
def test_plan_counts_memory_for_images_that_are_not_zeros_or_whose_zeros_are_stored(filled: str, images: int) -> None:
    study = shipped("backup-mismatch").study
    lab = plan_lab(study.lab)
    if filled == "zstd":
        changed = study.model_copy(update={"load": load_at(study).model_copy(update={"compression": "zstd"})})
    else:
        array = study.arrays[filled]
        lus = [lu.model_copy(update={"fill": Fill()}) for lu in array.lus]
        changed = study.model_copy(update={"arrays": study.arrays | {filled: array.model_copy(update={"lus": lus})}})
    only = {"case": {"unthrottled"}, "tcp": {"2009"}}
    zeros, stored = (estimate(expand(each, only=only), lab).memory_bytes for each in (study, changed))
    assert stored - zeros == images * load_at(study).image


def test_plan_counts_memory_and_time_of_guests() -> None:
    study = shipped("initiators").study
    lab = plan_lab(study.lab)
    estimates = {
        name: estimate(expand(study, only={"initiator": {name}, "vms": {"4"}}), lab)
        for name in ("hakaru", "open-iscsi")
    }
    extra_bytes = estimates["open-iscsi"].memory_bytes - estimates["hakaru"].memory_bytes
    assert extra_bytes == 2 * 768 * MIB, "one guest per host"
    assert estimates["open-iscsi"].seconds > estimates["hakaru"].seconds


def test_more_guests_than_the_memory_holds_are_refused_by_point_and_take_no_memory() -> None:
    study = shipped("forwarding").study
    expanded = expand(study, only={"nic": {"virtio-net"}, "beside": {"2", "3", "4"}})
    facts = Facts(
        (10, 0, 2),
        frozenset({"virtio-net-pci"}),
        frozenset({"tap"}),
        Accelerator("kvm"),
        memory_bytes=3 * (MEMORY_DEFAULT_BYTES + EMULATOR_BYTES),
    )
    refused = refusals(expanded, facts)
    numbers = {point.id: int(point.factors["beside"]) for point in expanded.points}
    assert {numbers[name] for name in refused} == {4} and sorted(numbers.values()) == [2, 3, 4]
    lab = plan_lab(expanded.study.lab)
    all_bytes, possible_bytes = (estimate(expanded, lab, names).memory_bytes for names in ((), refused))
    assert all_bytes - possible_bytes == MEMORY_DEFAULT_BYTES + EMULATOR_BYTES
    text = "\n".join(lines(expanded, lab, refused))
    assert f"not possible here: {next(iter(refused))}: all guests of the device (4)" in text


def test_images_are_only_those_of_guests_that_can_run_here() -> None:
    expanded = expand(shipped("forwarding").study, only={"nic": {"virtio-net", "e1000"}})
    models = frozenset({"virtio-net-pci", "e1000"})
    none, some, both = (
        images_of(expanded, Facts((10, 0, 2), devices, frozenset({"tap"}), Accelerator("kvm")))
        for devices in (frozenset[str](), models - {"e1000"}, models)
    )
    assert none == [] and set(some) < set(both) == {"cloud", "generic"}


def test_finished_repetitions_of_a_resumed_run_need_no_time_and_no_disk() -> None:
    study = shipped("vm-sweep").study
    expanded, lab = expand(study), plan_lab(study.lab)
    half = [turn.name for turn in expanded.repetitions][::2]
    whole, rest = estimate(expanded, lab), estimate(expanded, lab, done=half)
    assert rest.disk_bytes == pytest.approx(whole.disk_bytes / 2, rel=0.1)
    assert rest.seconds < 0.6 * whole.seconds and rest.memory_bytes == whole.memory_bytes


def test_device_that_needs_root_is_refused_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    expanded = expand(shipped("forwarding").study, only={"device": {"xdp", "bridge"}, "frame": {"imix"}})
    devices = {point.id: point.factors["device"] for point in expanded.points}
    assert sorted(devices.values()) == ["bridge", "xdp"]
    for user, refused in ((0, set()), (1000, {"xdp"})):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        found = refusals(expanded)
        assert {devices[name] for name in found} == refused
        text = "\n".join(lines(expanded, plan_lab(expanded.study.lab), found))
        assert ("only root may load an XDP program" in text) == bool(refused)


def test_plan_shows_the_topology_with_impairments() -> None:
    study = shipped("long-distance").study
    expanded = expand(study, only={"rtt": {"20 ms"}, "settings": {"parameters"}})
    lab = plan_lab(expanded.at(expanded.points[0]).lab)
    assert topology(lab) == ["  initiator - simulator: 1 Gbit/s", "  target - simulator: 1 Gbit/s, delay 10 ms"]
    lab = plan_lab(shipped("backup-mismatch").study.lab)
    assert "  core - edge: 10 Gbit/s" in topology(lab)
    assert "  vtl - edge: 1 Gbit/s" in topology(lab)


def test_plan_of_a_site_names_its_equipment(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        "format: 1\nname: our array\n"
        "lus: [{portal: '192.0.2.10:3260', target_name: iqn.2011-10.example:a, lun: 0}]\n"
        "load_hosts: [{name: kvm-1, ssh: kvm-1.example}, {name: local}]\n"
    )
    shown = lines(expand(shipped("vm-sweep").study), None, {}, site=load_site(path))
    place = shown.index("site: 'our array'")
    lu = "  LU 0 of iqn.2011-10.example:a at 192.0.2.10:3260, read only"
    assert shown[place : place + 3] == ["site: 'our array'", lu, "load from: kvm-1, local"]
    assert not [line for line in shown if line.startswith(("lab:", "topology:"))]


def test_plan_prints_rates_in_bits_so_that_a_mistaken_unit_is_seen(tmp_path: Path) -> None:
    text = STUDY.replace("host_link: {rate: 100 Mbit/s}", "host_link: {rate: 1 GB/s}")
    (tmp_path / "study.yaml").write_text(text)
    expanded = expand(load(str(tmp_path / "study.yaml")).study)
    shown = lines(expanded, plan_lab(expanded.study.lab), {})
    assert "links: 8 Gbit/s: host_link; 100 Mbit/s: array_link" in shown
    linked = shipped("backup-mismatch").study
    assert link_rates(linked).startswith("10 Gbit/s: ") and "1 Gbit/s: " in link_rates(linked)
    assert link_rates(shipped("forwarding").study) == ""
