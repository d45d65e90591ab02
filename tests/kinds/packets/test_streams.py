"""Streams of the tester, and their rates, through one device or several guests side by side."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.kinds.packets.dialogue import late_limit_ns
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.kinds.packets.streams import flooding, packets_config, rates_of_loop, rates_through
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import Device, plan_lab
from hakaru.lab.plan.device_guests import device_guests


def load(direction: str) -> PacketsLoad:
    return PacketsLoad.model_validate({"kind": "packets", "direction": direction})


def device(**guest: Any) -> Device:
    fields = {"hosts": ["generator"], "device": {"forwards": "guest", "guest": guest}}
    built = plan_lab(LabSpec.model_validate(fields)).device
    assert built is not None
    return built


def test_streams_of_one_guest_have_the_names_of_their_directions() -> None:
    names = [stream.name for stream in packets_config(load("both"), device(), 100).streams]
    assert names == ["forward", "backward", "loop-forward", "loop-backward"]


def test_tester_sends_and_receives_by_the_methods_of_the_load() -> None:
    methods = {"transmit": "sendmmsg", "receive": "af_xdp"}
    config = packets_config(load("one").model_copy(update=methods), device(), 100)
    assert (config.transmit, config.receive) == ("sendmmsg", "af_xdp")


@pytest.mark.parametrize(("pinning", "avoided"), [({}, []), ({"vcpus": [3, 2, 3], "others": [0]}, [0, 2, 3])])
def test_tester_avoids_the_processors_that_the_guest_is_pinned_to(pinning: dict[str, Any], avoided: list[int]) -> None:
    assert packets_config(load("one"), device(pinning=pinning), 100).avoid_processors == avoided


@pytest.mark.parametrize("direction", ["one", "both"])
@pytest.mark.parametrize("number", [1, 2, 8])
def test_every_guest_side_by_side_gets_an_equal_share_of_each_direction(direction: str, number: int) -> None:
    packets, built = load(direction), device(parallel=number)
    streams = packets_config(packets, built, 100).streams
    rates = rates_through(packets, built.ways, 80_000.0)
    flood, loop = flooding(packets, built.ways), rates_of_loop(packets, built.ways)
    assert len({stream.name for stream in streams}) == len(streams) == len(rates) == len(flood) == len(loop)
    assert sum(rate or 0.0 for rate in rates) == pytest.approx(80_000.0)
    for way, (source, inner) in enumerate((("left", "left"), ("right", "right"))):
        is_used = way == 0 or direction == "both"
        macs = {getattr(guest, inner).mac for guest in device_guests(built)}
        sent = [place for place, stream in enumerate(streams) if stream.from_ == source]
        assert {streams[place].destination_mac for place in sent} == macs
        assert len({rates[place] for place in sent}) == 1 and bool(rates[sent[0]]) == is_used
        assert [flood[place] for place in sent] == [None if is_used else 0.0] * number
        assert [loop[place] for place in sent] == [0.0] * number


def test_burst_of_a_late_tester_is_that_of_a_port_and_not_of_a_stream() -> None:
    packets = load("one")
    limits = {ways: late_limit_ns(rates_through(packets, ways, 100_000.0), ways) for ways in (1, 2, 4)}
    # 128 frames of all streams of the port.
    assert set(limits.values()) == {1_280_000}
