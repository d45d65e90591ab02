"""Throughput of plain TCP over the lab before any storage runs over it: iperf3, two streams.

The published study of backup across a speed mismatch gives `iperf -P 2` between its hosts as the
baseline; this is that figure for every host and array, both ways. Unlike the check of links
(`check`), queues, loss and TCP are the study's own: where a queue is shallow the baseline shows it.
Without iperf3 on this machine hakaru's probe is used, with one stream; which of the two it was is
part of each result.

    await measure_baselines(lab) -> [{from, to, tool, streams, seconds, …_payload_bits_per_s, …}]

About 4 s for a host and an array.
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

STREAMS = 2
SECONDS = 2
_PATIENCE_S = 30.0
_PROBE_ROUND_TRIPS = 20


async def measure_baselines(lab: Lab) -> list[dict[str, Any]]:
    """Every host to every array. The fabric, where there is one, must be running.

    A tool that fails (over a lab that loses nearly all, say) is part of the result, as `error`: the
    load is to come.
    """
    program = shutil.which("iperf3")
    found = []
    for array in lab.plan.array_names:
        for host in lab.plan.host_names:
            address = lab.plan.ways(host, array)[0].destination.address
            try:
                if program is None:
                    found.append(await _by_probe(lab, host, array, address))
                else:
                    found.append(await asyncio.to_thread(_by_iperf, lab, program, host, array, address))
            except LostError as error:
                found.append({"from": host, "to": array, "error": error.message})
    return found


def _by_iperf(lab: Lab, program: str, host: str, array: str, address: str) -> dict[str, Any]:
    there = _iperf(lab, program, host, array, address, [])
    back = _iperf(lab, program, host, array, address, ["--reverse"])
    return {
        "from": host,
        "to": array,
        "tool": there["start"]["version"],
        "streams": STREAMS,
        "seconds": SECONDS,
        "congestion_control": there["end"].get("sender_tcp_congestion"),
        "to_array_payload_bits_per_s": there["end"]["sum_received"]["bits_per_second"],
        "from_array_payload_bits_per_s": back["end"]["sum_received"]["bits_per_second"],
        "to_array_retransmits": there["end"]["sum_sent"].get("retransmits"),
        "from_array_retransmits": back["end"]["sum_sent"].get("retransmits"),
    }


def _iperf(lab: Lab, program: str, host: str, array: str, address: str, more: list[str]) -> Mapping[str, Any]:
    """One test of iperf3; its report. A server that takes one test and ends; a client once it
    listens.
    """
    # A child is in the network of the thread that starts it.
    with lab.namespaces.inside(array):
        server = subprocess.Popen(
            [program, "--server", "--one-off", "--forceflush", "--bind", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        assert server.stdout is not None
        said = []
        for line in server.stdout:
            said.append(line.strip())
            if "listening" in line:
                break
        else:
            raise LostError(f"iperf3 on {array} does not listen: {' / '.join(said)}", "run `iperf3 -s` by hand")
        command = [program, "--client", address, "--parallel", str(STREAMS), "--time", str(SECONDS), "--json", *more]
        with lab.namespaces.inside(host):
            client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            out, _ = client.communicate(timeout=SECONDS + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise LostError(
                f"iperf3 from {host} to {array} did not end", "the network between them may carry nothing"
            ) from None
        finally:
            client.kill()
            client.wait()
        return _parse_report(out, host, array)
    finally:
        server.kill()
        server.wait()


def _parse_report(out: str, host: str, array: str) -> Mapping[str, Any]:
    try:
        report: Mapping[str, Any] = json.loads(out)
    except ValueError:
        raise LostError(f"iperf3 from {host} to {array} gave no report", "its version may know no --json") from None
    if "error" in report:
        raise LostError(f"iperf3 from {host} to {array}: {report['error']}", "look at the lab's links")
    return report


async def _by_probe(lab: Lab, host: str, array: str, address: str) -> dict[str, Any]:
    server = await lab.start_engine(array, contract.ProbeServer(listen=f"{address}:0"))
    try:
        portal = str((await server.ready()).found["listen"])
        config = contract.ProbeClient(connect=portal, seconds=SECONDS, round_trips=_PROBE_ROUND_TRIPS)
        client = await lab.start_engine(host, config)
        try:
            await client.ready()
            await client.start(clock.now_ns())
            values = (await client.result(2 * SECONDS + _PATIENCE_S)).values
        finally:
            await client.close()
    finally:
        await server.close()
    return {
        "from": host,
        "to": array,
        "tool": "hakaru probe",
        "streams": 1,
        "seconds": SECONDS,
        "to_array_payload_bits_per_s": 8 * values.get("send_mean_bytes_per_s", 0.0),
        "from_array_payload_bits_per_s": 8 * values.get("receive_mean_bytes_per_s", 0.0),
    }
