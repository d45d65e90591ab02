"""Counters of a device's losses, and errors of the kernel while its TAPs are connected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.lab.build import guest as built
from hakaru.lab.build.losses import losses_of, losses_of_fabric
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.lab.plan.device_guests import device_guests
from pyroute2 import NetlinkError

from .conftest import User

NET_DEV = """Inter-|   Receive                                   |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 0 0 9 9 0 0 0 0 0 0 9 9 0 0 0 0
  left: 1000 10 1 2 0 0 0 0 2000 20 4 8 0 0 0 0
tap-left: 1 1 0 0 0 0 0 0 1 1 0 16 0 0 0 0
"""


def test_losses_are_errors_and_drops_by_interface_and_direction() -> None:
    assert losses_of(NET_DEV, "host", frozenset({"left"})) == {
        "host/left/rx": 3,
        "output/left": 12,
        "host/tap-left/rx": 0,
        "host/tap-left/tx": 16,
    }
    assert losses_of("", "device") == {}


def test_frame_that_a_macvtap_lost_counts_once() -> None:
    text = NET_DEV.replace("tap-left: 1 1 0 0", "tap-left: 1 1 7 7")
    assert losses_of(text, "host", macvtaps=frozenset({"tap-left"}))["host/tap-left/rx"] == 7
    assert losses_of(text, "host")["host/tap-left/rx"] == 14


VHOST_USER = {
    "hosts": ["generator"],
    "device": {"name": "router", "forwards": "guest", "guest": {"nic": {"model": "vhost-user"}}},
}


def test_losses_of_a_fabric_are_its_drops_and_those_of_its_ports() -> None:
    counters = {
        "link/left/a-b": {"frames_in": 9.0, "dropped_buffer": 2.0, "dropped_mtu": 1.0},
        "interface/left": {"lost_overrun": 4.0, "lost_refused": 3.0, "lost_after": 5.0},
        "interface/guest-left": {"to_guest": 7.0, "dropped_no_buffer": 6.0, "dropped_down": 8.0, "up_now": 1.0},
        "thread/loop": {"cpu_ns": 1.0},
    }
    # Between guests of a chain, a frame has entered the device before.
    counters["interface/guest-left-2"] = {"dropped_no_buffer": 10.0}
    assert losses_of_fabric(counters, ("guest-left", "guest-right")) == {
        "host/guest-left-2/dropped_no_buffer": 10,
        "host/left/a-b/dropped_buffer": 2,
        "host/left/a-b/dropped_mtu": 1,
        "host/left/lost_overrun": 4,
        "host/left/lost_refused": 3,
        "input/guest-left": 6,
        "host/guest-left/dropped_down": 8,
    }


def test_frames_that_a_port_of_a_guest_drops_are_located_to_the_frame(user: User) -> None:
    done = user.run("lose_in_ports", json.dumps(VHOST_USER), "300")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["up"] == {"left": 0, "right": 0}
    assert set(seen["before"].values()) == {0}
    assert {place: lost for place, lost in seen["after"].items() if lost} == {"host/guest-left/dropped_down": 300}
    assert seen["error"] == "fabric on router was lost: ended by SIGKILL"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NetlinkError(16, "Device or resource busy"), "Device or resource busy"),
        (OSError(24, "Too many open files"), "Too many open files"),
        (ValueError("not enough values to unpack"), "not enough values"),
    ],
)
def test_errors_of_the_kernel_name_the_guest(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    def refuse(*_: Any) -> list[Any]:
        raise error

    monkeypatch.setattr(built, "_open_taps", refuse)
    fields = {"hosts": ["generator"], "device": {"name": "router", "forwards": "guest"}}
    device = plan_lab(LabSpec.model_validate(fields)).device
    assert device is not None
    (guest,) = device_guests(device)
    with pytest.raises(EnvironmentError_, match=f"TAPs of guest router cannot be connected.*{words}") as raised:
        built._plug_taps(device, guest, 1, None, 1500)  # type: ignore[arg-type]
    assert raised.value.hint
