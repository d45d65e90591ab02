"""The place where a capture was made, estimated from the halves of the handshake's round trip."""

from __future__ import annotations

from typing import Any, Literal

Place = Literal["initiator", "target", "between", "unknown"]

NEAR = 0.2
"""Share of the round trip up to which an end counts as near."""
ROUND_TRIP_MIN_NS = 50_000
"""Below this round trip the processing of the ends dominates both halves."""


def place_of_capture(session: dict[str, Any]) -> Place:
    """The side on which the packets of this session were captured."""
    initiator, target = session["initiator_side_rtt_ns"], session["target_side_rtt_ns"]
    if initiator is None or target is None or initiator + target < ROUND_TRIP_MIN_NS:
        return "unknown"
    share = initiator / (initiator + target)
    if share <= NEAR:
        return "initiator"
    return "target" if share >= 1 - NEAR else "between"
