"""Each rule with evidence written by hand, and the files generated from the rules."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hakaru import kind
from hakaru.analysis.bounds import Bound
from hakaru.analysis.rules.evidence import Cache, ClosedLoad, Evidence, Flow, Port
from hakaru.analysis.rules.judge import judge, words
from hakaru.kinds.copy import rules as copy_rules
from hakaru.kinds.packets import rules as packets_rules
from hakaru.kinds.vms import rules as vms_rules
from hakaru.wording import LANGUAGES, catalogue, say

from tests.study.shipped import shipped

ROOT = Path(__file__).parents[2]
FLOW = Flow("read", 1.0, 20.0, link_busy_percent=40.0, tcp_path_percent=50.0, tcp_receive_window_percent=0.0)
QUIET = Evidence(20.0, {"drives": 30.0, "link/a/out": 40.0}, flows=(FLOW,), dropped_frames=0.0)
PORT = Port("a", "s", "h", "read", 1e9, 65536, 6e4, 1e4, 50.0, 0.0)


def verdict(evidence: Evidence) -> str:
    return judge(vms_rules.STAGES, evidence).limiter


def test_a_quiet_point_without_a_known_load_is_undetermined() -> None:
    assert verdict(QUIET) == "undetermined"


def test_closed_load_that_fills_its_depth_but_no_resource_is_limited_by_depth() -> None:
    assert verdict(replace(QUIET, load=ClosedLoad(4, 3.9))) == "depth"
    assert verdict(replace(QUIET, load=ClosedLoad(4, 2.0))) == "undetermined"
    assert verdict(replace(QUIET, load=ClosedLoad(4, 4), used={"drives": 80.0})) == "undetermined"
    assert verdict(replace(QUIET, load=ClosedLoad(4, 4), used={"cpu/array": 20.0})) == "undetermined"


def test_load_slower_than_its_round_trips_explain_is_not_limited_by_depth() -> None:
    assert verdict(replace(QUIET, load=ClosedLoad(4, 4, rate_bytes_per_s=22e6))) == "depth"
    assert verdict(replace(QUIET, load=ClosedLoad(4, 4, rate_bytes_per_s=40e6))) == "undetermined"


@pytest.mark.parametrize(("r2ts", "limiter"), [(2, "r2t_turns"), (0, "depth")])
def test_round_trips_and_devices_together_account_for_a_rate(r2ts: int, limiter: str) -> None:
    """Round trips alone allow 26 MB/s. With the devices, 21 MB/s are possible and 20 measured."""
    turns = Bound("turns", 26e6, {"r2ts": r2ts, "turns": r2ts + 1.0, "rtt_s": 0.02})
    slower = replace(QUIET, rtt_ms=20.0, bounds=(turns,), r2ts_per_command=float(r2ts))
    assert verdict(slower) == "undetermined"
    assert verdict(replace(slower, load=ClosedLoad(1, 1, rate_bytes_per_s=21e6))) == limiter


@pytest.mark.parametrize("r2ts", [0, 2])
def test_rate_above_the_closed_form_is_not_explained_by_it(r2ts: int) -> None:
    turns = Bound("turns", 6.5e6, {"r2ts": r2ts, "turns": r2ts + 1.0, "rtt_s": 0.02})
    faster = replace(QUIET, mb_per_s=60.0, rtt_ms=20.0, bounds=(turns,), r2ts_per_command=float(r2ts))
    assert verdict(faster) == "undetermined"
    assert verdict(replace(faster, mb_per_s=6.8)) in ("depth", "r2t_turns")


def test_commands_that_spend_most_of_their_time_in_devices_do_not_wait_for_round_trips() -> None:
    turns = Bound("turns", 50e6, {"r2ts": 2, "turns": 3.0, "rtt_s": 0.02})
    waiting = replace(QUIET, rtt_ms=20.0, bounds=(turns,), r2ts_per_command=2.0)
    assert verdict(replace(waiting, load=ClosedLoad(1, 1, rate_bytes_per_s=21e6))) == "undetermined"


@pytest.mark.parametrize("language", LANGUAGES)
def test_load_host_without_cpu_to_spare_is_named_as_the_bottleneck(language: str) -> None:
    hosts = {"cpu/machine/kvm-1": 60.0, "cpu/machine/kvm-2": 97.0}
    evidence = replace(QUIET, used=QUIET.used | hosts)
    found = judge(vms_rules.STAGES, evidence)
    assert (found.limiter, found.resource, found.test_setup_limited) == ("machine_cpu", "cpu/machine/kvm-2", True)
    (text,) = words(language, found, evidence)
    assert "kvm-2" in text and "97" in text
    assert verdict(replace(QUIET, load=ClosedLoad(4, 4), used={"cpu/machine/kvm-2": 94.0})) == "undetermined"


def test_losses_count_only_where_frames_were_dropped() -> None:
    lossy = replace(FLOW, retransmitted_percent=0.5, congestion_window_mb_mean=0.02, rtt_ms=1.0, tcp_path_percent=95.0)
    assert verdict(replace(QUIET, flows=(lossy,))) == "undetermined"
    assert verdict(replace(QUIET, flows=(lossy,), port=PORT, dropped_frames=50)) == "switch_buffer"
    assert verdict(replace(QUIET, flows=(lossy,), dropped_frames=50, dropped_by_lines=50)) == "congestion_window"
    # The window would allow far more than the measured rate.
    wide = replace(lossy, congestion_window_mb_mean=2.0)
    assert verdict(replace(QUIET, flows=(wide,), port=PORT, dropped_frames=50)) == "undetermined"


LOSSY = replace(FLOW, retransmitted_percent=0.5, congestion_window_mb_mean=0.02, rtt_ms=1.0, tcp_path_percent=95.0)
WAITING = replace(LOSSY, op="write", share=0.5, retransmitted_percent=0.0)


def test_loss_of_one_direction_does_not_explain_the_wait_of_the_other() -> None:
    # Reads lost something and wait for the array; writes wait for the path and lost nothing.
    reads = replace(LOSSY, share=0.5, tcp_path_percent=5.0)
    mixed = replace(QUIET, flows=(reads, WAITING), dropped_frames=50)
    assert verdict(replace(mixed, port=PORT)) == "undetermined"
    assert verdict(replace(mixed, dropped_by_lines=50)) == "undetermined"


@pytest.mark.parametrize(("ops", "limiter"), [(None, "undetermined"), ({"read", "write"}, "switch_buffer")])
def test_drops_of_one_direction_do_not_explain_the_losses_of_the_other(ops: set[str] | None, limiter: str) -> None:
    """The port is on the path of reads, and on that of writes only in a routed lab."""
    writes = replace(WAITING, retransmitted_percent=0.25)
    mixed = replace(QUIET, flows=(replace(FLOW, share=0.5), writes), port=PORT, dropped_frames=50)
    known = replace(mixed, port_ops=None if ops is None else frozenset(ops))
    assert verdict(known) == limiter
    marked = replace(known, port=replace(PORT, dropped=0.0, marked=500.0))
    assert verdict(marked) == ("undetermined" if ops is None else "congestion_marks")


def test_losses_of_lines_count_for_the_directions_that_pass_them() -> None:
    writes = replace(WAITING, retransmitted_percent=0.25)
    mixed = replace(QUIET, flows=(replace(FLOW, share=0.5), writes), dropped_frames=50, dropped_by_lines=50)
    assert verdict(mixed) == verdict(replace(mixed, loss_ops=frozenset({"write"}))) == "congestion_window"
    assert verdict(replace(mixed, loss_ops=frozenset({"read"}))) == "undetermined"


def test_words_about_losses_are_those_of_the_direction_that_they_hold_back() -> None:
    # Writes wait for the path too, but the port is not on their way.
    reads = replace(LOSSY, share=0.4, retransmitted_percent=0.75)
    mixed = replace(QUIET, flows=(replace(WAITING, share=0.6), reads), port=PORT, dropped_frames=50)
    assert "0.75" in " ".join(words("en", judge(vms_rules.STAGES, mixed), mixed))


def test_minor_direction_of_a_mix_counts_from_a_quarter_of_the_bytes() -> None:
    stalled = replace(FLOW, op="write", tcp_send_buffer_percent=70.0, share=0.3)
    assert verdict(replace(QUIET, flows=(replace(FLOW, share=0.7), stalled))) == "send_buffer"
    rare = replace(stalled, share=0.2)
    assert verdict(replace(QUIET, flows=(replace(FLOW, share=0.8), rare))) == "undetermined"


def test_small_send_buffer_shows_in_a_congestion_window_that_is_never_filled() -> None:
    flow = replace(FLOW, tcp_idle_percent=0.0, congestion_window_mb_mean=0.47, in_flight_mb_max=0.05)
    known = replace(QUIET, flows=(flow,), buffers_bytes={"send": 32768, "receive": None})
    assert verdict(known) == "send_buffer"
    assert "0.05" in " ".join(words("en", judge(vms_rules.STAGES, known), known))
    assert verdict(replace(known, buffers_bytes={"send": None, "receive": None})) == "undetermined"
    assert verdict(replace(known, connections=4)) == "undetermined"
    for changed in (
        replace(flow, in_flight_mb_max=0.4),
        replace(flow, in_flight_mb_max=0.02),
        replace(flow, tcp_idle_percent=40.0),
        replace(flow, tcp_receive_window_percent=20.0),
    ):
        assert verdict(replace(known, flows=(changed,))) == "undetermined"


def test_busy_core_takes_precedence_over_the_stall_that_it_causes() -> None:
    stalled = replace(FLOW, tcp_receive_window_percent=80.0)
    assert verdict(replace(QUIET, flows=(stalled,))) == "receive_window"
    assert verdict(replace(QUIET, flows=(stalled,), used={"cpu/initiator": 97.0, "drives": 1.0})) == "generator_cpu"


def test_full_write_cache_takes_precedence_over_the_drives_behind_it() -> None:
    used = {"drives": 99.0}
    assert verdict(replace(QUIET, used=used, cache=Cache(99.0, 80.0))) == "cache"
    assert verdict(replace(QUIET, used=used, cache=Cache(60.0, 1.0))) == "drives"


def test_full_queue_before_the_network_holds_the_load_while_devices_and_links_have_room() -> None:
    waiting = replace(QUIET, guest_queue_percent=62.0, load=ClosedLoad(32, 32))
    assert verdict(waiting) == "guest_queue"
    assert "62" in " ".join(words("en", judge(vms_rules.STAGES, waiting), waiting))
    # Commands that wait in the host fill the rings of the guests.
    assert verdict(replace(waiting, host_queue_percent=20.0)) == "host_queue"
    assert verdict(replace(waiting, guest_queue_percent=9.0)) == "depth"
    assert verdict(replace(waiting, used={"drives": 94.0}, load=None)) == "undetermined"
    assert verdict(replace(waiting, used={"drives": 99.0})) == "drives"
    # Where no device and no link is watched, a slow array may be what fills the queue.
    assert verdict(replace(waiting, used={"cpu/initiator": 20.0})) == "undetermined"


def test_full_ring_takes_precedence_over_few_requests_outstanding() -> None:
    turns = Bound("turns", 20e6, {"r2ts": 0, "turns": 1.0, "rtt_s": 0.02})
    far = replace(QUIET, rtt_ms=20.0, bounds=(turns,), r2ts_per_command=0.0)
    assert verdict(far) == "depth"
    assert verdict(replace(far, guest_queue_percent=62.0)) == "guest_queue"


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_about_low_use_name_no_wait_on_a_link(language: str) -> None:
    """Devices may take the time of the requests, and the lab may have no delay."""
    idle = replace(QUIET, load=ClosedLoad(4, 4))
    turns = {"r2ts": 0, "turns": 1.0, "rtt_s": 0.02, "command_bytes": 65536, "request_bytes": 65536}
    turns |= {"commands_per_request": 1, "outstanding": 1, "queue_depth": 1, "seconds": 0.02, "transfer_s": 0.001}
    far = replace(QUIET, rtt_ms=20.0, bounds=(Bound("turns", 20e6, turns),))
    in_transit = say(language, "because.depth")
    assert in_transit not in words(language, judge(vms_rules.STAGES, idle), idle)
    assert words(language, judge(vms_rules.STAGES, far), far)[0] == in_transit


def test_words_about_a_growing_window_do_not_claim_slow_start() -> None:
    growing = replace(FLOW, window_growth=1.5, retransmitted_percent=0.0, tcp_path_percent=95.0)
    evidence = replace(QUIET, flows=(growing,))
    text = {language: " ".join(words(language, judge(vms_rules.STAGES, evidence), evidence)) for language in LANGUAGES}
    assert "still growing" in text["en"] and "slow start" not in text["en"]
    assert "拡大中" in text["ja"] and "スロースタート" not in text["ja"]


def test_growing_window_is_slow_start_only_if_it_holds_the_flow_back() -> None:
    growing = replace(FLOW, window_growth=1.5, retransmitted_percent=0.0, tcp_path_percent=95.0)
    assert verdict(replace(QUIET, flows=(growing,))) == "slow_start"
    for changed in (
        replace(growing, tcp_path_percent=50.0),
        replace(growing, link_busy_percent=None),
        replace(growing, retransmitted_percent=0.1),
        replace(growing, retransmitted_percent=None),
        replace(growing, window_growth=1.1),
    ):
        assert verdict(replace(QUIET, flows=(changed,))) == "undetermined"


def test_limiter_is_the_device_or_link_closest_to_full() -> None:
    assert verdict(replace(QUIET, used={"drives": 98.1, "link/a/out": 99.5})) == "link"
    assert verdict(replace(QUIET, used={"drives": 100.0, "controller": 95.5})) == "drives"


ALL = [
    rule for stages in (vms_rules.STAGES, copy_rules.STAGES, packets_rules.STAGES) for stage in stages for rule in stage
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted({rule.name for rule in ALL} | {"undetermined"}))
def test_every_verdict_has_its_noun_and_sentence(name: str, language: str) -> None:
    assert f"limiter.{name}" in catalogue(language)
    assert name == "undetermined" or f"because.{name}" in catalogue(language)


def test_kinds_list_their_rules() -> None:
    for name, stages in (("vms", vms_rules.STAGES), ("copy", copy_rules.STAGES), ("packets", packets_rules.STAGES)):
        assert kind.named(name).analysis.rules == stages


@pytest.mark.parametrize("name", sorted(kind.of_studies()))
def test_study_may_expect_only_the_verdicts_of_its_kind(name: str) -> None:
    study_kind = kind.named(name)
    names = {rule.name for stage in study_kind.analysis.rules for rule in stage}
    study = shipped(
        {"vms": "vm-sweep", "copy": "backup-mismatch", "packets": "forwarding", "files": "file-server"}[name]
    ).study
    assert study_kind.study.verdicts(study) == names | {"undetermined"}


def test_words_of_an_undetermined_point_name_the_busiest_resource() -> None:
    outcome = judge(vms_rules.STAGES, QUIET)
    assert any("40.0 %" in sentence for sentence in words("en", outcome, QUIET))


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools/rules.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
