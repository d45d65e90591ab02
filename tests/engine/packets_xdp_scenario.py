"""Runs the `packets` engine with reception through AF_XDP, as root in a network namespace of its
own, and prints one JSON object. Paths: a bare cable (`a0`-`b0`), a `fabric` engine that loses,
duplicates and damages frames (`c0` to `d0`), and a cable whose ends have four queues (`e0`-`f0`).

python -m tests.engine.packets_xdp_scenario ENGINE
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.ethtool import Ethtool

from tests.engine.packets_scenario import Engine, Flood, generator, make_cables

QUEUES = 4


def over_cable() -> dict[str, Any]:
    """Run trials over the bare cable."""
    report: dict[str, Any] = {}
    for method in ("auto", "sendmmsg"):
        with generator("a0", "b0", transmit=method, receive="af_xdp") as tester:
            report[method] = {
                "found": tester.found,
                "both": tester.trial(200, 10_000, 3_333.333),
                "fastest": tester.trial(300, None, None),
            }
            with Flood("a0") as flood:
                report[method]["flooded"] = tester.trial(200, 2_000, 0)
            report[method]["foreign_sent"] = flood.sent
            report[method]["again"] = tester.trial(200, 10_000, 3_333.333)
            tester.stop()
    return report


def over_fabric() -> dict[str, Any]:
    """Run a trial over a path that treats frames badly, with each method; return them and the
    path's own counts.
    """
    report = {}
    for method in ("tpacket_v3", "af_xdp"):
        bad = {
            "loss": {"kind": "random", "percent": 5.0},
            "duplicate_percent": 3.0,
            "corrupt_percent": 2.0,
            "delay_us": 3000.0,
        }
        ends = [{"kind": "interface", "name": name} for name in ("pc", "pd")]
        link = {"name": "wire", "a": ends[0], "b": ends[1], "a_to_b": bad, "b_to_a": {}}
        with (
            Engine("fabric", {"fabric": {"links": [link], "seed": 7}}) as path,
            generator("c0", "d0", receive=method) as tester,
        ):
            trial = tester.trial(1000, 5_000, 0)
            path.stop()
            sample = next(e for e in reversed(path.events) if e["type"] == "sample")
            report[method] = {"trial": trial, "path": sample["counters"]["link/wire/a-b"]}
    return report


def with_queues() -> dict[str, Any] | None:
    """Run trials over the cable with four queues, the second with more queues than the engine found
    when it started. Return the first one, and how the engine ended. None if the kernel does not let
    processors choose the queue that they send through.
    """
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
    for name in ("e0", "f0"):
        # Frames sent through queue 2 of one end have the receive queue 1 at the other.
        choice = Path(f"/sys/class/net/{name}/queues/tx-2/xps_cpus")
        if not choice.exists():
            return None
        choice.write_text(f"{sum(1 << cpu for cpu in os.sched_getaffinity(0)):x}")
    options = {"transmit": "sendmmsg", "receive": "af_xdp"}
    with generator("e0", "f0", **options) as tester:
        report = {"all": tester.trial(500, 5_000, 5_000)}
        tester.stop()
    # A port that also sends through AF_XDP shares the memory of its first queue.
    with generator("e0", "f0", receive="af_xdp") as tester:
        report["sharing"] = tester.trial(500, 5_000, 5_000)
        tester.stop()
    set_queues("f0", 1)
    with generator("e0", "f0", **options) as tester:
        set_queues("f0", QUEUES)
        tester.send(type="trial", id=1, duration_ns=10**9, rates=[5_000, 0])
        report["beyond"] = tester.wait_for("error", "trial")
    return report


def set_queues(name: str, count: int) -> None:
    """Set the number of receive queues in use."""
    driver = Ethtool()
    try:
        driver.set_channels(name, {**driver.get_channels(name)._asdict(), "rx_count": count})
    finally:
        driver.close()


def program_of(kernel: IPRoute, name: str) -> bool:
    """Return whether an interface has an XDP program."""
    (link,) = kernel.link("get", ifname=name)
    return bool(link.get_attr("IFLA_XDP").get_attr("IFLA_XDP_ATTACHED"))


def programs() -> dict[str, Any]:
    """Return whether the interface has a program while an engine runs and after it was killed, and
    the error of a second engine.
    """
    with IPRoute() as kernel:
        tester = generator("a0", "b0", receive="af_xdp")
        second = generator("a0", "b0", transmit="sendmmsg", receive="af_xdp")
        during = program_of(kernel, "b0")
        tester.process.kill()
        for engine in (tester, second):
            assert engine.process.stdin is not None
            engine.process.stdin.close()
            engine.process.wait(20)
        return {"during": during, "after": program_of(kernel, "b0"), "second": second.error}


def long_frames() -> dict[str, Any]:
    """Run trials with frames that just fit into a slot, and into a page. Return them, and the error
    of an engine whose frames do not.
    """
    with IPRoute() as kernel:
        for name in ("a0", "b0"):
            (index,) = kernel.link_lookup(ifname=name)
            kernel.link("set", index=index, mtu=6000)
    trials = {}
    for size in (1796, 3844):
        with generator("a0", "b0", receive="af_xdp", sizes=[{"bytes": size}]) as tester:
            trials[size] = tester.trial(200, 1_000, 0)
            tester.stop()
    tester = generator("a0", "b0", receive="af_xdp", sizes=[{"bytes": 3845}])
    assert tester.process.stdin is not None
    tester.process.stdin.close()
    tester.process.wait(20)
    return {"trials": trials, "error": tester.error, "code": tester.process.returncode}


def main() -> None:
    """Run everything."""
    make_cables()
    with IPRoute() as kernel:
        ends = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
        kernel.link("add", ifname="e0", kind="veth", **ends, peer={"ifname": "f0", **ends})
        for name in ("e0", "f0"):
            (index,) = kernel.link_lookup(ifname=name)
            kernel.link("set", index=index, state="up")
    print(
        json.dumps(
            {
                **over_cable(),
                "fabric": over_fabric(),
                "queues": with_queues(),
                "programs": programs(),
                "long": long_frames(),
            }
        )
    )


if __name__ == "__main__":
    main()
