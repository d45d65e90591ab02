"""Measures latencies of the initiator and of an independent observer, for the cells of a table.

Runs in its own user and network namespace, without root. Two hosts, each in a namespace, are joined
by a veth pair: the initiator's host `a` and the array's host `b`. A `watch` engine captures all
packets at the interface of `a`, with the kernel's timestamps. `hakaru-engine analyse` reconstructs
the commands from the capture, with no knowledge of the initiator.

The JSON object on the command line has `engine` (path), `folder` (for captures) and `cells`, a list
of objects with these keys:
    array       name of one of ARRAYS
    op          "read" or "write"
    bytes       size of a request
    depth       requests in flight; with `rate_per_s`, their maximum
    rate_per_s  optional: issue this many requests per second, evenly spaced
    seconds     duration of the load
Consecutive cells with the same array share it. Prints a JSON object per cell, in order, one on each
line.

usage (mostly by tools/calibrate): unshare --user --map-root-user --net bench/latency_scene.py JSON
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from engine_process import EngineProcess
from fabric_scene import ADDRESS, Host, run
from hakaru.analysis.latency import merge

TARGET_NAME = "iqn.2026-11.lab.hakaru:calibration"
PORT = 3260
LU_BYTES = 64 << 20
ARRAY_CPU, INITIATOR_CPU = 0, 1
ENHANCED_PACKET = 6
HEADERS = 1024
WHOLE_PACKETS, RING_BYTES = 262_144, 512 << 20
SERVED = {
    "read": ("command_to_data_ns_sum", "read_data_transfer_ns_sum", "read_data_to_response_ns_sum"),
    "write": (
        "wait_r2t_ns_sum",
        "r2t_to_data_ns_sum",
        "write_data_transfer_ns_sum",
        "write_data_to_response_ns_sum",
    ),
}
"""Counters that add up to the time of commands from their departure to their response."""
DRIVES = {"raid": "raid0", "drives": 4, "stripe_unit_bytes": 65536}
ARRAYS: dict[str, dict[str, Any]] = {
    "memory": {"kind": "none"},
    "flash": {
        "kind": "array",
        "controller": {"command_us": 20, "data_us_per_mib": 100},
        "groups": [DRIVES | {"drive": {"kind": "preset", "name": "nvme-ssd-2000"}}],
    },
    **{
        name: {
            "kind": "array",
            "controller": {"command_us": 1, "data_us_per_mib": 0, "latency_us": latency_us},
            "groups": [DRIVES | {"drive": {"kind": "preset", "name": "nvme-ssd-2000"}}],
        }
        for name, latency_us in (("1 ms", 1000), ("10 ms", 10_000))
    },
}
"""Timing models of the arrays. `memory` is as fast as the machine."""


class Engine(EngineProcess):
    """An engine in the namespace of a host, pinned to a CPU unless `cpu` is None."""

    def __init__(self, binary: str, host: Host, cpu: int | None, config: dict[str, Any]) -> None:
        pin = [] if cpu is None else ["taskset", "-c", str(cpu % (os.cpu_count() or 1))]
        super().__init__(host.inside(*pin, binary), config)


def join(a: Host, b: Host) -> None:
    """Join the hosts by a veth pair."""
    run(*a.inside("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(b.process.pid)))
    for host in (a, b):
        run(*host.inside("ip", "address", "add", f"{ADDRESS[host.name]}/24", "dev", "eth0"))
        run(*host.inside("ip", "link", "set", "eth0", "up"))
        run(*host.inside("ip", "link", "set", "lo", "up"))


@contextmanager
def running(engine: Engine) -> Iterator[Engine]:
    """End an engine with the block."""
    try:
        yield engine
    finally:
        engine.end()


def array(binary: str, host: Host, model: dict[str, Any]) -> Engine:
    """Start an array with one LU in memory."""
    lu = {"lun": 0, "size_bytes": LU_BYTES, "store": {"kind": "memory"}}
    if model["kind"] == "array":
        lu["placement"] = {"group": 0, "offset_bytes": 0}
    config = {
        "engine": "array",
        "target_name": TARGET_NAME,
        "portals": [f"{ADDRESS[host.name]}:{PORT}"],
        "isolated_network": True,
        "lus": [lu],
        "model": model,
        "sample_interval_ms": 60_000,
    }
    engine = Engine(binary, host, ARRAY_CPU, config)
    engine.start()
    return engine


def fill(binary: str, host: Host) -> None:
    """Write the whole LU once, so that no cell waits for the kernel to provide memory."""
    seconds = 0.5
    while True:
        cell = {"op": "write", "bytes": 1 << 20, "depth": 4, "seconds": seconds, "random_percent": 0}
        with running(Engine(binary, host, INITIATOR_CPU, initiator_config(cell))) as engine:
            engine.start()
            written = engine.wait_for("result")["values"]["write_bytes"]
        if written >= LU_BYTES:
            return
        seconds *= 2


def initiator_config(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of the initiator for a cell."""
    load = {"kind": "closed", "queue_depth": cell["depth"]}
    if rate := cell.get("rate_per_s"):
        load = {"kind": "open", "rate_per_s": rate, "arrivals": "uniform", "in_flight_max": cell["depth"]}
    vm = {
        "name": "vm1",
        "destination": {
            "kind": "iscsi",
            "portal": f"{ADDRESS['b']}:{PORT}",
            "target_name": TARGET_NAME,
            "lun": 0,
            "initiator_name": "iqn.2026-11.lab.hakaru:vm1",
        },
        "region": {"offset_bytes": 0, "length_bytes": LU_BYTES},
        "pattern": {
            "sizes": [{"bytes": cell["bytes"]}],
            "read_percent": 100 if cell["op"] == "read" else 0,
            "random_percent": cell.get("random_percent", 100),
        },
        "load": load,
        "seed": 7,
    }
    return {
        "engine": "initiator",
        "vms": [vm],
        "warmup_s": 0.0,
        "measure_s": cell["seconds"],
        "sample_interval_ms": 60_000,
    }


def distribution(samples: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Return number, median and 99th percentile of all requests in the samples."""
    merged = merge(h["hdr"] for sample in samples for h in sample["histograms"] if h["name"] == name and h["hdr"])
    if merged.get_total_count() == 0:
        return {"n": 0, "p50_us": 0.0, "p99_us": 0.0}
    n = merged.get_total_count()
    # `hdrh` rounds the rank to the nearest, `analyse` rounds it up.
    p50, p99 = (merged.get_value_at_percentile(100 * math.ceil(share * n) / n) / 1e3 for share in (0.5, 0.99))
    return {"n": n, "p50_us": p50, "p99_us": p99}


def sort_packets(file: Path) -> int:
    """Sort the packets of a little-endian pcapng file by time. Returns the number of packets that
    had an earlier time than the packet before them.

    Two processors write to the capture's ring, and each stamps a packet before it waits for the
    ring. So the stamps are right, and the order in the file may differ from theirs.
    """
    data = file.read_bytes()
    head: list[memoryview] = []
    packets: list[tuple[int, memoryview]] = []
    tail: list[memoryview] = []
    at, back, newest = 0, 0, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        block = memoryview(data)[at : at + length]
        at += length
        if kind == ENHANCED_PACKET:
            high, low = struct.unpack_from("<II", block, 12)
            time_ns = high << 32 | low
            back += time_ns < newest
            newest = time_ns
            packets.append((time_ns, block))
        else:
            (tail if packets else head).append(block)
    if back:
        packets.sort(key=lambda packet: packet[0])
        with file.open("wb") as out:
            out.writelines([*head, *(block for _, block in packets), *tail])
    return back


def cell_result(binary: str, cell: dict[str, Any], a: Host, file: Path) -> dict[str, Any]:
    """Measure one cell, with the array running at `b`."""
    capture: dict[str, Any] = {"interface": "eth0", "file": str(file), "ports": [PORT]}
    # The kernel copies a packet for the capture between the capture's timestamp and the driver's. A
    # lone write begins with a packet, so that its data need not be captured.
    snap = HEADERS if (cell["op"], cell["depth"]) == ("write", 1) else WHOLE_PACKETS
    capture |= {"snap_bytes": snap, "ring_bytes": RING_BYTES}
    with ExitStack() as stack:
        watch = Engine(binary, a, None, {"engine": "watch", "capture": capture, "sample_interval_ms": 60_000})
        stack.callback(watch.end)
        watch.start()
        initiator = stack.enter_context(running(Engine(binary, a, INITIATOR_CPU, initiator_config(cell))))
        initiator.start()
        values = initiator.wait_for("result")["values"]
        watch.send(type="stop")
        captured = watch.wait_for("result")["values"]
    sort_packets(file)
    out = subprocess.run([binary, "analyse", f"--port={PORT}", "--", str(file)], capture_output=True, check=True)
    file.unlink()
    (session,) = json.loads(out.stdout)["capture"]["sessions"]
    seen = session[f"{cell['op']}s"]
    name = f"{cell['op']}_latency_ns"
    totals = initiator.samples[-1]["counters"]["vms"]
    return {
        **cell,
        "initiator": distribution(initiator.samples, name)
        | {"served_us": sum(totals[phase] for phase in SERVED[cell["op"]]) / max(1, totals["commands"]) / 1e3},
        "observer": {
            "n": seen["commands"],
            "served_us": seen["latency_sum_ns"] / max(1, seen["commands"]) / 1e3,
            "p50_us": seen["latency"]["p50_ns"] / 1e3,
            "p99_us": seen["latency"]["p99_ns"] / 1e3,
        },
        "not_whole": session["commands_not_whole"],
        "dropped": captured["capture_dropped"],
        "wait_us_mean": totals["command_wait_ns_sum"] / max(1, totals["commands"]) / 1e3,
        "errors": values["errors"],
    }


def main() -> None:
    """Measure all cells."""
    asked = json.loads(sys.argv[1])
    a, b = Host("a"), Host("b")
    try:
        join(a, b)
        for name, cells in itertools.groupby(asked["cells"], key=lambda cell: cell["array"]):
            with running(array(asked["engine"], b, ARRAYS[name])):
                fill(asked["engine"], a)
                for cell in cells:
                    file = Path(asked["folder"], "cell.pcapng")
                    print(json.dumps(cell_result(asked["engine"], cell, a, file)), flush=True)
    finally:
        a.end()
        b.end()


if __name__ == "__main__":
    main()
