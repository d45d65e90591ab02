"""Counters of a device's losses, and errors of the kernel while its TAPs are connected."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.lab.build import guest as built
from hakaru.lab.build.losses import losses_of
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from pyroute2 import NetlinkError

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
    with pytest.raises(EnvironmentError_, match=f"TAPs of guest router cannot be connected.*{words}") as raised:
        built._plug_taps(device, 1, None, 1500)  # type: ignore[arg-type]
    assert raised.value.hint
