"""Packets that an emulated network lost outside its model, and whether they affect a result.

TCP reacts to a lost packet as to a modelled drop. If the model drops nothing, a single lost packet
halves a congestion window or triggers a retransmission timeout, which affects the rate for seconds.
Among thousands of modelled drops, its effect is as small as its share of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.caveats import Caveat

LOST = ("lost_overrun", "lost_unknown", "lost_refused", "lost_after")
"""Counters of packets that an interface of the fabric lost outside its model."""
DROPPED = ("dropped_buffer", "dropped_early", "dropped_loss")
"""Counters of frames that the channels of the fabric dropped as modelled."""
FRAMES_PER_PACKET = 45
"""Frames of 1500 bytes in a super-frame of 64 KiB. A lost packet may have been a super-frame."""
SHARE_MAX = 0.05
"""Largest negligible share of the modelled drops. It equals the accepted variation between
repetitions (caveat `noisy`).
"""


def of_totals(lost: float, dropped: float) -> Iterator[Caveat]:
    """Caveats for `lost` packets outside the model and `dropped` frames in it."""
    if is_negligible(lost, dropped):
        yield Caveat("fabric_lost", {"lost": lost, "dropped": dropped})
    elif lost > 0:
        yield Caveat("fabric_limit", {"lost": lost})


def is_negligible(lost: float, dropped: float) -> bool:
    """Whether packets were lost, but too few to matter beside the modelled drops, even if all of
    them were super-frames.
    """
    return 0 < lost * FRAMES_PER_PACKET <= SHARE_MAX * dropped
