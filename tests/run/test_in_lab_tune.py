"""Tunings with real engines in a lab, and on an array on loopback in the place of existing
equipment.
"""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import RunReader

from tests.peers.tgt import LUN, TARGET_NAME, tgt
from tests.run.conftest import Hakaru, LoopbackArray, array, hakaru, until

__all__ = ["array", "hakaru"]  # fixtures
# Few short trials at a low rate, so that a whole tuning fits a busy machine, where trials may be
# invalid (exit code 5).
SLOW = ["--rate", "100 Mbit/s", "--block", "1 MiB"]
ONCE = [*SLOW, "--trial-time", "1 s", "--repetitions", "1", "--report", "none", "--json"]
SHORT = [*ONCE, "--trials", "2"]
BUDGET = ["--trials", "3", "--budget", "1 s"]
FIRST = [*ONCE, *BUDGET]
"""Only the trials that every budget permits: the defaults, the suggestion of the closed forms, and
for the goal memory their variant with the least memory.
"""


def events_of(stdout: str, name: str) -> list[dict[str, Any]]:
    return [event for line in stdout.splitlines() if (event := json.loads(line))["event"] == name]


def tuned(hakaru: Hakaru, *options: str) -> tuple[RunReader, dict[str, Any]]:
    """Run a tuning to its end; return its run and its result."""
    result = hakaru.run("tune", *options)
    assert result.returncode in (0, 5), result.stderr
    reader = RunReader(hakaru.only_run())
    return reader, reader.read("summary.json")["tuning"]


@pytest.mark.alone
def test_tuning_in_a_lab_finds_better_settings_and_gives_advice(hakaru: Hakaru) -> None:
    options = ["--rtt", "20 ms", "--depth", "any", "--against", "long-distance:settings=socket-buffer"]
    reader, tuning = tuned(hakaru, *options, *SHORT)
    phases = [t["phase"] for t in tuning["trials"]]
    assert phases[:2] == ["search", "search"] and phases.count("peer") == 1 and "contribution" in phases
    assert tuning["text"] and tuning["finished"]
    # Four R2Ts for each MiB take five round trips of 20 ms: 5.5 MB/s of the link's 11.8 MB/s.
    assert tuning["default"]["mb_per_s"]["median"] < 5.7
    assert tuning["best"]["mb_per_s"]["median"] > 1.4 * tuning["default"]["mb_per_s"]["median"]
    assert all(t["mb_per_s"] is not None for t in tuning["trials"])
    (link,) = [check for check in reader.read("lab.json")["checks"] if check["from"] == "host"]
    assert link["rtt_us_p50"] >= 20_000


def test_reads_are_tuned_with_their_own_knobs(hakaru: Hakaru) -> None:
    _, tuning = tuned(hakaru, "--op", "read", "--rtt", "50 ms", "--depth", "any", *FIRST)
    names = {knob["knob"] for knob in tuning["knobs"]}
    assert "receive_buffer" in names and not names & {"initial_r2t", "first_burst_length", "max_outstanding_r2t"}
    first, second = tuning["trials"]
    # Twice 100 Mbit/s x 50 ms exceeds the 512 KiB of open-iscsi.
    assert first["settings"] == {} and second["settings"]["receive_buffer"] == "2 MiB"
    assert first["mb_per_s"] and second["mb_per_s"]


def test_goal_memory_needs_less_memory_than_the_fastest_setting(hakaru: Hakaru) -> None:
    _, tuning = tuned(hakaru, "--goal", "memory", "--rtt", "20 ms", "--depth", "any", *FIRST)
    default, fast, lean = (t for t in tuning["trials"] if t["phase"] == "search")
    assert lean["memory_bytes"] < fast["memory_bytes"]
    enough = 0.95 * max(t["mb_per_s"] for t in tuning["trials"])
    expected = min((t for t in (default, fast, lean) if t["mb_per_s"] >= enough), key=lambda t: t["memory_bytes"])
    assert tuning["best"]["memory_bytes"] == expected["memory_bytes"]


def test_configured_loss_occurs_in_every_trial(hakaru: Hakaru) -> None:
    # Some tens of segments are lost in a trial, also in one that a busy machine slows down.
    reader, tuning = tuned(hakaru, "--loss", "1", "--rtt", "5 ms", *FIRST)
    assert tuning["conditions"]["loss_percent"] == 1 and len(tuning["trials"]) >= 2
    for record in reader.repetitions():
        again = [
            row["value"]
            for row in reader.samples(record["point"], record["repetition"]).to_pylist()
            if row["name"] == "retransmits" and row["entity"].startswith("tcp/") and row["engine"] == "initiator"
        ]
        assert max(again) > 0


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_ended_tuning_in_a_lab_can_be_resumed(hakaru: Hakaru, sent: signal.Signals) -> None:
    # Trials that last long enough for the signal to arrive in the second one.
    longer = ["2 s" if option == "--trial-time" else word for option, word in pairwise(["", *ONCE])]
    with hakaru.start("tune", "--rtt", "1 ms", *longer, *BUDGET) as process:
        until(process, "trial", 1)
        until(process, "sample", 1)
        process.send_signal(sent)
        process.communicate()
    assert process.returncode == (-signal.SIGKILL if sent == signal.SIGKILL else 130)
    directory = hakaru.only_run()
    assert (directory.suffix == ".partial") == (sent == signal.SIGKILL)
    stored = [(r["point"], r["repetition"], r["measure"]) for r in RunReader(directory).repetitions()]
    assert [record[:2] for record in stored] == [("t01", 1)]
    result = hakaru.run("tune", "--resume", "latest", "--report", "none", "--json")
    assert result.returncode in (0, 5), result.stderr
    records = [(r["point"], r["repetition"], r["measure"]) for r in RunReader(hakaru.only_run()).repetitions()]
    assert records[0] == stored[0] and [record[:2] for record in records] == [("t01", 1), ("t02", 1)]


def site_of(folder: Path, portal: str, name: str, lun: int, more: str = "") -> Path:
    """Write a site file with one LU."""
    site = folder / "site.yaml"
    lu = f"{{portal: '{portal}', target_name: '{name}', lun: {lun}{more}}}"
    site.write_text(f"format: 1\nname: ours\nlus: [{lu}]\n")
    return site


def test_real_target_is_tuned_with_initiator_knobs_and_only_read_unless_expendable(
    hakaru: Hakaru, array: LoopbackArray, tmp_path: Path
) -> None:
    site = site_of(tmp_path, array.portal, array.target_name, 0)
    refused = hakaru.ask("tune", "--target", str(site), "--op", "write", *FIRST)
    assert refused.returncode == 2 and "expendable" in refused.stderr
    reader, tuning = tuned(hakaru, "--target", str(site), *FIRST)
    run = reader.read("run.json")
    assert run["origin"] == "measured" and run["tuning"]["conditions"]["op"] == "read"
    places = [place for knob in run["tuning"]["knobs"] for place in knob["places"]]
    assert places and all(place.startswith("load.iscsi.initiator.") for place in places)
    assert all(t["mb_per_s"] for t in tuning["trials"])


def test_target_of_another_vendor_can_be_tuned(hakaru: Hakaru, tmp_path: Path) -> None:
    with tgt(tmp_path, 256 << 20) as target:
        site = site_of(tmp_path, target.portal, TARGET_NAME, LUN, ", expendable: true")
        _, tuning = tuned(hakaru, "--target", str(site), "--depth", "2", *FIRST)
    assert tuning["conditions"]["op"] == "write" and all(t["mb_per_s"] for t in tuning["trials"])
