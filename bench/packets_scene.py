"""Runs one case of the packet benchmark in its own network namespace and prints one JSON object.

A sender at `a0` sends frames of one size as fast as it can over a veth pair to `b0`. The number
sent is the kernel's count of frames received at `b0`, so it is counted alike for every program. A
receiver at `b0`, if the case has one, counts on its own. The case is one JSON object:
    sender     hakaru, hakaru_sendmmsg, trafgen, testpmd_af_packet, testpmd_af_xdp
    receiver   hakaru, netsniff_ng, or none
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine_process import EngineProcess

WARMUP_S = 0.5
START_TIMEOUT_S = 20.0
FCS_BYTES = 4
TESTPMD = ["dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "-l", "0,1"]
# A small pool of buffers, which need not be locked.
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
    """Measure our engine. Without a receiver, the stream's receiving port is on another cable."""
    far = "b0" if case["receiver"] == "hakaru" else "c0"
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
    }
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
    return {"sent": sent / case["seconds"], "counted": counts["received"] / case["seconds"]}


def peer(case: dict[str, Any]) -> dict[str, float]:
    """Measure another program, in a window of the running sender."""
    with tempfile.TemporaryDirectory() as folder, counter(case) as counted:
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
    driver = case["sender"].removeprefix("testpmd_")
    device = f"net_{driver}0,iface=a0" + (",force_copy=1" if driver == "af_xdp" else "")
    # The program ends at the end of its stdin unless it prints statistics.
    words = [*TESTPMD_SENDS, f"--txpkts={length}", "--stats-period=1000", "--auto-start"]
    return [*TESTPMD, f"--vdev={device}", "--", *words]


@contextmanager
def counter(case: dict[str, Any]) -> Iterator[Any]:
    """Run the receiver. Yields a function that ends it and returns its count."""
    if case["receiver"] != "netsniff_ng":
        yield lambda: 0
        return
    words = [
        "netsniff-ng",
        "--in",
        "b0",
        "--out",
        "/dev/null",
        "--silent",
        "--ring-size",
        "64MiB",
        "--no-promisc",
        "--no-sock-mem",
    ]
    with running(words) as process:

        def count() -> int:
            text = end(process)
            found = re.search(r"(\d+)\s+packets passed filter", text)
            if found is None:
                raise RuntimeError(f"netsniff-ng counted nothing: {text[-200:]}")
            return int(found.group(1))

        yield count


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
