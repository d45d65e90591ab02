"""Throughput of plain TCP over the lab before any storage runs over it: iperf3, two streams.

The published study of backup across a speed mismatch uses `iperf -P 2` between its hosts as the
baseline. This is the same figure between the first two hosts, and between every host and array, in
both directions. Unlike in the check of links (`links`), queues, loss and TCP are the study's own,
so the baseline shows the effect of a shallow queue. Without iperf3 on this machine hakaru's probe
is used, with one stream. Each result names the tool.

    await measure_baselines(lab) -> [{from, to, tool, streams, seconds, …_payload_bits_per_s, …}]

About 4 s for a pair.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from hakaru.engine import clock, contract
from hakaru.errors import LostError
from hakaru.lab.build import Lab
from hakaru.lab.plan.rounds import pairs_of

STREAMS = 2
SECONDS = 2
_PATIENCE_S = 30.0
_PROBE_ROUND_TRIPS = 20


async def measure_baselines(lab: Lab) -> list[dict[str, Any]]:
    """Measure every pair of `pairs_of`. The fabric, if there is one, must be running.

    A tool that fails (for example over a lab that loses nearly all frames) is reported as `error`
    in the result, because the load can still run.
    """
    program = shutil.which("iperf3")
    baselines = []
    for start, end in pairs_of(lab.plan):
        address = lab.plan.ways(start, end)[0].destination.address
        try:
            if program is None:
                baselines.append(await _by_probe(lab, start, end, address))
            else:
                baselines.append(await asyncio.to_thread(_by_iperf, lab, program, start, end, address))
        except LostError as error:
            baselines.append({"from": start, "to": end, "error": error.message})
    return baselines


def _by_iperf(lab: Lab, program: str, start: str, end: str, address: str) -> dict[str, Any]:
    forward = _iperf(lab, program, start, end, address, [])
    back = _iperf(lab, program, start, end, address, ["--reverse"])
    return {
        "from": start,
        "to": end,
        "tool": forward["start"]["version"],
        "streams": STREAMS,
        "seconds": SECONDS,
        "congestion_control": forward["end"].get("sender_tcp_congestion"),
        "forward_payload_bits_per_s": forward["end"]["sum_received"]["bits_per_second"],
        "back_payload_bits_per_s": back["end"]["sum_received"]["bits_per_second"],
        "forward_retransmits": forward["end"]["sum_sent"].get("retransmits"),
        "back_retransmits": back["end"]["sum_sent"].get("retransmits"),
    }


def _iperf(lab: Lab, program: str, start: str, end: str, address: str, more: list[str]) -> Mapping[str, Any]:
    """Run one test of iperf3 and return its report. The server ends after one test; the client
    starts once the server listens.
    """
    # A child inherits the network namespace of the thread that starts it.
    with lab.namespaces.inside(end):
        server = subprocess.Popen(
            [program, "--server", "--one-off", "--forceflush", "--bind", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        assert server.stdout is not None
        output = []
        for line in server.stdout:
            output.append(line.strip())
            if "listening" in line:
                break
        else:
            raise LostError(f"iperf3 on {end} does not listen: {' / '.join(output)}", "run `iperf3 -s` by hand")
        command = [program, "--client", address, "--parallel", str(STREAMS), "--time", str(SECONDS), "--json", *more]
        with lab.namespaces.inside(start):
            client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            out, _ = client.communicate(timeout=SECONDS + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise LostError(
                f"iperf3 from {start} to {end} did not end", "the network between them may carry nothing"
            ) from None
        finally:
            client.kill()
            client.wait()
        return _parse_report(out, start, end)
    finally:
        server.kill()
        server.wait()


def _parse_report(out: str, start: str, end: str) -> Mapping[str, Any]:
    try:
        report: Mapping[str, Any] = json.loads(out)
    except ValueError:
        raise LostError(
            f"iperf3 from {start} to {end} printed no report", "its version may not support --json"
        ) from None
    if "error" in report:
        raise LostError(f"iperf3 from {start} to {end}: {report['error']}", "check the lab's links")
    return report


async def _by_probe(lab: Lab, start: str, end: str, address: str) -> dict[str, Any]:
    server = await lab.start_engine(end, contract.ProbeServer(listen=f"{address}:0"))
    try:
        portal = str((await server.ready()).found["listen"])
        config = contract.ProbeClient(connect=portal, seconds=SECONDS, round_trips=_PROBE_ROUND_TRIPS)
        client = await lab.start_engine(start, config)
        try:
            await client.ready()
            await client.start(clock.now_ns())
            values = (await client.result(2 * SECONDS + _PATIENCE_S)).values
        finally:
            await client.close()
    finally:
        await server.close()
    return {
        "from": start,
        "to": end,
        "tool": "hakaru probe",
        "streams": 1,
        "seconds": SECONDS,
        "forward_payload_bits_per_s": 8 * values.get("send_mean_bytes_per_s", 0.0),
        "back_payload_bits_per_s": 8 * values.get("receive_mean_bytes_per_s", 0.0),
    }
