"""Rounds of a link check: which hosts measure together, the rates they should reach, and which
rounds are equal.
"""

from __future__ import annotations

from typing import Any

from hakaru.lab.check import CheckedLab
from hakaru.lab.check.variants import Variants
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.lab.plan.rounds import rounds_of

from .linked_lab import plan as linked
from .vlan_lab import plan as vlans


def measured_rounds(**changes: Any) -> list[tuple[Any, ...]]:
    return [
        (measured.hosts, measured.array_link.name, measured.to_array, measured.from_array)
        for measured in rounds_of(linked(**changes))
    ]


def test_every_host_measures_alone_and_together_if_that_needs_a_higher_rate() -> None:
    assert measured_rounds() == [(("kvm-1",), "primary", 10**9, 10**10), (("kvm-1",), "vtl", 10**9, 10**9)]
    star = plan_lab(
        LabSpec.model_validate({"hosts": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1.5 Gbit/s"}})
    )
    assert [(measured.hosts, measured.to_array) for measured in rounds_of(star)] == [
        (("host-1",), 10**9),
        (("host-2",), 10**9),
        (("host-1", "host-2"), 15 * 10**8),
    ]


def test_routed_flows_over_one_trunk_count_in_both_directions() -> None:
    # Both servers use the uplink in both directions, each to its own array.
    built = vlans(
        links__other__vlan="servers",
        links__array__vlans=["storage"],
        links__uplink__rate="200 Mbit/s",
        links__array__rate="400 Mbit/s",
    )
    rounds = rounds_of(built)
    assert [(measured.hosts, measured.to_array) for measured in rounds] == [
        (("kvm",), 200_000_000),
        (("other",), 200_000_000),
    ]
    assert all(measured.replies and measured.tagged and measured.tagged_back for measured in rounds), (
        "the trunk limits them"
    )
    wide = rounds_of(vlans())
    assert [(measured.replies, measured.tagged, measured.over) for measured in wide] == [
        (False, True, "storage"),
        (False, True, "backup"),
    ]


def test_only_paths_over_a_changed_link_are_measured_again() -> None:
    first = linked()
    keys = [measured.key for measured in rounds_of(first)]
    to_primary, to_vtl = (
        measured.key for measured in rounds_of(linked(links__vtl__rate="100 Mbit/s", links__vtl__queue="32 KiB"))
    )
    assert to_primary == keys[0]
    assert to_vtl != keys[1]
    variants = Variants(first, [None, None])  # type: ignore[list-item]
    # The check does not depend on TCP or queues: their effect is the subject of the study.
    assert variants.is_known(linked(links__vtl__queue="32 KiB", tcp__stack=2009, links__vtl__loss={"percent": 1}))
    for changes in ({"links__vtl__delay": "5 ms"}, {"links__uplink__rate": "1 Gbit/s"}, {"mtu": 9000}):
        assert not variants.is_known(linked(**changes))


class Described:
    """A lab that is only described."""

    def __init__(self, tcp: list[dict[str, Any]]) -> None:
        self.tcp = tcp

    def describe(self) -> dict[str, Any]:
        return {"tcp": self.tcp}


def test_resumed_run_keeps_the_tcp_of_its_earlier_points() -> None:
    today, of_2009 = {"stack": "today"}, {"stack": "2009", "remains": ["RACK"]}
    lab: Any = Described([today])
    assert CheckedLab(lab, {"tcp": [of_2009, today]}).describe()["tcp"] == [of_2009, today]
    assert CheckedLab(lab).describe()["tcp"] == [today]


def test_resumed_run_keeps_its_previous_checks() -> None:
    before = [
        {"points": ["p02"], "links": {"vtl": {"rate_bits_per_s": 10**8}}, "seconds": 1.0, "checks": [{"to": "vtl"}]},
        {"points": ["p03"], "links": {"vtl": {"delay_us": 5000.0}}, "seconds": 2.0, "checks": []},
    ]
    variants = Variants(linked(), [None, None], before)  # type: ignore[list-item]
    assert variants.describe() == before
