"""An array samples its drives more often than its other counters."""

from __future__ import annotations

from typing import Any

from tests.peers.array import MIB, array, lu

GROUP = {"raid": "raid0", "drives": 2, "stripe_unit_bytes": 65536, "drive": {"kind": "preset", "name": "sas-15k-146"}}
MODEL = {"kind": "array", "controller": {"command_us": 1, "data_us_per_mib": 1}, "groups": [GROUP]}


def samples(number: int, **intervals: int) -> list[dict[str, Any]]:
    """The first samples of an idle array of two drives."""
    with array(lu(0, 64 * MIB, placement={"group": 0, "offset_bytes": 0}), model=MODEL, **intervals) as a:
        a.engine.send({"type": "start", "at_ns": 0})
        return [a.engine.wait_for("sample") for _ in range(number)]


def test_drives_alone_are_sampled_between_the_samples_of_all_counters() -> None:
    found = samples(8, sample_interval_ms=500, drive_sample_interval_ms=100)
    whole = [sample for sample in found if "controller" in sample["counters"]]
    drives = [sample for sample in found if sample not in whole]
    assert "controller" in found[0]["counters"] and len(whole) >= 2
    names = ["busy_ns", "queue_ns"]
    for sample in drives:
        assert {entity: sorted(each) for entity, each in sample["counters"].items()} == {
            "drive/0.0": names,
            "drive/0.1": names,
        }
    assert all(names[0] in sample["counters"]["drive/0.1"] for sample in whole)
    # On a busy machine, some instants pass without a sample.
    assert 1 <= len(drives) <= 6
    instants = [sample["at_ns"] for sample in found]
    assert instants == sorted(set(instants))


def test_without_an_interval_of_their_own_every_sample_is_of_all_counters() -> None:
    assert all("controller" in sample["counters"] for sample in samples(3, sample_interval_ms=100))
