"""The block `iscsi:` of a study: its defaults equal the engine's, levels reach both ends, and
impossible settings are refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms.configure_iscsi import login_keys, socket_options, target_keys
from hakaru.kinds.vms.iscsi import COALESCE_PERCENT, InitiatorEnd, Iscsi
from hakaru.kinds.vms.run import RUN, answers_gathered
from hakaru.lab.plan import plan_lab
from hakaru.study import Loaded, expand, load

STUDY = """\
format: 1
id: knobs
title: {en: Knobs, ja: 設定}
question: {en: Which?, ja: どれ}
expectation: {en: These., ja: これ}
origin: emulated
lab: {hosts: 1, host_link: {rate: 1 Gbit/s}, array_link: {rate: 1 Gbit/s}}
array:
  target_name: iqn.2013-01.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB, block: 4096}]
load:
  kind: vms
  columns: [[0]]
  image: 64 MiB
  patterns:
    write: {sizes: [{size: 4 MiB}], read_percent: 0, random_percent: 0, load: {kind: closed, queue_depth: 1}}
  iscsi:
    initiator: {command_max: 512 KiB, commands: 1}
variables:
  settings:
    default: {}
    era:
      load.iscsi.target.initial_r2t: true
      load.iscsi.target.max_burst_length: 256 KiB
      load.iscsi.target.socket.receive_buffer: 64 KiB
      load.iscsi.initiator.coalesce: 200 us
      load.iscsi.initiator.coalesce_percent: 25
  sessions: {sets: [load.iscsi.initiator.sessions]}
factors: [{pattern: [write], vms: [1], settings: [default, era], sessions: [1, 2]}]
measure: {warmup: 0 s, time: 1 s, repetitions: 1}
"""


def loaded(folder: Path, text: str = STUDY) -> Loaded:
    (folder / "study.yaml").write_text(text)
    return load(str(folder / "study.yaml"))


def test_iscsi_defaults_equal_those_of_the_engine() -> None:
    iscsi = Iscsi()
    assert login_keys(iscsi.initiator) == contract.LoginKeys()
    assert target_keys(iscsi.target) == contract.ArrayConfig.model_fields["login"].default
    assert socket_options(iscsi.initiator.socket) == contract.SocketOptions()
    waits = contract.InitiatorConfig.model_fields
    assert (iscsi.initiator.coalesce, COALESCE_PERCENT) == (
        waits["coalesce_us"].default * 1000,
        waits["coalesce_percent"].default,
    )


@pytest.mark.parametrize(
    ("changes", "latency_us", "percent"),
    [
        ({}, 1280, 0),
        ({"coalesce": "64 us"}, 199, 0),
        ({"coalesce": "64 us"}, 200, 10),
        ({"coalesce": "64 us"}, 1280, 5),
        ({"coalesce": "64 us"}, 64_000, 0.1),
        ({"coalesce": "1 ms", "coalesce_percent": 25}, 1280, 25),
        ({"coalesce_percent": 25, "coalesce": "0 us"}, 1280, 0),
    ],
)
def test_coalescing_adds_at_most_its_share_and_its_longest_wait(
    changes: dict[str, object], latency_us: int, percent: float
) -> None:
    assert InitiatorEnd.model_validate(changes).gathered_percent(latency_us * 1000) == pytest.approx(percent)


@pytest.mark.parametrize(
    ("loads", "percent"),
    [
        ([{"reads": 10, "read_latency_ns_sum": 8e6}], 8.0),
        ([{"reads": 10, "read_latency_ns_sum": 20e6}, {"writes": 10, "write_latency_ns_sum": 3e6}], 10.0),
        ([{"reads": 10, "read_latency_ns_sum": 20e6}], None),
        ([{"reads": 9, "read_latency_ns_sum": 900e3, "writes": 10, "write_latency_ns_sum": 3e6}], None),
        ([{"reads": 0, "read_latency_ns_sum": 0}], None),
    ],
)
def test_latencies_raised_by_a_sixteenth_through_coalescing_have_a_caveat(
    loads: list[dict[str, float]], percent: float | None
) -> None:
    percents = [
        caveat.values["percent"]
        for caveat in answers_gathered(InitiatorEnd.model_validate({"coalesce": "64 us"}), loads)
    ]
    assert percents == ([] if percent is None else [pytest.approx(percent)])
    assert list(answers_gathered(InitiatorEnd(), loads)) == []


def test_levels_reach_both_ends(tmp_path: Path) -> None:
    expanded = expand(loaded(tmp_path).study)
    seen = set()
    for turn in expanded.repetitions:
        plan, factors = plan_lab(expanded.at(turn.point).lab), turn.point.factors
        (array,) = RUN.servers(expanded, turn, plan).values()
        (initiator,) = RUN.loads(expanded, turn, plan).values()
        assert isinstance(array, contract.ArrayConfig) and isinstance(initiator, contract.InitiatorConfig)
        era = factors["settings"] == "era"
        assert array.login.initial_r2t is era
        assert array.login.max_burst_length == (256 << 10 if era else 1 << 20)
        assert array.socket.receive_buffer_bytes == (64 << 10 if era else None)
        assert (initiator.command_bytes_max, initiator.commands_max) == (512 << 10, 1)
        assert initiator.sessions_per_vm == factors["sessions"]
        # One VM: the check of open files counts each of its sessions.
        assert RUN.cost(expanded, turn.point, plan).sockets == factors["sessions"]
        assert (initiator.coalesce_us, initiator.coalesce_percent) == ((200, 25) if era else (0, 10))
        seen.add((factors["settings"], factors["sessions"]))
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("commands: 1", "commands: 0", "load.iscsi.initiator.commands"),
        ("command_max: 512 KiB", "command_max: 5000 B", "not a multiple of the block length 4096"),
        ("commands: 1", "first_burst_length: 17 MB", "first_burst_length"),
        ("commands: 1", "max_burst_length: 64 KiB", "more than max_burst_length, 64 KiB"),
        ("commands: 1", "socket: {congestion_control: ../bbr}", "congestion_control"),
        ("commands: 1", "command: 1", "command"),
        ("commands: 1", "coalesce_percent: 51", "coalesce_percent"),
        ("commands: 1", "coalesce: 1500 ns", "not whole microseconds"),
        ("load.iscsi.target.initial_r2t", "load.iscsi.target.initial", "no 'initial' in load.iscsi.target"),
        (
            "load.iscsi.target.max_burst_length: 256 KiB",
            "load.iscsi.target.max_burst_length: 1 KiB",
            "more than max_burst_length",
        ),
    ],
)
def test_impossible_iscsi_setting_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert STUDY.count(old) == 1
    with pytest.raises(UsageError, match=r"study\.yaml:\d+:\d+: ") as e:
        loaded(tmp_path, STUDY.replace(old, new))
    assert message in e.value.message
