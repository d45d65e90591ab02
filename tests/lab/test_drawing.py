"""Drawings of labs are well-formed, complete, escaped and reproducible."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report.lab_drawing import draw

from .linked_lab import plan
from .vlan_lab import plan as vlans

SVG = "{http://www.w3.org/2000/svg}"


def drawing(**fields: Any) -> ElementTree.Element:
    plan = plan_lab(LabSpec.model_validate(fields))
    assert draw(plan) == draw(plan)
    return ElementTree.fromstring(draw(plan))


def texts(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_every_node_link_address_and_rate_is_drawn() -> None:
    drawn_texts = texts(drawing(hosts=2, paths=2, host_link={"rate": "1 Gbit/s"}, array_link={"rate": "10 Gbit/s"}))
    assert {"host-1", "host-2", "switch", "array", "MTU 1500"} <= set(drawn_texts)
    assert {"eth0 10.77.0.1/20", "eth1 10.77.16.1/20", "eth0 10.77.0.2/20", "eth1 10.77.16.3/20"} <= set(drawn_texts)
    assert drawn_texts.count("1 Gbit/s") == 4
    assert drawn_texts.count("10 Gbit/s") == 2


def test_link_without_a_rate_is_drawn_as_unlimited() -> None:
    assert texts(drawing(hosts=1)).count("unlimited") == 2


def test_many_hosts_are_folded_with_their_number() -> None:
    drawn_texts = texts(drawing(hosts=64))
    assert "host-7" in drawn_texts
    assert "host-8" not in drawn_texts
    assert {"57 more", "host-8 … host-64"} <= set(drawn_texts)


def test_drawing_of_a_linked_lab_shows_the_settings_of_each_link() -> None:
    linked = ElementTree.fromstring(draw(plan(links__uplink__pause=True, links__vtl__loss={"percent": 0.1})))
    drawn_texts = texts(linked)
    assert {"kvm-1", "core", "edge", "primary", "vtl", "MTU 1500", "cut-through", "4 MiB shared"} <= set(drawn_texts)
    assert {"kvm-1: 10 Gbit/s", "uplink: 10 Gbit/s", "vtl: 1 Gbit/s", "eth0 10.77.0.3"} <= set(drawn_texts)
    assert {"queue 2 MiB, sends 1 Gbit/s", "pause", "queue 64 KiB", "delay 0.1 ms, loss 0.1 %"} <= set(drawn_texts)
    check_places(linked)


def test_vlans_are_drawn_at_their_ports_and_a_nodes_trunk_is_one_line() -> None:
    drawn = ElementTree.fromstring(draw(vlans(links__uplink__vlans=["storage", "servers"])))
    drawn_texts = texts(drawn)
    assert {"access VLAN 20", "access VLAN 30", "trunk VLAN 10, 30", "trunk VLAN 10, 20"} <= set(drawn_texts)
    assert {"routes VLAN 10, 20", "eth0.10 10.77.10.1", "eth0.30 10.77.30.1"} <= set(drawn_texts)
    assert drawn_texts.count("array: 200 Mbit/s") == 1
    assert "array.eth0" not in drawn_texts, "the helper that tags frames for a node is not drawn as a switch"
    check_places(drawn)


def test_tree_of_switches_with_folded_hosts_and_two_paths_fits_the_picture() -> None:
    hosts = {f"h{i}": {"between": [f"host-{i}", "s"]} for i in range(1, 12)}
    far = {"far": {"between": ["host-12", "u"]}, "far2": {"between": ["host-12", "v"]}}
    arrays = {"a1": {"between": ["a1", "s"]}, "a2": {"between": ["a2", "t"]}, "a3": {"between": ["a2", "v"]}}
    trunks = {"st": {"between": ["s", "t"]}, "tu": {"between": ["u", "t"]}, "sv": {"between": ["s", "v"]}}
    fields = {
        "hosts": 12,
        "arrays": ["a1", "a2"],
        "switches": {name: {} for name in "stuv"},
        "links": hosts | far | arrays | trunks,
    }
    linked = ElementTree.fromstring(draw(plan_lab(LabSpec.model_validate(fields))))
    assert {"host-7", "4 more", "host-8 … host-11", "host-12", "eth1 10.77.16.2"} <= set(texts(linked))
    check_places(linked)


@pytest.mark.parametrize("hosts", [1, 2, 8, 9, 256])
@pytest.mark.parametrize("paths", [1, 3])
def test_nothing_leaves_the_picture_or_overlaps(hosts: int, paths: int) -> None:
    check_places(drawing(hosts=hosts, paths=paths))


def check_places(picture: ElementTree.Element) -> None:
    _, _, width, height = (float(number) for number in picture.attrib["viewBox"].split())
    boxes = []
    for box in picture.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        boxes.append((x, y, x + w, y + h))
    for first in boxes:
        for second in boxes:
            apart = first[2] <= second[0] or second[2] <= first[0] or first[3] <= second[1] or second[3] <= first[1]
            assert first is second or apart, (first, second)


def test_a_drawing_in_japanese_has_no_english_words() -> None:
    linked = ElementTree.fromstring(draw(plan(links__uplink__pause=True, links__vtl__loss={"percent": 0.1}), "ja"))
    words = texts(linked)
    assert {"カットスルー", "共有 4 MiB", "キュー 64 KiB", "遅延 0.1 ms, 損失 0.1 %"} <= set(words)
    assert not re.search("queue|delay|loss|shared|unlimited|more", " ".join(words))
    check_places(linked)


def test_guests_are_listed_in_the_box_of_their_host() -> None:
    guests = {"kvm-1": {"names": ["vm01", "vm02"], "nic_rate": "1 Gbit/s"}}
    drawn = texts(ElementTree.fromstring(draw(plan(guests=guests, links__kvm_1__send_rate=None), "en")))
    for words in ("kvm-1", "vm01 10.77.0.4", "vm02 10.77.0.5", "NIC 1 Gbit/s", "kvm-1: 10 Gbit/s"):
        assert words in drawn, drawn
    assert "kvm-1.eth0" not in drawn
