"""A guest whose NICs are ports of the fabric in its memory (vhost-user), without root outside of a
user namespace. The guest is killed, and another one connects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.guest.image import Image

from tests.guests.forwarding import FRAMES, TTL
from tests.guests.vhost_user import FILE_BYTES

ROOT = Path(__file__).parents[2]
NAMESPACES = ("unshare", "--user", "--map-root-user", "--net")


def run(offloads: str, queues: int) -> dict[str, Any]:
    if subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user and network namespaces are available")
    command = [*NAMESPACES, sys.executable, "-m", "tests.guests.vhost_user", "cloud", offloads, str(queues)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    if "refused" in result:
        pytest.skip(result["refused"])
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize(("offloads", "queues"), [("on", 1), ("off", 1), ("on", 2)])
def test_guest_forwards_through_ports_in_its_memory_and_may_be_killed(image: Image, offloads: str, queues: int) -> None:
    result = run(offloads, queues)
    assert result["listening"] == ["@port-0", "@port-1"]
    for received in (result["received"], result["received_again"]):
        assert [frame["number"] for frame in received] == list(range(FRAMES)), "in order and complete"
        assert {frame["ttl"] for frame in received} == {TTL - 1}
        assert {frame["from"] for frame in received} == {result["forwarded_by"]}
    assert "3 packets received" in result["ping"]
    assert f"tx-checksumming: {offloads}" in result["features"]
    # Bytes arrive whole, whether the guest or the fabric fills in checksums and cuts super-frames.
    assert result["file"]["sent"] == result["file"]["loaded"] == result["file"]["returned"]
    passed = result["killed"]["after"]["port-0"]
    for direction in ("from_guest", "to_guest"):
        super_frames = passed[f"{direction}_super_frames"]
        assert super_frames > 0 if offloads == "on" else super_frames == 0, direction
    assert offloads == "on" or passed["to_guest"] >= FILE_BYTES / 1448
    assert result["killed"]["error"].endswith("was lost: QEMU was ended by SIGKILL before its answer")
    for port, counters in result["killed"]["after"].items():
        assert (counters["up_now"], counters["connections"]) == (0, 1), port
        assert counters["lost_unknown"] == counters["broken_rings"] == counters["refused_requests"] == 0, port
    assert result["counters"]["interface/port-0"]["connections"] == 2
    if queues > 1:
        # Names are those of Linux: `virtio0-input.1`.
        busy = {queue for queue, interrupts in result["interrupts"].items() if interrupts}
        nics = {queue.partition(".")[0] for queue in busy}
        assert any(busy >= {f"{nic}.{queue}" for queue in range(queues)} for nic in nics), busy
    assert result["remaining"] == [], "no socket remains"
