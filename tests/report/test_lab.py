"""The description of the lab in a report, which uses only lab.json."""

from __future__ import annotations

from typing import Any

from hakaru.lab.plan.tcp import REMAINS_2009, SACK_RACK
from hakaru.report import capture_files, link_checks
from hakaru.report.document import clean
from hakaru.report.lab import REMAINS, describe_lab
from hakaru.wording import say

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
            "forward_payload_bits_per_s": 941.4e6,
            "back_payload_bits_per_s": None,
            "forward_retransmits": 12,
        }
    ],
}


def test_lab_is_described_without_data_structures() -> None:
    described = describe_lab(LAB, clean, "en")
    assert described["links"] == [
        ["vtl", "vtl", "edge", "10.77.0.2", "1 Gbit/s"],
        ["uplink", "core", "edge", "", "unlimited"],
    ]
    assert described["about"] == [
        ("switch edge", "store-and-forward, buffer of 4 MiB shared by all ports (alpha 1)"),
        ("Network", say("en", "lab.backend.fabric")),
    ]
    assert described["baselines"] == [["kvm-1 – vtl", "iperf 3.12, 2 streams", "941 Mbit/s", "12", "–", "–"]]


def test_tcp_is_described_as_found_in_the_kernel_not_as_configured() -> None:
    old, today = describe_lab(LAB, clean, "en")["tcp"]
    assert old == {"stack": "2009", "control": "cubic", "settings": "tcp_sack 1", "remains": "CUBIC as it is now"}
    assert today["settings"] == "none: kernel defaults"


def test_missing_lab_has_an_empty_description() -> None:
    described = describe_lab({}, clean, "ja")
    assert described == {
        "drawing": "",
        "is_site": False,
        "links": [],
        "about": [],
        "tcp": [],
        "baselines": [],
        "vlans": [],
    }


VLANS: dict[str, Any] = {
    "vlans": [
        {"name": "storage", "id": 10, "subnet": "10.77.10.0/24"},
        {"name": "lan", "id": 20, "subnet": "10.2.0.0/16"},
    ],
    "links": [
        {"name": "kvm", "node": "kvm", "switch": "core", "address": "10.2.0.2", "vlan": 20},
        {"name": "a.10", "node": "a", "switch": "a.eth0", "address": "10.77.10.1", "vlan": 10, "inside": True},
        {"name": "a.20", "node": "a", "switch": "a.eth0", "address": "10.2.0.1", "vlan": 20, "inside": True},
    ],
    "trunks": [{"name": "a", "a": "core", "b": "a.eth0", "rate_bits_per_s": 10**9, "vlans": [10, 20]}],
    "switches": [
        {
            "name": "core",
            "forwarding": "cut_through",
            "interfaces": [{"vlan": 10, "address": "10.77.10.254", "prefix_length": 24}],
            "routes": [{"network": "10.9.0.0/16", "via": "10.77.10.7"}],
        },
        {"name": "a.eth0", "forwarding": "cut_through", "is_nic": True},
    ],
}


def test_ports_are_listed_with_their_vlans_and_a_nodes_trunk_as_one_link() -> None:
    described = describe_lab(VLANS, clean, "en")
    assert described["links"] == [
        ["kvm", "kvm", "core", "10.2.0.2", "access 20", "unlimited"],
        ["a", "a", "core", "10.77.10.1, 10.2.0.1", "trunk 10, 20", "1 Gbit/s"],
    ]
    assert described["vlans"] == [
        ["10", "storage", "10.77.10.0/24", "core 10.77.10.254"],
        ["20", "lan", "10.2.0.0/16", "–"],
    ]
    assert described["about"] == [("switch core", "cut-through, 10.9.0.0/16 → 10.77.10.7")]


CHECK = {
    "from": "kvm",
    "to": "vtl",
    "asked_bits_per_s": 10**9,
    "measured_bits_per_s": 999e6,
    "reverse_bits_per_s": 998e6,
    "rtt_us_p50": 61.0,
    "as_asked": True,
}


def test_link_checks_of_changed_points_form_a_group_that_names_the_changes() -> None:
    changed = {"vtl": {"rate_bits_per_s": 10**8, "delay_us": 2500.0}, "kvm": {"mtu": 9000}, "uplink": {"mtu": 9000}}
    later = CHECK | {"points": ["p02"], "changed": changed, "seconds": 1.25, "asked_rtt_us": 5000, "as_asked": False}
    first, second = link_checks.groups([CHECK, later], {"p02": {"case": "far"}}, "en")
    assert first["heading"] == ""
    assert [row["off"] for row in first["rows"]] == [False]
    assert second["heading"] == ("vtl: rate 100 Mbit/s, delay 2.50 ms; kvm, uplink: MTU 9000 (far; checked in 1.25 s)")
    assert second["rows"][0]["rtt"] == "61 µs (specified 5,000)"
    assert second["rows"][0]["off"]


def test_link_checks_of_several_paths_between_two_nodes_name_the_path() -> None:
    (group,) = link_checks.groups([CHECK | {"path": 0}, CHECK | {"path": 1}], {}, "en")
    assert [row["path"].rpartition(", ")[2] for row in group["rows"]] == ["path 1", "path 2"]
    (single,) = link_checks.groups([CHECK | {"path": 0}], {}, "en")
    assert "path" not in single["rows"][0]["path"]


def test_captures_are_linked_with_their_packets_and_losses() -> None:
    whole = {"point": "p01", "repetition": 1, "node": "kvm", "files": ["capture/p01-1-kvm.pcapng"], "bytes": 2_000_000}
    whole |= {"packets": 12_345, "dropped": 0, "deleted_files": 0, "cut_short": False}
    short = whole | {"files": ["capture/p01-2 a.pcapng"], "dropped": 7, "deleted_files": 2, "cut_short": True}
    summary = {"points": [{"point": "p01", "factors": {"vms": 2}}], "captures": [whole, short]}
    first, second = capture_files.rows(summary, "..", "en")
    assert first["files"] == [{"name": "p01-1-kvm.pcapng", "href": "../capture/p01-1-kvm.pcapng"}]
    assert (first["packets"], first["bytes"], first["lost"]) == ("12,345", "2,000 kB", "nothing")
    assert second["files"][0]["href"] == "../capture/p01-2%20a.pcapng"
    assert second["lost"] == (
        "7 packets for lack of buffer space, the 2 oldest files, replaced by newer ones, "
        "all packets after the capture ended early"
    )
    assert capture_files.rows({"points": []}, "..", "ja") == []


def test_remaining_differences_of_the_2009_stack_are_translated() -> None:
    stays = [SACK_RACK, *REMAINS_2009]
    assert sorted(say("en", message) for message in REMAINS) == sorted(stays)
    (tcp,) = describe_lab({"tcp": [{"stack": "2009", "remains": stays}]}, clean, "ja")["tcp"]
    assert not any(english in tcp["remains"] for english in stays)
    assert "確認応答" in tcp["remains"]
