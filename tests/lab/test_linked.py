"""Plans of linked labs, and refusals that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import ImpossibleLabError, LabPlan, check_adjustable, plan_lab
from pydantic import ValidationError

from .linked_lab import mismatch, plan


def test_plan_has_the_nodes_addresses_and_portals_of_the_study() -> None:
    built = plan()
    assert built.backend == "fabric"
    assert (built.host_names, built.array_names) == (("kvm-1",), ("primary", "vtl"))
    assert built.namespaces == ("kvm-1", "fabric", "primary", "vtl")
    assert [(link.name, link.interface, link.address) for link in built.links] == [
        ("kvm-1", "eth0", "10.77.0.3"),
        ("primary", "eth0", "10.77.0.1"),
        ("vtl", "eth0", "10.77.0.2"),
    ]
    assert built.portals() == ("10.77.0.1:3260",)
    assert built.portals("vtl", port=860) == ("10.77.0.2:860",)


def test_kernel_backend_has_a_namespace_per_switch() -> None:
    changes = {"switches__core": {}, "switches__edge": {}, "links__vtl__delay": None, "backend": "kernel"}
    built = plan(**changes)
    assert built.fabric_node is None
    assert built.namespaces == ("kvm-1", "core", "edge", "primary", "vtl")


def test_path_names_its_links_in_the_direction_of_the_counters() -> None:
    built = plan()
    (to_vtl,) = built.ways("kvm-1", "vtl")
    assert to_vtl.directions == ("link/kvm-1/a-b", "link/uplink/a-b", "link/vtl/a-b")
    assert to_vtl.rate_bits_per_s == 10**9
    assert to_vtl.delay_us == 100
    (from_primary,) = built.ways("primary", "kvm-1")
    assert from_primary.directions == ("link/primary/a-b", "link/kvm-1/b-a")
    assert from_primary.rate_bits_per_s == 10**10, "the send rate of the host does not limit what it receives"
    (to_primary,) = built.ways("kvm-1", "primary")
    assert to_primary.rate_bits_per_s == 10**9


def test_two_links_of_a_node_into_one_network_form_two_paths() -> None:
    fields = {
        "hosts": ["h"],
        "arrays": ["a"],
        "switches": {"s": {}, "t": {}},
        "links": {
            "h1": {"between": ["h", "s"]},
            "h2": {"between": ["h", "t"]},
            "a1": {"between": ["a", "s"]},
            "a2": {"between": ["a", "t"]},
            "st": {"between": ["s", "t"]},
        },
    }
    built = plan_lab(LabSpec.model_validate(fields))
    assert [(link.name, link.interface, link.address) for link in built.links] == [
        ("h1", "eth0", "10.77.0.2"),
        ("h2", "eth1", "10.77.16.2"),
        ("a1", "eth0", "10.77.0.1"),
        ("a2", "eth1", "10.77.16.1"),
    ]
    assert [path.directions for path in built.ways("h", "a")] == [
        ("link/h1/a-b", "link/a1/b-a"),
        ("link/h2/a-b", "link/a2/b-a"),
    ]


def test_linked_plan_can_be_restored_from_lab_json() -> None:
    built = plan(
        links__vtl__loss={"percent": 0.1, "burst_frames": 4},
        links__vtl__jitter={"normal": {"mean": "10 us", "deviation": "2 us"}},
        links__uplink__discipline={"red": {"min": "30 KiB", "max": "90 KiB", "ecn": True}},
        tcp__stack=2009,
    )
    again = LabPlan.from_description(json.loads(json.dumps(built.describe())))
    assert (again.nodes, again.links, again.trunks, again.switches, again.tcp, again.backend) == (
        built.nodes,
        built.links,
        built.trunks,
        built.switches,
        built.tcp,
        built.backend,
    )
    assert again.ways("kvm-1", "vtl") == built.ways("kvm-1", "vtl")


def test_star_and_linked_lab_store_only_their_own_fields() -> None:
    assert set(plan_lab(LabSpec()).describe()) == {"nodes", "links"}
    assert set(LabSpec().model_dump(mode="json")) == {
        *("hosts", "array", "switch", "paths", "mtu", "host_link", "array_link", "network")
    }
    stored = LabSpec.model_validate(mismatch()).model_dump(mode="json")
    assert "host_link" not in stored
    assert LabSpec.model_validate(stored) == LabSpec.model_validate(mismatch())


REFUSALS: list[tuple[dict[str, Any], str, tuple[str | int, ...]]] = [
    ({"arrays": None}, "it has no array", ("arrays",)),
    ({"arrays": ["vtl", "vtl"]}, "the name 'vtl' is given twice", ()),
    ({"hosts": ["core"]}, "the name 'core' is given twice", ()),
    ({"hosts": ["KVM"]}, "'KVM' is not a valid name for a node", ("hosts",)),
    ({"switches__a_b": {}}, "'a_b' is not a valid name for a node", ("switches", "a_b")),
    ({"links__a_b": {"between": ["core", "vtl"]}}, "'a_b' is not a valid name for a link", ("links", "a_b")),
    ({"hosts": ["kvm-1", "fabric"]}, "host 'fabric' is not connected", ("links",)),
    ({"switches__lost": {}}, "switch 'lost' is not connected", ("links",)),
    ({"links__uplink": None}, "host 'kvm-1' cannot reach array 'vtl'", ("links",)),
    (
        {"links__vtl__between": ["egde", "vtl"]},
        "link 'vtl' leads to 'egde', which is not a host",
        ("links", "vtl", "between", 0),
    ),
    ({"links__more": {"between": ["core", "core"]}}, "leads from 'core' to itself", ("links", "more", "between")),
    ({"links__more": {"between": ["kvm-1", "vtl"]}}, "has no switch at either end", ("links", "more", "between")),
    (
        {"links__more": {"between": ["edge", "core"]}},
        "links 'uplink' and 'more' both join 'edge' and 'core'",
        ("links", "more"),
    ),
    (
        {
            "switches__third": {},
            "links__x": {"between": ["core", "third"]},
            "links__y": {"between": ["third", "edge"]},
        },
        "link 'y' closes a loop",
        ("links", "y"),
    ),
    ({"links__more": {"between": ["kvm-1", "edge"]}}, "link 'more' is unused", ("links", "more")),
    ({"links__uplink__send_rate": "1 Gbit/s"}, "are switches, which send at", ("links", "uplink", "send_rate")),
    ({"links__kvm_1__send_rate": "25 Gbit/s"}, "more than the link's 10 Gbit/s", ("links", "kvm-1", "send_rate")),
    ({"links__vtl__rate": 0}, "links.vtl.rate is 0 bit/s; it can be 100 kbit/s to", ("links", "vtl", "rate")),
    ({"links__vtl__rate": "1 Tbit/s"}, "links.vtl.rate is 1 Tbit/s; it can be", ("links", "vtl", "rate")),
    (
        {"links__vtl__queue": "1 KiB"},
        "links.vtl.queue is 1 KiB; it can be 1522 B (one frame with an MTU of 1500)",
        ("links", "vtl", "queue"),
    ),
    ({"links__vtl__queue": "5 KiB", "mtu": 9000}, "it can be 9022 B", ("links", "vtl", "queue")),
    ({"mtu": 100}, "an MTU of 100 bytes", ("mtu",)),
    (
        {"switches__edge__shared_buffer": {"bytes": "1 KiB"}},
        "switches.edge.shared_buffer.bytes is 1 KiB, less than a frame of MTU 1500",
        ("switches", "edge", "shared_buffer", "bytes"),
    ),
    ({"links__vtl__delay": "11 s"}, "links.vtl.delay is 11 s; it can be 0 to 10 s", ("links", "vtl", "delay")),
    ({"links__vtl__jitter": {"uniform": "1 min"}}, "links.vtl.jitter is 60 s", ("links", "vtl", "jitter")),
    (
        {"links__vtl__loss": {"percent": 50, "burst_frames": 2, "bad_percent": 50}},
        "links.vtl.loss.percent is 50, not below bad_percent",
        ("links", "vtl", "loss"),
    ),
    (
        {"links__vtl__loss": {"percent": 15, "burst_frames": 2, "bad_percent": 20}},
        "links.vtl.loss.percent is 15, more than bursts of 2 frames can lose, 13.3",
        ("links", "vtl", "loss"),
    ),
    (
        {"links__vtl__discipline": {"red": {"min": "90 KiB", "max": "30 KiB"}}},
        "min is 90 KiB, max 30 KiB",
        ("links", "vtl", "discipline"),
    ),
    (
        {"links__vtl__discipline": {"mark": "30 KiB"}, "links__vtl__queue": "12 KiB"},
        "links.vtl.discipline begins at 30 KiB, but the queue is full at 12 KiB",
        ("links", "vtl", "discipline"),
    ),
    ({"spin": "2 s"}, "spin is 2 s; it can be 0 to 1 s", ("spin",)),
    ({"tcp__buffer_max": "1 KiB"}, "tcp.buffer_max is 1 KiB", ("tcp", "buffer_max")),
    ({"paths": 2}, "`paths` belongs to a star", ("paths",)),
    ({"links": None}, "`arrays` is given, but no `links`", ("arrays",)),
    ({"backend": "kernel"}, "cannot do switches.core.forwarding", ("switches", "core", "forwarding")),
    (
        {"backend": "kernel", "switches__core": {}},
        "cannot do switches.edge.shared_buffer",
        ("switches", "edge", "shared_buffer"),
    ),
]

KERNEL = {"backend": "kernel", "switches__core": {}, "switches__edge": {}}
for field, value in {
    "pause": True,
    "discipline": {"mark": "30 KiB"},
    "jitter": {"uniform": "1 ms"},
    "loss": {"percent": 1, "burst_frames": 3},
    "reorder": {"percent": 1, "by": "1 ms"},
}.items():
    REFUSALS.append(
        ({**KERNEL, f"links__vtl__{field}": value}, f"cannot do links.vtl.{field}: ", ("links", "vtl", field))
    )
REFUSALS.append(({**KERNEL, "spin": "1 ms"}, "cannot do spin", ("spin",)))


@pytest.mark.parametrize(("changes", "message", "path"), REFUSALS)
def test_impossible_lab_is_refused_with_its_place(
    changes: dict[str, Any], message: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(ImpossibleLabError) as refused:
        plan(**changes)
    assert message in refused.value.message
    assert refused.value.hint
    assert refused.value.path == path
    if "kernel backend" in refused.value.message:
        assert "backend: fabric" in refused.value.hint


def test_name_of_the_fabric_node_is_reserved() -> None:
    fields = mismatch(hosts=["fabric"])
    fields["links"]["kvm-1"]["between"] = ["fabric", "core"]
    with pytest.raises(ImpossibleLabError, match="the node that switches run in"):
        plan_lab(LabSpec.model_validate(fields))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links__vtl__between": ["vtl"]}, "Field required|at least 2"),
        ({"links__vtl__jitter": {}}, "jitter needs exactly one of"),
        ({"links__vtl__discipline": {}}, "discipline needs `tail_drop`, or exactly one of"),
        ({"links__vtl__discipline": "codel"}, "tail_drop"),
        ({"links__vtl__loss": {"percent": 101}}, "less than or equal to 100"),
        ({"switches__edge__forwarding": "slow"}, "store_and_forward"),
        ({"switches__edge__shared_buffer": {"bytes": "1 MiB", "alpha": 17}}, "less than or equal to 16"),
        ({"tcp__stack": 2010}, "today"),
        ({"tcp__congestion_control": "vegas"}, "cubic"),
        ({"backend": "netem"}, "fabric"),
    ],
)
def test_invalid_lab_is_refused_by_its_schema(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        plan(**changes)


def test_built_lab_can_change_settings_but_not_nodes_links_or_backend() -> None:
    built = plan()
    for changes in (
        {"links__vtl__rate": "10 Gbit/s", "links__vtl__queue": "1 MiB", "mtu": 9000},
        {"links__kvm_1__send_rate": None, "tcp__stack": "2009", "links__vtl__pause": True},
    ):
        check_adjustable(built, plan(**changes))
    for changes, message in (
        ({"hosts": ["kvm-1", "kvm-2"], "links__kvm-2": {"between": ["kvm-2", "core"]}}, "its nodes cannot change"),
        ({"network": "192.168.0.0/16"}, "its links and addresses cannot change"),
        ({**KERNEL, "links__vtl__delay": None}, "cannot change to kernel"),
    ):
        with pytest.raises(ImpossibleLabError, match=message):
            check_adjustable(built, plan(**changes))
