"""Runs one case of the packet benchmark in its own network namespace and prints one JSON object.

A sender at `a0` sends frames of one size as fast as it can over a veth pair to `b0`. The number
sent is the kernel's count of frames received at `b0`, so it is counted alike for every program. A
receiver at `b0`, if the case has one, counts on its own. The case is one JSON object:
    sender     hakaru, hakaru_sendmmsg, trafgen, testpmd_af_packet, testpmd_af_xdp
    receiver   hakaru, hakaru_af_xdp, netsniff_ng, testpmd_af_packet, testpmd_af_xdp, or none
    bytes      size of the frames with FCS
    seconds    length of the measurement

usage (mostly by bench/packets.py): unshare --user --map-root-user --net bench/packets_scene.py CASE
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine_process import EngineProcess

WARMUP_S = 0.5
START_TIMEOUT_S = 20.0
FCS_BYTES = 4
PACKET_SOCKETS = "/proc/thread-self/net/packet"
TESTPMD = ["dpdk-testpmd", "--no-shconf", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "-l", "0,1"]
# A small pool of buffers, which need not be locked.
# Packets on one processor, and the program's own end on the other one.
TESTPMD_RECEIVES = ["--forward-mode=rxonly", "--nb-cores=1", "--total-num-mbufs=16384", "--no-mlockall"]
TESTPMD_SENDS = ["--forward-mode=txonly", "--nb-cores=1", "--total-num-mbufs=16384", "--no-mlockall"]
# Addresses of no interface, so that the receiving kernel drops the frames at once.
FRAME = bytes.fromhex("020000000009 020000000001 0800 4500") + bytes(8) + b"\x40\x11" + bytes(10)


def main() -> None:
    """Make the cables, run the case."""
    case: dict[str, Any] = json.loads(sys.argv[1])
    for near, far in (("a0", "b0"), ("c0", "d0")):
        subprocess.run(["ip", "link", "add", near, "type", "veth", "peer", "name", far], check=True)
        for name in (near, far):
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
    run = hakaru if case["sender"].startswith("hakaru") else peer
    print(json.dumps(run(case)))


def received_at(interface: str) -> int:
    """Return the number of frames that the kernel received at an interface."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, numbers = line.rpartition(":")
        if name.strip() == interface:
            return int(numbers.split()[1])
    raise RuntimeError(f"there is no interface {interface}")


def hakaru(case: dict[str, Any]) -> dict[str, float]:
    """Measure our engine as a sender. Unless it also receives, the stream's receiving port is on
    another cable.
    """
    far = "b0" if case["receiver"].startswith("hakaru") else "c0"
    stream = {
        "name": "s",
        "from": "near",
        "to": "far",
        "destination_mac": "02:00:00:00:00:09",
        "source_address": "198.18.0.2",
        "destination_address": "198.19.0.2",
        "sizes": [{"bytes": case["bytes"]}],
    }
    config = {
        "engine": "packets",
        "ports": [{"name": "near", "interface": "a0"}, {"name": "far", "interface": far}],
        "streams": [stream],
        "transmit": "sendmmsg" if case["sender"] == "hakaru_sendmmsg" else "auto",
        "receive": "af_xdp" if case["receiver"] == "hakaru_af_xdp" else "auto",
    }
    with tempfile.TemporaryDirectory() as folder, counter(case, Path(folder)) as counted:
        engine = EngineProcess([case["engine"]], config)
        try:

            def trial(seconds: float) -> dict[str, Any]:
                engine.send(type="trial", id=1, duration_ns=int(seconds * 1e9), rates=[None])
                return engine.wait_for("trial")

            engine.start()
            trial(WARMUP_S)
            before = received_at("b0")
            (counts,) = trial(case["seconds"])["streams"]
            sent = received_at("b0") - before
        finally:
            engine.end()
        received = counts["received"] if far == "b0" else sent * counted() / received_at("b0")
    return {"sent": sent / case["seconds"], "counted": received / case["seconds"]}


def peer(case: dict[str, Any]) -> dict[str, float]:
    """Measure another program, in a window of the running sender."""
    with tempfile.TemporaryDirectory() as folder, counter(case, Path(folder)) as counted:
        with running(sender(case, Path(folder))) as process:
            until = time.monotonic() + START_TIMEOUT_S
            while received_at("b0") < 1000:
                if process.poll() is not None or time.monotonic() > until:
                    last = end(process).strip().splitlines()[-1:]
                    raise RuntimeError(f"{case['sender']} sends nothing: {last}")
                time.sleep(0.01)
            time.sleep(WARMUP_S)
            began, before = time.monotonic(), received_at("b0")
            time.sleep(case["seconds"])
            rate = (received_at("b0") - before) / (time.monotonic() - began)
        total = received_at("b0")
        share = counted() / total
    # The receiver counts from the sender's start to its end, so its share of all frames applies.
    return {"sent": rate, "counted": rate * share}


def sender(case: dict[str, Any], folder: Path) -> list[str]:
    """Return the command line of a sender."""
    length = case["bytes"] - FCS_BYTES
    if case["sender"] == "trafgen":
        frame = FRAME + bytes(length - len(FRAME))
        packet = folder / "frame.cfg"
        packet.write_text("{ " + ", ".join(f"0x{byte:02x}" for byte in frame) + " }\n")
        return ["trafgen", "--dev", "a0", "--conf", str(packet), "--cpus", "1", "--no-sock-mem"]
    # The program ends at the end of its stdin unless it prints statistics.
    words = [*TESTPMD_SENDS, f"--txpkts={length}", "--stats-period=1000", "--auto-start"]
    return [*TESTPMD, f"--vdev={vdev(case['sender'], 'a0')}", "--", *words]


def receiver(name: str) -> tuple[list[str], str]:
    """Return the command line of a receiver at `b0`, and the pattern of its count."""
    if name == "netsniff_ng":
        words = ["netsniff-ng", "--in", "b0", "--out", "/dev/null", "--silent", "--ring-size", "64MiB"]
        return [*words, "--no-promisc", "--no-sock-mem"], r"(\d+)\s+packets passed filter"
    words = [*TESTPMD_RECEIVES, "--stats-period=1000", "--auto-start"]
    # The last statistics are those of all ports.
    return [*TESTPMD, f"--vdev={vdev(name, 'b0')}", "--", *words], r"for all ports[+ ]*\s+RX-packets:\s+(\d+)"


def vdev(program: str, interface: str) -> str:
    """Return DPDK's device for an interface, by the name of a sender or receiver."""
    driver = program.removeprefix("testpmd_")
    return f"net_{driver}0,iface={interface}" + (",force_copy=1" if driver == "af_xdp" else "")


@contextmanager
def counter(case: dict[str, Any], folder: Path) -> Iterator[Callable[[], int]]:
    """Run the receiver, unless it is our engine. Yields a function that ends it and returns its
    count.
    """
    if case["receiver"] == "none" or case["receiver"].startswith("hakaru"):
        yield lambda: 0
        return
    words, pattern = receiver(case["receiver"])
    before = Path(PACKET_SOCKETS).read_text()
    with running(words) as process:
        until = time.monotonic() + START_TIMEOUT_S
        while not is_listening(case["receiver"], before):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{case['receiver']} does not listen: {end(process).strip().splitlines()[-1:]}")
            time.sleep(0.01)

        def count() -> int:
            text = end(process)
            found = re.search(pattern, text)
            if found is None:
                raise RuntimeError(f"{case['receiver']} counted nothing: {text[-200:]}")
            return int(found.group(1))

        yield count


def is_listening(name: str, before: str) -> bool:
    """Return whether a receiver has opened `b0`: its XDP program is there, or a packet socket that
    `before`, an earlier list of these, does not have.
    """
    if name.endswith("af_xdp"):
        shown = subprocess.run(["ip", "-json", "link", "show", "b0"], capture_output=True, text=True, check=True)
        return "xdp" in json.loads(shown.stdout)[0]
    return len(Path(PACKET_SOCKETS).read_text().splitlines()) > len(before.splitlines())


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends. It has a process group, because trafgen forks."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> str:
    """End a program as Ctrl-C does, by force if necessary; return what it printed."""
    for how in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=10)[0] if process.stdout and not process.stdout.closed else ""
    raise RuntimeError(f"{process.args} does not end")


if __name__ == "__main__":
    main()
