"""The fabric engine between real interfaces, without root: in a user and network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine

from tests.engine.test_metrics_reference import _documented

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "--user", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces are forbidden here")
    done = subprocess.run(
        [*ALONE, sys.executable, "-m", "tests.engine.fabric_scenario", find_engine()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_frames_come_in_order_and_after_delay_and_serialisation(seen: dict[str, Any]) -> None:
    assert seen["order"] == list(range(200))
    # 1514 bytes and the FCS at 100 Mbit/s take 0.12 ms; nothing can be earlier, and most are not much later.
    least = 20.0 + 1518 * 8 / 100_000
    assert min(seen["took_ms"]) >= least
    assert sorted(seen["took_ms"])[100] < least + 5.0
    assert seen["code"] == 0


def test_every_frame_is_accounted_for(seen: dict[str, Any]) -> None:
    assert seen["found"]["interfaces"] == ["pa", "pb"]
    for way in ("a-b", "b-a"):
        c = seen["counters"][f"link/wire/{way}"]
        drops = sum(value for name, value in c.items() if name.startswith("dropped_"))
        assert c["frames_in"] + c["duplicated"] == c["frames_out"] + drops + c["frames_now"]
    assert seen["counters"]["link/wire/a-b"]["frames_out"] >= 200
    for name in ("pa", "pb"):
        assert set(seen["counters"][f"interface/{name}"].values()) == {0.0}


def test_the_page_lists_what_a_fabric_gives(seen: dict[str, Any]) -> None:
    page = _documented()["fabric"]
    for kind, pattern in (("link/wire/a-b", "link/NAME/a-b"), ("interface/pa", "interface/NAME")):
        assert set(seen["counters"][kind]) == {name for entity, name in page if entity == pattern}
