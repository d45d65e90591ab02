"""Packets that an emulated network lost outside of its model: when they spoil a number, and when
they cannot.

A lost packet is to TCP what a modelled drop is: where the model drops nothing, a single one halves
a congestion window or waits for a timer, and shows for seconds. Beside thousands of modelled drops
it changes as little as its share of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.caveats import Caveat

LOST = ("lost_overrun", "lost_unknown", "lost_refused", "lost_after")
"""What an interface of the fabric counts as lost outside of its model, in packets."""
DROPPED = ("dropped_buffer", "dropped_early", "dropped_loss")
"""What its channels drop as asked, in frames."""
FRAMES_PER_PACKET = 45
"""A super-frame of 64 KiB in frames of 1500 bytes: a lost packet may have been one."""
SHARE_MAX = 0.05
"""Of the modelled drops, which is as much as repetitions may differ by (`noisy`)."""


def of_totals(lost: float, dropped: float) -> Iterator[Caveat]:
    """`lost` packets outside of the model beside `dropped` frames in it."""
    if few(lost, dropped):
        yield Caveat("fabric_lost", {"lost": lost, "dropped": dropped})
    elif lost > 0:
        yield Caveat("fabric_limit", {"lost": lost})


def few(lost: float, dropped: float) -> bool:
    """Some were lost, and even as super-frames too few beside the modelled drops to change a
    number.
    """
    return 0 < lost * FRAMES_PER_PACKET <= SHARE_MAX * dropped
