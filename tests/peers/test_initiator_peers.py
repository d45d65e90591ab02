"""Our initiator with tgt, files, our array with many combinations of keys, and faulty targets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers import tgt as other
from tests.peers.array import MIB, array, lu
from tests.peers.array import TARGET_NAME as OUR_TARGET
from tests.peers.initiator import Event, Outcome, histogram, iscsi, load, load_until, vm

MIXED = {"sizes": [{"bytes": 512}, {"bytes": 4096, "weight": 3}, {"bytes": 262_144}], "read_percent": 50}
Send = Callable[[Event], None]


@pytest.fixture
def tgt(tmp_path: Path) -> Iterator[other.Tgt]:
    with other.tgt(tmp_path, 64 * MIB) as running:
        yield running


def on_tgt(tgt: other.Tgt, name: str = "vm1", **more: Any) -> dict[str, Any]:
    return vm(name, iscsi(tgt.portal, other.TARGET_NAME, other.LUN, name), **more)


def failure(outcome: Outcome) -> Event:
    """Return the fatal error, which must be the last event and have a hint."""
    error = outcome.events[-1]
    assert error["type"] == "error" and error["fatal"] and error["hint"], outcome.events
    return error


def check_sums(outcome: Outcome) -> None:
    """Check that the result is the sum of the samples of the measuring phase, for counters and
    histograms.
    """
    begin, end = outcome.phase("measure"), outcome.phase("drain")
    samples = {s["at_ns"]: s for s in outcome.events_of("sample")}
    for name in ("reads", "writes", "read_bytes", "write_bytes", "read_latency_ns_sum", "outstanding_ns", "errors"):
        counted = samples[end]["counters"]["vms"][name] - samples[begin]["counters"]["vms"][name]
        assert counted == outcome.values[name], name
    intervals = [s for at, s in samples.items() if begin < at <= end]
    for i, counter in enumerate(("reads", "writes")):
        parts = sum(histogram(s["histograms"][i]).get_total_count() for s in intervals)
        total = histogram(outcome.only("result")["histograms"][i])
        assert parts == total.get_total_count() == outcome.values[counter]


def test_verified_mix_of_sizes_on_tgt_counts_every_request_once(tgt: other.Tgt) -> None:
    quarter = 16 * MIB
    vms = [
        on_tgt(tgt, f"vm{i}", pattern=MIXED, region={"offset_bytes": i * quarter, "length_bytes": quarter}, seed=i)
        for i in range(4)
    ]
    outcome = load_until(lambda counters: counters["reads"] > 50 and counters["writes"] > 50, *vms, verify=True)
    assert outcome.exit_code == 0
    assert outcome.only("ready")["found"]["sessions"] == 4
    assert outcome.values["reads"] > 50 and outcome.values["writes"] > 50 and outcome.values["errors"] == 0
    check_sums(outcome)
    by_vm = outcome.events_of("sample")[-1]["counters"]
    assert sum(by_vm[f"vm/vm{i}"]["reads"] for i in range(4)) == by_vm["vms"]["reads"]


@pytest.mark.alone
def test_closed_loop_keeps_its_depth_and_littles_law_holds(tgt: other.Tgt) -> None:
    outcome = load(on_tgt(tgt, load={"kind": "closed", "queue_depth": 16}), measure_s=1.0)
    values = outcome.values
    begin, end = outcome.phase("measure"), outcome.phase("drain")
    during = [s["counters"]["vms"] for s in outcome.events_of("sample") if begin < s["at_ns"] < end]
    assert during and {counters["in_flight_now"] for counters in during} == {16}
    # From the arrival of a response until the next request leaves, the initiator works or waits for
    # a CPU. This time does not count as outstanding.
    assert 8 < values["outstanding_ns"] / values["measured_ns"] <= 16.01
    assert values["read_latency_ns_sum"] == pytest.approx(values["outstanding_ns"], rel=0.05)
    assert histogram(outcome.only("result")["histograms"][0]).get_mean_value() == pytest.approx(
        values["read_latency_ns_sum"] / values["reads"], rel=0.01
    )


@pytest.mark.alone
@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_open_loop_achieves_the_offered_rate(tgt: other.Tgt, arrivals: str) -> None:
    offered = {"kind": "open", "rate_per_s": 500.0, "arrivals": arrivals, "in_flight_max": 64}
    outcome = load(on_tgt(tgt, load=offered), measure_s=2.0)
    # A Poisson count of 1000 arrivals is within four standard deviations (126) with p > 0.9999.
    assert outcome.values["reads"] == pytest.approx(1000, abs=5 if arrivals == "uniform" else 126)


def test_writes_of_a_megabyte_and_sequential_reads_go_through_tgt(tgt: other.Tgt) -> None:
    large = {"sizes": [{"bytes": MIB}], "random_percent": 0}
    for read_percent in (0, 100):
        counter = "read_bytes" if read_percent else "write_bytes"
        outcome = load_until(
            lambda counters, counter=counter: counters[counter] >= 10 * MIB,
            on_tgt(tgt, pattern=large | {"read_percent": read_percent}),
        )
        assert outcome.exit_code == 0 and outcome.values["errors"] == 0
        assert outcome.values["read_bytes"] + outcome.values["write_bytes"] == outcome.values[counter] >= 10 * MIB


def test_data_damaged_in_the_backing_file_end_the_load_with_exit_code_6(tgt: other.Tgt) -> None:
    small = {"offset_bytes": 0, "length_bytes": MIB}
    damaged = False

    def damage(event: Event, send: Send) -> None:
        nonlocal damaged
        # Blocks with known data: a damaged block that nothing has written would not be noticed.
        if not damaged and event["type"] == "sample" and event["counters"]["vms"]["writes"] > 100:
            with tgt.backing.open("r+b") as file:
                file.write(b"\xa5" * MIB)
            damaged = True

    mix = {"read_percent": 50}
    outcome = load(on_tgt(tgt, pattern=mix, region=small), verify=True, measure_s=0.0, on_event=damage)
    assert outcome.exit_code == 6
    error = failure(outcome)
    assert error["class"] == "verification"
    assert "vm1" in error["message"] and "wrong data" in error["message"]


def test_vanished_target_ends_the_load_at_once_with_exit_code_7_and_names_vm_and_portal(tgt: other.Tgt) -> None:
    seen: list[dict[str, float]] = []
    killed: list[float] = []

    def kill(event: Event, send: Send) -> None:
        if event["type"] == "phase" and event["phase"] == "measure":
            # A target killed at once may have answered a request whose successor is never sent.
            tgt.process.send_signal(signal.SIGSTOP)
            seen.append({})
        elif event["type"] == "sample" and seen and not killed:
            vms = event["counters"]["vms"]
            seen.append({name: vms[name] for name in ("reads", "writes", "in_flight_now")})
            if seen[-1] == seen[-2] and vms["in_flight_now"] == 2:
                killed.append(time.monotonic())
                tgt.process.kill()

    outcome = load(on_tgt(tgt), measure_s=60.0, on_event=kill)
    assert outcome.exit_code == 7 and time.monotonic() - killed[0] < 30
    error = failure(outcome)
    assert error["class"] == "peer"
    assert "vm1" in error["message"] and tgt.portal in error["message"] and "connection lost" in error["message"]
    # Requests in flight are counted as errors.
    assert outcome.events_of("sample")[-1]["counters"]["vms"]["errors"] == 2


def test_silent_target_ends_the_load_with_exit_code_7_within_the_timeout(tgt: other.Tgt) -> None:
    started = time.monotonic()
    frozen: list[float] = []

    def freeze(event: Event, send: Send) -> None:
        if event["type"] == "phase" and event["phase"] == "measure":
            tgt.process.send_signal(signal.SIGSTOP)
            frozen.append(time.monotonic())

    outcome = load(on_tgt(tgt), measure_s=0.0, command_timeout_s=1.0, on_event=freeze)
    ended = time.monotonic()
    assert outcome.exit_code == 7 and ended - started > 1.0 and ended - frozen[0] < 30
    error = failure(outcome)
    assert error["class"] == "unanswered" and "not answered within 1 s" in error["message"]


def test_portal_without_a_listener_ends_the_load_with_exit_code_7(tgt: other.Tgt) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        portal = f"127.0.0.1:{closed.getsockname()[1]}"
        outcome = load(vm("vm1", iscsi(portal, other.TARGET_NAME, 1, "vm1")))
    assert outcome.exit_code == 7
    assert portal in failure(outcome)["message"] and "refused" in failure(outcome)["message"]


def test_wrong_target_name_is_refused_as_target_not_found(tgt: other.Tgt) -> None:
    outcome = load(vm("vm1", iscsi(tgt.portal, "iqn.2011-10.example.tgt:other", 1, "vm1")))
    assert outcome.exit_code == 7
    assert "target not found" in failure(outcome)["message"]


def test_lun_that_is_no_disk_ends_with_exit_code_2_and_lists_the_luns(tgt: other.Tgt) -> None:
    outcome = load(vm("vm1", iscsi(tgt.portal, other.TARGET_NAME, 0, "vm1")))
    assert outcome.exit_code == 2
    assert "LUN 0 is not a disk" in failure(outcome)["message"] and "[0, 1]" in failure(outcome)["message"]


def test_region_beyond_the_lu_ends_with_exit_code_2_and_names_the_field(tgt: other.Tgt) -> None:
    outcome = load(on_tgt(tgt, region={"offset_bytes": 0, "length_bytes": 65 * MIB}))
    assert outcome.exit_code == 2
    assert "vms[0].region" in failure(outcome)["message"]


def test_load_without_a_time_limit_measures_until_stop(tgt: other.Tgt) -> None:
    outcome = load_until(lambda counters: counters["reads"] > 100, on_tgt(tgt))
    assert outcome.exit_code == 0 and outcome.values["reads"] > 100 and outcome.values["measured_ns"] > 0
    check_sums(outcome)


def test_real_time_priority_is_taken_where_the_system_permits_it(tgt: other.Tgt) -> None:
    permitted = subprocess.run(["chrt", "--rr", "1", "true"], capture_output=True, check=False).returncode == 0
    outcome = load(on_tgt(tgt), measure_s=0.2, real_time=True)
    assert outcome.exit_code == 0
    assert outcome.only("ready")["found"]["real_time"] is permitted


def test_order_to_measure_ends_the_warm_up(tgt: other.Tgt) -> None:
    ordered = False

    def measure(event: Event, send: Send) -> None:
        nonlocal ordered
        if not ordered and event["type"] == "sample" and event["counters"]["vms"]["reads"] > 10:
            send({"type": "measure", "at_ns": 0})
            ordered = True

    outcome = load(on_tgt(tgt), warmup_s=600.0, measure_s=0.5, on_event=measure)
    assert outcome.exit_code == 0
    measured_ns = outcome.phase("drain") - outcome.phase("measure")
    assert outcome.values["measured_ns"] == measured_ns >= 0.5e9
    check_sums(outcome)


def test_stop_before_start_ends_cleanly(tgt: other.Tgt) -> None:
    def stop(event: Event, send: Send) -> None:
        if event["type"] == "ready":
            send({"type": "stop"})

    outcome = load(on_tgt(tgt), warmup_s=50.0, on_event=stop)
    assert outcome.exit_code == 0 and outcome.values["reads"] == 0


@pytest.mark.parametrize(
    "login",
    [
        {"header_digest": True, "data_digest": True},
        {"initial_r2t": True, "immediate_data": False, "max_outstanding_r2t": 8, "max_burst_length": 65_536},
        {"max_recv_data_segment_length": 512, "first_burst_length": 512, "max_burst_length": 1024},
    ],
)
def test_data_on_our_array_are_right_for_any_negotiated_keys(login: dict[str, Any]) -> None:
    with array(lu(0, 16 * MIB)) as a:
        destination = iscsi(a.portal, OUR_TARGET, 0, "vm1")
        many = vm("vm1", destination, pattern=MIXED)
        outcome = load_until(lambda counters: counters["writes"] > 20, many, verify=True, login=login)
        values = a.engine.stop()
    assert outcome.exit_code == 0 and outcome.values["errors"] == 0 and outcome.values["writes"] > 20
    assert values["protocol_errors"] == values["rejects"] == 0
    negotiated = outcome.only("ready")["found"]["negotiated"]
    assert negotiated["header_digest"] == login.get("header_digest", False)


def test_array_and_initiator_count_the_same_bytes_over_500_sessions() -> None:
    with array(lu(0, 64 * MIB)) as a:
        vms = [
            vm(f"vm{i}", iscsi(a.portal, OUR_TARGET, 0, f"vm{i}"), pattern={"read_percent": 70}, seed=i)
            for i in range(500)
        ]
        outcome = load(*vms)
        served = a.engine.stop()
    done = outcome.events_of("sample")[-1]["counters"]["vms"]
    for name in ("read_bytes", "write_bytes"):
        assert done[name] == served[name]
    assert served["logins"] == served["logouts"] == 500
    assert outcome.only("ready")["found"]["sessions"] == 500
    assert "vm/vm1" not in outcome.events_of("sample")[0]["counters"], (
        "500 VMs appear one by one in the last sample only"
    )
    assert "vm/vm499" in outcome.events_of("sample")[-1]["counters"]


@pytest.mark.parametrize("direct", [False, True])
def test_file_takes_the_same_patterns_and_is_verified(tmp_path: Path, direct: bool) -> None:
    path = tmp_path / "volume"
    with path.open("wb") as file:
        file.truncate(16 * MIB)
    pattern = {"sizes": [{"bytes": 4096}, {"bytes": 65_536}], "read_percent": 50}
    outcome = load_until(
        lambda counters: counters["reads"] > 20 and counters["writes"] > 20,
        vm("vm1", {"kind": "file", "path": str(path), "direct": direct}, pattern=pattern),
        verify=True,
    )
    if direct and outcome.exit_code == 3:
        pytest.skip(f"no direct I/O in {tmp_path}")
    assert outcome.exit_code == 0 and outcome.values["errors"] == 0
    assert outcome.values["reads"] > 20 and outcome.values["writes"] > 20
    assert outcome.only("ready")["found"]["io_backend"] in ("io_uring", "threads")
    assert b"hakaru" in path.read_bytes()
    check_sums(outcome)


def test_missing_file_ends_with_exit_code_3_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    outcome = load(vm("vm1", {"kind": "file", "path": str(path)}))
    assert outcome.exit_code == 3 and str(path) in failure(outcome)["message"]
    assert not path.exists()


def test_destination_that_is_not_expendable_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    path.write_bytes(os.urandom(MIB))
    before = path.read_bytes()
    destination = {"kind": "file", "path": str(path)}
    refused = load(vm("vm1", destination, pattern={"read_percent": 99}), allow_writes=False)
    assert refused.exit_code == 2 and "read_percent" in failure(refused)["message"]
    assert load(vm("vm1", destination), allow_writes=False).exit_code == 0
    assert path.read_bytes() == before


def answer_logins(listener: socket.socket, answer: Callable[[bytes], bytes], *, closes: bool = False) -> None:
    """Answer the first request of every connection until the listener is closed. `closes`: end the
    connection at once, instead of with the initiator.
    """

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(answer(connection.recv(65_536)))
                if not closes:
                    connection.recv(1)

    threading.Thread(target=serve, daemon=True).start()


def login_response(request: bytes, status: int, text: bytes = b"") -> bytes:
    """Return a Login Response whose class is not success (RFC 7143, section 11.13)."""
    header = bytearray(48)
    header[0] = 0x23
    header[5:8] = len(text).to_bytes(3, "big")
    header[8:20] = request[8:20]
    header[36:38] = status.to_bytes(2, "big")
    return bytes(header) + text + bytes(-len(text) % 4)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("closes", [False, True], ids=["waits", "closes"])
def test_redirect_leads_to_the_target(tgt: other.Tgt, listener: socket.socket, closes: bool) -> None:
    text = f"TargetAddress={tgt.portal},1\0".encode()
    answer_logins(listener, lambda request: login_response(request, 0x0101, text), closes=closes)
    portal = f"127.0.0.1:{listener.getsockname()[1]}"
    redirected = vm("vm1", iscsi(portal, other.TARGET_NAME, other.LUN, "vm1"))
    outcome = load_until(lambda counters: counters["reads"] > 0, redirected)
    assert outcome.exit_code == 0 and outcome.values["reads"] > 0


def test_circular_redirects_end_with_exit_code_7(listener: socket.socket) -> None:
    portal = f"127.0.0.1:{listener.getsockname()[1]}"
    text = f"TargetAddress={portal},1\0".encode()
    answer_logins(listener, lambda request: login_response(request, 0x0101, text))
    outcome = load(vm("vm1", iscsi(portal, other.TARGET_NAME, 1, "vm1")))
    assert outcome.exit_code == 7 and "redirected 9 times" in failure(outcome)["message"]


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 8, bytes(96), b"\xff" * 512])
def test_server_that_is_no_iscsi_target_ends_with_exit_code_7(listener: socket.socket, noise: bytes) -> None:
    answer_logins(listener, lambda request: noise)
    portal = f"127.0.0.1:{listener.getsockname()[1]}"
    outcome = load(vm("vm1", iscsi(portal, other.TARGET_NAME, 1, "vm1")), command_timeout_s=2.0)
    assert outcome.exit_code == 7
    assert portal in failure(outcome)["message"]


def test_engine_logs_out_and_ends_when_its_controller_disappears() -> None:
    with array(lu(0, 16 * MIB)) as a:

        def leave(event: Event, send: Send) -> None:
            if event["type"] == "phase" and event["phase"] == "measure":
                raise KeyboardInterrupt

        # Leaving `load` closes the stdin of the engine, which stops it, and waits for its end.
        with pytest.raises(KeyboardInterrupt):
            load(vm("vm1", iscsi(a.portal, OUR_TARGET, 0, "vm1")), measure_s=60.0, on_event=leave)
        assert a.engine.stop()["logouts"] == 1


SSD = "nvme-ssd-2000"


def _reads_and_wake_ups(portal: str, **more: Any) -> tuple[float, float]:
    """Return the reads and the wake-ups of one second with 64 reads in flight."""
    destination = iscsi(portal, OUR_TARGET, 0, "vm1")
    deep = {"kind": "closed", "queue_depth": 64}
    outcome = load(vm("vm1", destination, load=deep), measure_s=1.0, **more)
    assert outcome.exit_code == 0
    return outcome.values["reads"], outcome.events_of("sample")[-1]["counters"]["process"]["voluntary_switches"]


@pytest.mark.alone
def test_responses_of_a_slow_target_are_coalesced_and_those_of_a_fast_one_are_not() -> None:
    # Commands run one after the other, 200 us each. 64 commands take 12.8 ms, so the initiator may
    # wait for the whole millisecond.
    slow = {
        "kind": "array",
        "controller": {"command_us": 200.0, "data_us_per_mib": 0.0},
        "groups": [
            {"raid": "raid0", "drives": 1, "stripe_unit_bytes": 65536, "drive": {"kind": "preset", "name": SSD}}
        ],
    }
    with array(lu(0, 16 * MIB, placement={"group": 0, "offset_bytes": 0}), model=slow) as a:
        gathered, wake_ups = _reads_and_wake_ups(a.portal, coalesce_us=1000)
        assert wake_ups < gathered / 2
        alone, wake_ups_alone = _reads_and_wake_ups(a.portal, coalesce_us=0)
        # The number of answers per wake-up depends on how late this machine wakes threads, so the
        # test compares two loads.
        assert wake_ups_alone / alone > 1.3 * wake_ups / gathered
        assert gathered > 0.7 * alone, "the wait leaves the target busy"
    with array(lu(0, 16 * MIB)) as a:
        destination = iscsi(a.portal, OUR_TARGET, 0, "vm1")
        lone = {"kind": "closed", "queue_depth": 1}
        outcome = load(vm("vm1", destination, load=lone), measure_s=1.0, coalesce_us=1000)
        assert outcome.values["reads"] > 1500, "the initiator does not wait a millisecond for faster answers"
