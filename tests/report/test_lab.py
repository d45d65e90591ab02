"""What a report says of the lab: from lab.json alone, as text."""

from __future__ import annotations

from typing import Any

from hakaru.report.document import clean
from hakaru.report.lab import describe_lab

LAB: dict[str, Any] = {
    "nodes": [],
    "links": [{"name": "vtl", "node": "vtl", "switch": "edge", "address": "10.77.0.2", "rate_bits_per_s": 10**9}],
    "trunks": [{"name": "uplink", "a": "core", "b": "edge", "rate_bits_per_s": None}],
    "switches": [{"name": "edge", "forwarding": "store_and_forward", "shared_bytes": 4 << 20, "alpha": 1.0}],
    "backend": {"name": "fabric", "inner": {"pyroute2": "0.9"}},
    "tcp": [
        {
            "stack": "2009",
            "set": {"net/ipv4/tcp_sack": "0"},
            "found": {"net/ipv4/tcp_sack": "1"},
            "routes": [{"congestion_control": "cubic"}, {"congestion_control": "cubic"}],
            "remains": ["CUBIC as it is now"],
        },
        {"stack": "today", "set": {}, "found": {}, "routes": [], "remains": []},
    ],
    "baselines": [
        {
            "from": "kvm-1",
            "to": "vtl",
            "tool": "iperf 3.12",
            "streams": 2,
            "to_array_payload_bits_per_s": 941.4e6,
            "from_array_payload_bits_per_s": None,
            "to_array_retransmits": 12,
        }
    ],
}


def test_lab_is_told_without_data_structures() -> None:
    told = describe_lab(LAB, clean, "en")
    assert told["links"] == [
        ["vtl", "vtl", "edge", "10.77.0.2", "1 Gbit/s"],
        ["uplink", "core", "edge", "", "as fast as the machine"],
    ]
    assert told["about"] == [
        ("switch edge", "store-and-forward, buffer of 4 MiB shared by all ports (alpha 1)"),
        ("backend.name", "fabric"),
        ("backend.inner.pyroute2", "0.9"),
    ]
    assert told["baselines"] == [["kvm-1 – vtl", "iperf 3.12, 2 streams", "941 Mbit/s", "12", "–", "–"]]


def test_tcp_is_told_as_the_kernel_has_it_not_as_it_was_asked_for() -> None:
    old, today = describe_lab(LAB, clean, "en")["tcp"]
    assert old == {"stack": "2009", "control": "cubic", "settings": "tcp_sack 1", "remains": "CUBIC as it is now"}
    assert today["settings"] == "nothing: as the kernel has it"


def test_lab_that_was_not_ours_has_nothing_to_tell() -> None:
    told = describe_lab({}, clean, "ja")
    assert told == {"drawing": "", "links": [], "about": [], "tcp": [], "baselines": [], "vlans": []}
