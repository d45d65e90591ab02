"""Paths that the kernel of a guest joins: cables that are cut and ports that change their access
states under verified load, and what the guest lacks.

The timers are longer than those of the tests of our own initiator, because the kernel counts in
seconds, and because an emulated processor is late by tenths of a second.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.guest.image import Image, find_image
from hakaru.guest.recipe import RecipeName
from hakaru.store import RunReader

from tests.cli.command import pages_of
from tests.guests.kernel_paths import DEPTH, TIMERS, TIMERS_S
from tests.guests.test_device import needs_taps
from tests.long_form import IS_LONG
from tests.run.conftest import STUDY, Hakaru

ROOT = Path(__file__).parents[2]
# `make test-long` cuts cables as often as the acceptance of this feature asks for.
CUTS = 50 if IS_LONG else 2
ROUND_ROBIN = f"table:round_robin:{CUTS}"
# Every cable is cut under `table`.
MULTIPATHD = f"multipathd:round_robin:{CUTS if IS_LONG else 1}"
STATES = "states"
# With least queue depth and with failover, one cut.
TASKS = (ROUND_ROBIN, "table:least_queue_depth:1", "table:failover:1", "not-one-lu", "no-path")
# Boot, and per cut: failure, new login and checks.
TIMEOUT_S = 600 + 90 * (CUTS + len(TASKS) + 1)

Found = dict[str, dict[str, Any]]

INITIATORS = """\
variables:
  initiator:
    hakaru: {}
    dm-multipath: {lab.load_guest: {cpus: 1}, load.initiator: kernel}
factors:
  - {pattern: [mixed], vms: [1], initiator: [hakaru, dm-multipath], paths_per_vm: [1, 2]}
"""


@pytest.fixture
def hakaru(tmp_path: Path) -> Hakaru:
    return Hakaru(tmp_path / "runs")


def found_by_program(recipe: RecipeName, *tasks: str) -> Found:
    """Results of the tasks in one guest, up to the first one that fails."""
    # Built here, because no package mirror can be reached from the sandbox.
    find_image(recipe)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kernel_paths.py")), recipe, *tasks],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {line.pop("task"): line for line in lines}
    for task in tasks:
        found.setdefault(task, {"failure": done.stderr})
    return found


def result_of(found: Found, task: str) -> dict[str, Any]:
    result = found[task]
    assert "failure" not in result, result["failure"]
    return result


@pytest.fixture(scope="module")
def cloud(image: Image) -> Found:
    """Results of `TASKS`."""
    needs_taps(image)
    return found_by_program("cloud", *TASKS)


@pytest.fixture(scope="module")
def generic(image: Image) -> Found:
    """The results with multipathd, which this image has."""
    needs_taps(image)
    return found_by_program("generic", MULTIPATHD, STATES)


@pytest.mark.alone
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("task", [*TASKS[:3], MULTIPATHD])
def test_cut_cable_stops_the_load_for_the_sum_of_the_timers(
    image: Image, request: pytest.FixtureRequest, task: str
) -> None:
    """After every cut, all data is right, no request has failed, and the gap is within 20 % of the
    timers' sum. With the least queue depth it may be shorter: the other path has a share, until a
    verified request overlaps one on the lost path. In so small an LU that takes seconds at most.

    An emulated processor may stand still for seconds on a busy machine. There, the median decides.
    """
    found = result_of(request.getfixturevalue("generic" if task == MULTIPATHD else "cloud"), task)
    manager, policy, cuts = task.split(":")
    assert len(found["cuts"]) == int(cuts)
    gaps_s = [cut["longest_gap_ns_now"] / 1e9 for cut in found["cuts"]]
    print(f"gaps of {cuts} cuts ({manager}, {policy}): {min(gaps_s):.3f} to {max(gaps_s):.3f} s")
    assert [cut["errors"] for cut in found["cuts"]] == [0] * int(cuts)
    for cut in found["cuts"]:
        assert cut["path_losses"] == 1, cut
        # A path may become usable with a new table of multipathd, while its session is lost. The
        # kernel then gives it up twice, as in five of 50 cuts.
        assert 1 <= cut["path_switches"] == cut["path_returns"] <= (2 if manager == "multipathd" else 1), cut
        assert cut["paths_usable_now"] == 2
        # The kernel does not show it, and 0 would be wrong.
        assert "commands_repeated" not in cut
        # Neither a lost path nor its return can be seen before the timers end.
        assert cut["failover_ns_sum"] / 1e9 >= 0.8 * TIMERS_S
        assert cut["failback_ns_sum"] / 1e9 >= TIMERS.recovery_s
    judged = gaps_s if found["accelerator"] == "kvm" else [statistics.median(gaps_s)]
    for gap_s in judged:
        if policy == "least_queue_depth":
            assert 0 < gap_s < 1.2 * TIMERS_S, gaps_s
        else:
            assert gap_s == pytest.approx(TIMERS_S, rel=0.2), gaps_s
    selector = "queue-length" if policy == "least_queue_depth" else "round-robin"
    assert f" {selector} 0 " in found["table"] and "queue_if_no_path" in found["table"]
    assert (" alua " in found["table"]) == (manager == "multipathd")
    # multipathd sets the recovery time anew.
    assert found["recovery"] == [str(TIMERS.recovery_s)] * 2
    assert found["left"].split() == ["No", "devices", "found", "0"]


@pytest.mark.timeout(TIMEOUT_S)
def test_commands_leave_a_port_without_access_and_return_to_it(generic: Found) -> None:
    """A port becomes standby, unavailable and non-optimized, also with a transition, and optimized
    again each time. All data is right, no request fails, and no session ends. The program has
    waited until the commands had moved.
    """
    found = result_of(generic, STATES)
    assert found["changes"] == 4
    assert found["errors"] == found["paths"]["path_losses"] == 0
    assert found["paths"]["paths_usable_now"] == 2


@pytest.mark.timeout(TIMEOUT_S)
def test_requests_without_a_path_wait_and_then_fail(cloud: Found) -> None:
    found = result_of(cloud, "no-path")
    assert found["paths"]["path_losses"] == found["paths"]["path_switches"] == 2
    assert found["paths"]["paths_usable_now"] == 0
    assert found["errors"] >= DEPTH


@pytest.mark.timeout(TIMEOUT_S)
def test_what_the_guest_lacks_is_named(cloud: Found) -> None:
    found = result_of(cloud, "not-one-lu")
    assert "are not one LU" in found["not one LU"]
    assert "the guest's image has no multipathd" in found["no program"]


@pytest.mark.timeout(TIMEOUT_S)
def test_run_compares_paths_of_both_initiators(hakaru: Hakaru, tmp_path: Path, image: Image) -> None:
    """One and two paths with each initiator: the same counters and metrics, side by side."""
    needs_taps(image)
    before, _, after = STUDY.replace("  hosts: 2\n", "  hosts: 1\n  paths: 2\n").partition("factors:\n")
    measure = after[after.index("measure:") :].replace("repetitions: 2", "repetitions: 1")
    path = tmp_path / "study.yaml"
    path.write_text(before + INITIATORS + measure)
    result = hakaru.run("run", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    assert "dm-multipath" in pages_of(hakaru.only_run())["en"]
    reader = RunReader(hakaru.only_run())
    records = {(r["factors"]["initiator"], r["factors"]["paths_per_vm"]): r for r in reader.repetitions()}
    assert {record["status"] for record in records.values()} == {"done"}
    for (initiator, paths), record in records.items():
        (array,) = (e["values"] for e in record["engines"] if e["engine"] == "array")
        assert array["logins"] == paths, (initiator, paths)
    for point in reader.read("summary.json")["points"]:
        metrics = point["metrics"]
        print(point["factors"], metrics["iops"]["mean"], metrics["gap_ms_max"]["mean"])
        assert metrics["iops"]["mean"] > 0
        assert metrics["path_losses"]["mean"] == metrics["path_switches"]["mean"] == 0
        assert 0 < metrics["gap_ms_max"]["mean"] < metrics["failover_timers_ms"]["mean"] == 15_000
        # Only hakaru's own initiator knows it.
        known = metrics["commands_repeated"]["mean"] is not None
        assert known == (point["factors"]["initiator"] == "hakaru")
