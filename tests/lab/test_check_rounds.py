"""What a check of links measures: which hosts at once, what they are asked for, and what makes two
rounds the same.
"""

from __future__ import annotations

from typing import Any

from hakaru.lab.check import rounds_of
from hakaru.lab.check.variants import Variants
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab

from .linked_lab import plan as linked
from .vlan_lab import plan as vlans


def rounds(**changes: Any) -> list[tuple[Any, ...]]:
    return [(one.hosts, one.array_link.name, one.to_array, one.from_array) for one in rounds_of(linked(**changes))]


def test_every_host_measures_alone_and_all_together_where_that_asks_for_more() -> None:
    assert rounds() == [(("kvm-1",), "primary", 10**9, 10**10), (("kvm-1",), "vtl", 10**9, 10**9)]
    star = plan_lab(
        LabSpec.model_validate({"hosts": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1.5 Gbit/s"}})
    )
    assert [(one.hosts, one.to_array) for one in rounds_of(star)] == [
        (("host-1",), 10**9),
        (("host-2",), 10**9),
        (("host-1", "host-2"), 15 * 10**8),
    ]


def test_a_trunk_that_is_passed_up_and_down_carries_half_of_two_routed_flows_each_way() -> None:
    # Another server: both go up and down the uplink, each to its own array.
    built = vlans(
        links__other__vlan="servers",
        links__array__vlans=["storage"],
        links__uplink__rate="200 Mbit/s",
        links__array__rate="400 Mbit/s",
    )
    rounds = rounds_of(built)
    assert [(one.hosts, one.to_array) for one in rounds] == [(("kvm",), 200_000_000), (("other",), 200_000_000)]
    assert all(one.replies and one.tagged and one.tagged_back for one in rounds), "the trunk is what holds them"
    wide = rounds_of(vlans())
    assert [(one.replies, one.tagged, one.over) for one in wide] == [(False, True, "storage"), (False, True, "backup")]


def test_only_ways_over_a_link_that_changed_are_measured_anew() -> None:
    first = linked()
    keys = [one.key for one in rounds_of(first)]
    to_primary, to_vtl = (
        one.key for one in rounds_of(linked(links__vtl__rate="100 Mbit/s", links__vtl__queue="32 KiB"))
    )
    assert to_primary == keys[0]
    assert to_vtl != keys[1]
    variants = Variants(first, [None, None])  # type: ignore[list-item]
    # What TCP and queues make of links is the study's question, not the check's.
    assert variants.is_known(linked(links__vtl__queue="32 KiB", tcp__stack=2009, links__vtl__loss={"percent": 1}))
    for changes in ({"links__vtl__delay": "5 ms"}, {"links__uplink__rate": "1 Gbit/s"}, {"mtu": 9000}):
        assert not variants.is_known(linked(**changes))


def test_a_run_that_is_resumed_keeps_what_was_checked_before() -> None:
    before = [
        {"points": ["p02"], "links": {"vtl": {"rate_bits_per_s": 10**8}}, "seconds": 1.0, "checks": [{"to": "vtl"}]},
        {"points": ["p03"], "links": {"vtl": {"delay_us": 5000.0}}, "seconds": 2.0, "checks": []},
    ]
    variants = Variants(linked(), [None, None], before)  # type: ignore[list-item]
    assert variants.describe() == before
