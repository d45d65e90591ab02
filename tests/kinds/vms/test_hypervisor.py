"""The block `hypervisor:` of a study, the factor `paths`, and their analysis."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.analysis.estimate import SampleMean, ratio
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms.hypervisor import PRESETS
from hakaru.kinds.vms.load import load_at
from hakaru.kinds.vms.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.study import Loaded, expand, load

STUDY = """\
format: 1
id: path
title: {en: Path, ja: パス}
question: {en: Which?, ja: どれ}
expectation: {en: These., ja: これ}
origin: emulated
lab: {hosts: 4, paths: 4}
array:
  target_name: iqn.2013-01.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 1 GiB}, {lun: 1, size: 1 GiB}]
load:
  kind: vms
  columns: [[0], [1]]
  image: 64 MiB
  patterns:
    read: {sizes: [{size: 1 MiB}], read_percent: 100, random_percent: 0, load: {kind: closed, queue_depth: 32}}
  hypervisor: {kind: preset, name: kvm-83}
  iscsi: {initiator: {command_timeout: 30 s}}
variables:
  hypervisor:
    none: {load.hypervisor: {kind: none}}
    kvm-83: {}
    guest: {load.hypervisor: {kind: custom, guest: {ring: 64, segments: 62, in_flight: 5}}}
factors: [{pattern: [read], vms: [14], paths: [1, 2, 4], hypervisor: [none, kvm-83, guest]}]
measure: {warmup: 0 s, time: 1 s, repetitions: 1}
"""
KVM_83 = contract.GuestQueue(ring_descriptors=128, segments_max=126)


def loaded(folder: Path, text: str = STUDY) -> Loaded:
    (folder / "study.yaml").write_text(text)
    return load(str(folder / "study.yaml"))


def destinations(config: contract.InitiatorConfig) -> list[contract.IscsiDestination]:
    return [vm.destination for vm in config.vms if isinstance(vm.destination, contract.IscsiDestination)]


def test_vms_of_a_host_share_its_sessions_and_use_the_paths_in_turn(tmp_path: Path) -> None:
    expanded = expand(loaded(tmp_path).study)
    plan = plan_lab(expanded.study.lab)
    for turn in expanded.repetitions:
        level, paths = turn.point.factors["hypervisor"], turn.point.factors["paths"]
        configs = RUN.loads(expanded, turn, plan)
        assert list(configs) == ["host-1", "host-2", "host-3", "host-4"]
        sessions = set()
        for host, config in configs.items():
            assert isinstance(config, contract.InitiatorConfig)
            shared = level == "kvm-83"
            assert config.share_sessions is shared
            assert (config.commands_max, config.session_commands_max) == ((32, 128) if shared else (None, None))
            own = contract.GuestQueue(ring_descriptors=64, segments_max=62, in_flight_max=5)
            assert config.guest_queue == {"none": None, "kvm-83": KVM_83, "guest": own}[str(level)]
            ends = destinations(config)
            assert not shared or {end.initiator_name.rpartition(":")[2] for end in ends} == {host}
            sessions |= {(end.initiator_name, end.portal) for end in ends}
        assert {portal for _, portal in sessions} == set(plan.portals()[: int(str(paths))])
        assert len(sessions) == (4 if level == "kvm-83" else 14)
        cost = RUN.cost(expanded, turn.point, plan)
        assert cost.sockets == len(sessions)
        assert load_at(expanded.at(turn.point)).sessions(4, int(str(paths))) == len(sessions)


@pytest.mark.parametrize(
    ("size", "kvm_83", "current"), [(512, 42, 256), (32 << 10, 12, 256), (1 << 20, 1, 256), (504 << 10, 1, 256)]
)
def test_presets_hold_as_many_requests_as_their_rings(size: int, kvm_83: int, current: int) -> None:
    guests = [PRESETS[name].guest for name in ("kvm-83", "current")]
    assert [guest.in_flight_of(size) for guest in guests if guest] == [kvm_83, current]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: kvm-83}", "name: kvm-84}", "load.hypervisor.name"),
        ("{kind: preset, name: kvm-83}", "{kind: custom, guest: {ring: 128, segments: 127}}", "at most 126 segments"),
        ("{kind: preset, name: kvm-83}", "{kind: custom, host: {lu_commands: 32}}", "session_commands: missing"),
        ("command_timeout: 30 s", "commands: 8", "`lu_commands`"),
        ("command_timeout: 30 s", "sessions: 2", "share its sessions"),
        ("command_timeout: 30 s", "command_max: 256 KiB", "less than the longest request of a guest, 504 KiB"),
        ("paths: [1, 2, 4]", "paths: [5]", "5 paths, and the lab has 4"),
    ],
)
def test_impossible_path_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert STUDY.count(old) == 1
    with pytest.raises(UsageError, match=r"study\.yaml:\d+:\d+: ") as e:
        loaded(tmp_path, STUDY.replace(old, new))
    assert message in e.value.message


def test_ratio_of_means_has_the_interval_of_both() -> None:
    exact = ratio(SampleMean.over([20.0, 20.0]), SampleMean.over([10.0, 10.0]))
    assert (exact.mean, exact.low, exact.high, exact.n) == (2.0, 2.0, 2.0, 2)
    single = ratio(SampleMean.over([20.0]), SampleMean.over([10.0, 11.0]))
    assert (single.low, single.high, single.n) == (None, None, 1)
    wide = ratio(SampleMean.over([19.0, 20.0, 21.0]), SampleMean.over([9.0, 10.0, 11.0]))
    assert wide.low is not None and wide.high is not None
    # Standard errors of 2.9 and 5.8 %, 2.9 degrees of freedom: a factor of 1.23.
    assert wide.low == pytest.approx(2 / 1.23, rel=0.01) and wide.high == pytest.approx(2 * 1.23, rel=0.01)
    assert ratio(SampleMean.over([]), SampleMean.over([1.0])).mean is None
