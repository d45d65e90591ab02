"""The watch engine's capture: its files hold every packet, and dropped packets are counted."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hakaru.capture import analyse, print_analysis
from hakaru.wording import number

from tests.capture.load import loaded
from tests.capture.namespace import Namespace, namespace
from tests.peers.array import MIB, TARGET_NAME, Engine, array, lu, need

# Large enough for the packets that arrive while a loaded machine is late.
ROOMY = {"ring_bytes": 128 * MIB, "snap_bytes": 262144}


@pytest.fixture
def place() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


@contextlib.contextmanager
def watching(place: Namespace, **capture: Any) -> Iterator[Engine]:
    """Run a watch engine that captures in the namespace."""
    watch = Engine(
        {"engine": "watch", "sample_interval_ms": 100, "capture": {"interface": "lo", **capture}}, place.inside
    )
    try:
        yield watch
    finally:
        watch.close()


def until(predicate: Callable[[], object], condition: str) -> None:
    deadline = time.monotonic() + 120
    while not predicate():
        assert time.monotonic() < deadline, f"not within 120 s: {condition}"
        time.sleep(0.01)


def tshark(file: Path, *options: str) -> list[str]:
    program = need("tshark", "tshark")
    command = [program, "-n", "-r", str(file), "-T", "fields", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def port_of(storage: Any) -> int:
    return int(storage.portal.rpartition(":")[2])


def chatter(place: Namespace, datagrams: int, size: int = 1400, port: int = 9) -> None:
    """Send datagrams on loopback to a port without a receiver; the kernel answers some by ICMP."""
    send = f"s.sendto(bytes({size}), ('127.0.0.1', {port}))"
    script = f"import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor _ in range({datagrams}): {send}"
    place.run("python3", "-c", script)


def test_capture_has_every_packet_once_and_tshark_reads_it(place: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "lo.pcapng"
    with array(lu(0, 16 * MIB), inside=place.inside) as storage:
        port = port_of(storage)
        with watching(place, file=str(file), ports=[port], **ROOMY) as watch:
            began = watch.found["capture"]
            counted = loaded(storage.portal, place.inside)
            chatter(place, 10)
            values = watch.stop()
    analysed = analyse([file], [port])
    assert values["capture_dropped"] == analysed["packets_dropped_in_capture"] == 0
    assert values["capture_packets"] == analysed["capture"]["packets"] > 100
    assert values["capture_written_bytes"] == file.stat().st_size
    assert values["capture_files"] == 1 and values["capture_cpu_ns"] > 0 and values["capture_cut_short"] == 0
    assert analysed["capture"]["not_seen"] == dict.fromkeys(analysed["capture"]["not_seen"], 0)
    assert analysed["capture"]["packets_back_in_time"] == analysed["capture"]["packets_cut"] == 0
    # Every packet arrived after the instant at which both clocks were read.
    assert analysed["capture"]["first_ns"] > began["realtime_ns"]
    session = max(analysed["capture"]["sessions"], key=lambda session: int(session["commands"]))
    assert session["target_name"] == TARGET_NAME
    assert session["reads"]["commands"] + session["writes"]["commands"] == counted["commands"] > 10
    for side in ("from_initiator", "from_target"):
        assert (session[side]["missing_bytes"], session[side]["skipped_bytes"], session[side]["cut_bytes"]) == (0, 0, 0)
        # Each packet passes loopback twice but is in the file once. On a busy machine TCP
        # retransmits some bytes.
        assert session[side]["retransmitted_bytes"] < session[side]["bytes"] / 2
    ports = tshark(file, "-e", "tcp.srcport", "-e", "tcp.dstport")
    assert len(ports) == values["capture_packets"]
    assert all(str(port) in line.split("\t") for line in ports)


def test_rotation_keeps_the_newest_files_and_they_read_as_one(place: Namespace, tmp_path: Path) -> None:
    with array(lu(0, 16 * MIB), inside=place.inside) as storage:
        settings = {"file": str(tmp_path / "lo.pcapng"), "rotate_bytes": MIB, "files_max": 3}
        with watching(place, **settings, ports=[port_of(storage)], **ROOMY) as watch:
            # Many files, also if a busy machine sends only a part of the requests.
            loaded(storage.portal, place.inside, size_bytes=128 << 10)
            values = watch.stop()
    files = sorted(tmp_path.glob("lo-*.pcapng"))
    assert len(files) == 3 < values["capture_files"]
    assert files[-1].name == f"lo-{int(values['capture_files']):05}.pcapng"
    assert all(MIB <= file.stat().st_size < 2 * MIB for file in files[:-1])
    assert values["capture_dropped"] == 0
    analysed = analyse(files, [port_of(storage)])
    assert all(not file["truncated"] for file in analysed["files"])
    # The file with the login was deleted; the session is recognised by its content.
    (session,) = analysed["capture"]["sessions"]
    assert session["reads"]["commands"] + session["writes"]["commands"] > 1
    assert session["from_target"]["missing_bytes"] == session["from_initiator"]["missing_bytes"] == 0


def test_packets_dropped_for_lack_of_ring_space_are_counted_and_reported(
    place: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lo.pcapng"
    with (
        array(lu(0, 16 * MIB), inside=place.inside) as storage,
        watching(place, file=str(file), ring_bytes=MIB, snap_bytes=262144, ports=[port_of(storage)]) as watch,
    ):
        # The stopped engine does not empty the ring.
        signal_engine(watch, "-STOP")
        loaded(storage.portal, place.inside)
        signal_engine(watch, "-CONT")
        values = watch.stop()
    analysed = analyse([file], [port_of(storage)])
    assert values["capture_dropped"] > 0
    assert analysed["packets_dropped_in_capture"] == values["capture_dropped"]
    assert analysed["capture"]["packets"] == values["capture_packets"] == len(tshark(file, "-e", "frame.number"))
    print_analysis(analysed, "en")
    dropped = number(int(values["capture_dropped"]))
    assert f"{dropped} packets were dropped while capturing." in capsys.readouterr().out


def signal_engine(watch: Engine, signal: str) -> None:
    """Send a signal to the engine, which replaced `nsenter`; wait until it is stopped."""
    pid = str(watch.process.pid)
    subprocess.run(["kill", signal, pid], check=True)
    if signal == "-STOP":
        state = Path(f"/proc/{pid}/stat")
        until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the engine is stopped")


def test_a_killed_capture_leaves_a_readable_file_and_no_socket(place: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "lo.pcapng"
    with watching(place, file=str(file), **ROOMY) as watch:
        chatter(place, 100)
        until(lambda: file.stat().st_size > 100 * 1400, "the packets are in the file")
        assert len(place.run("cat", "/proc/net/packet").splitlines()) == 2
        watch.process.kill()
        watch.process.wait()
        assert len(place.run("cat", "/proc/net/packet").splitlines()) == 1
    assert len(tshark(file, "-e", "udp.dstport", "-Y", "udp and not icmp")) == 100


def test_snap_length_cuts_packets_and_keeps_their_original_lengths(place: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "lo.pcapng"
    with watching(place, file=str(file), snap_bytes=144, ring_bytes=128 * MIB) as watch:
        chatter(place, 5)
        watch.stop()
    seen = tshark(file, "-e", "frame.len", "-e", "frame.cap_len", "-Y", "udp and not icmp")
    assert seen == [f"{14 + 20 + 8 + 1400}\t144"] * 5


def test_vlan_tag_removed_by_the_kernel_is_restored(place: Namespace, tmp_path: Path) -> None:
    place.cable("near", "far")
    files = {name: tmp_path / f"{name}.pcapng" for name in ("near", "far")}
    with (
        watching(place, interface="near", file=str(files["near"]), ring_bytes=128 * MIB) as near,
        watching(place, interface="far", file=str(files["far"]), ring_bytes=128 * MIB) as far,
    ):
        # The tag is sent unchanged; Linux removes it from received frames.
        place.send_frame("near", "8100 e007 88b5")
        near.stop()
        far.stop()
    fields = ["-e", "vlan.priority", "-e", "vlan.id", "-e", "vlan.etype", "-e", "frame.len"]
    for file in files.values():
        assert tshark(file, *fields, "-Y", "vlan") == ["7\t7\t0x88b5\t118"], file


def test_capture_survives_a_downed_interface_and_ends_alone_at_its_removal(place: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "near.pcapng"
    place.cable("near", "far")
    with watching(place, interface="near", file=str(file), ring_bytes=128 * MIB) as watch:
        watch.send({"type": "start", "at_ns": 0})
        place.send_frame("near", "88b5")
        place.run("ip", "link", "set", "near", "down")
        place.run("ip", "link", "set", "near", "up")
        place.send_frame("near", "88b5")
        seen = ["-e", "eth.type", "-Y", "eth.type == 0x88b5"]
        until(lambda: len(tshark(file, *seen)) == 2, "both frames are in the file")
        place.run("ip", "link", "delete", "near")
        error = watch.wait_for("error")
        assert "there is no such interface" in error["message"] and not error["fatal"]
        watch.wait_for("sample")
        values = watch.stop()
    assert len(tshark(file, *seen)) == 2 <= values["capture_packets"]


def test_full_disk_ends_only_the_capture(place: Namespace) -> None:
    with watching(place, file="/dev/full") as watch:
        watch.send({"type": "start", "at_ns": 0})
        error = watch.wait_for("error")
        assert "/dev/full" in error["message"] and "No space left" in error["message"]
        assert not error["fatal"] and "rotate_bytes" in error["hint"]
        watch.wait_for("sample")
        values = watch.stop()
        assert (values["capture_files"], values["capture_cut_short"]) == (1, 1)


@pytest.mark.parametrize(
    ("capture", "reasons"),
    [
        ({"interface": "none0"}, ["none0: there is no such interface", "namespace: lo"]),
        ({"interface": "down0"}, ["down0: Network is down", "bring the interface up"]),
        ({"interface": "tun0"}, ["tun0: its packets have no Ethernet header"]),
        ({"snap_bytes": 10}, ["snap_bytes is 10", "144 to 262144"]),
        ({"files_max": 3}, ["files_max without rotate_bytes"]),
        ({"files_max": 1, "rotate_bytes": MIB}, ["files_max is 1"]),
        ({"rotate_bytes": 1}, ["rotate_bytes is 1"]),
        ({"ports": list(range(1, 40))}, ["ports is 39"]),
        ({"file": "/nowhere/at/all.pcapng"}, ["/nowhere/at/all.pcapng", "an existing folder"]),
    ],
    ids=str,
)
def test_impossible_capture_is_refused_with_the_reason(
    place: Namespace, tmp_path: Path, capture: dict[str, Any], reasons: list[str]
) -> None:
    file = tmp_path / "x.pcapng"
    file.write_bytes(b"of before")
    if capture.get("interface") == "down0":
        place.run("ip", "link", "add", "down0", "type", "veth", "peer", "name", "down1")
    if capture.get("interface") == "tun0":
        place.run("ip", "tuntap", "add", "tun0", "mode", "tun")
        place.run("ip", "link", "set", "tun0", "up")
    with pytest.raises(AssertionError) as refused, watching(place, **{"file": str(file), **capture}):
        pass
    for reason in reasons:
        assert reason in str(refused.value)
    assert file.read_bytes() == b"of before"


def test_capture_without_permission_names_the_missing_capability(tmp_path: Path) -> None:
    # Root of its own user namespace, in a network namespace of another user.
    inside = (need("unshare", "util-linux"), "--user", "--map-root-user")
    config = {"engine": "watch", "capture": {"interface": "lo", "file": str(tmp_path / "x.pcapng")}}
    with pytest.raises(AssertionError, match="CAP_NET_RAW"):
        Engine(config, inside)
    assert not (tmp_path / "x.pcapng").exists()


def test_capture_file_records_one_instant_on_both_clocks(place: Namespace, tmp_path: Path) -> None:
    file = tmp_path / "lo.pcapng"
    with watching(place, file=str(file)) as watch:
        began = watch.found["capture"]
        values = watch.stop()
    comment = f"CLOCK_MONOTONIC {began['monotonic_ns']} ns is CLOCK_REALTIME {began['realtime_ns']} ns"
    assert comment.encode() in file.read_bytes()
    boot_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # Fails only if the clock is set during the test.
    assert abs(began["realtime_ns"] - began["monotonic_ns"] - boot_ns) < 1e9
    assert abs(values["capture_clock_set_ns"]) < 1e9
