"""Token buckets that limit a rate, and the payload that TCP carries over a wire. Pure arithmetic.

**How a rate is kept.** An interface of a link with a rate sends through a token bucket (TBF). The
kernel counts a frame from its Ethernet header to its last payload byte and, for a super-frame (TSO,
up to 64 KiB handed over as one), counts the headers of every frame that it represents. The wire
also carries preamble, check sequence and gap, 24 bytes per frame. The bucket's rate is therefore
`rate × (mtu + 14) / (mtu + 38)`. That is exact for full frames, which fill a link, and at most 24
bytes per frame short for small ones. (Counting the 24 bytes of each frame would require
super-frames to be switched off, which costs an entire core at 1 Gbit/s instead of a tenth of one.)

**How smooth it is.** A super-frame is at most 0.25 ms of link time (and an eighth of the queue, and
at least one frame). The bucket holds one super-frame and 1 ms, so that a late timer loses no rate.
Frames after an idle time therefore pass up to 1.25 ms early, once: 156 KB at 1 Gbit/s. A full
switch of the kernel backend drops entire super-frames, so that TCP suffers more from a small queue
than it would with a real switch.

**With the fabric** only nodes have a bucket, and it does not define the rate: the fabric sends
every frame at its exact instant, counting all 24 bytes. The bucket makes the sender wait as for its
interface (TCP limits the data it has queued below itself, and a bucket reports no frame as sent
before its time). Frames that it lets pass early wait in the fabric and leave correctly spaced. The
bucket may therefore hold more, 4 ms (at most 2 MiB), so that a busy machine whose timers are that
late still loses no rate. Super-frames may be as long as an interface with TSO takes them, within 1
ms. The bucket counts small frames 24 bytes short, so it runs 0.1 % slower than the fabric: full
frames then wait in the node, where TCP sees them, and not in between.
"""

from __future__ import annotations

from hakaru.lab.plan.actions import Shape

ETHERNET_HEADER_BYTES = 14
# Preamble 8, check sequence 4, gap 12 (IEEE 802.3).
WIRE_OVERHEAD_BYTES = 24
TAG_BYTES = 4
SUPER_FRAME_MAX_BYTES = 65_536
_SUPER_FRAME_S = 0.000_25
_BUCKET_SLACK_S = 0.001
# Linux's default `txqueuelen`.
_NODE_QUEUE_FRAMES = 1000
# Ethernet, IPv4 and TCP with timestamps: counted for every frame of a super-frame.
_HEADERS_BYTES = ETHERNET_HEADER_BYTES + 20 + 32
# Slack of a bucket in front of the fabric: larger, but within the capacity of a packet socket.
_FABRIC_SLACK_S, _FABRIC_SLACK_MAX_BYTES = 0.004, 2 * 1024**2
_FABRIC_SUPER_FRAME_S = 0.001
# Share of the rate that a node in front of the fabric may send.
FABRIC_NODE_SHARE = 0.999


def node_queue_bytes(mtu: int) -> int:
    """Queue of a node's own end of a link of the kernel backend: 1000 full frames."""
    return _NODE_QUEUE_FRAMES * (mtu + ETHERNET_HEADER_BYTES)


# 1000 packets as Linux counts them, a super-frame as one. A sender never fills its own queue.
NODE_QUEUE_BYTES = _NODE_QUEUE_FRAMES * SUPER_FRAME_MAX_BYTES


def plan_shape(
    node: str,
    interface: str,
    rate_bits_per_s: float,
    mtu: int,
    queue_bytes: int,
    super_frames_within: int | None = None,
    super_frame_s: float = _SUPER_FRAME_S,
    slack_bytes: int | None = None,
) -> Shape:
    """The token bucket of an interface. The module's documentation explains the numbers.

    `super_frames_within`: bytes of which a super-frame is at most an eighth; default: the queue.
    `super_frame_s`: a super-frame is at most what the link sends in this time. `slack_bytes`: bytes
    that the bucket holds besides a super-frame; default: 1 ms.
    """
    frame = mtu + ETHERNET_HEADER_BYTES
    rate_bytes_per_s = rate_bits_per_s / 8
    within = queue_bytes if super_frames_within is None else super_frames_within
    super_frame = min(SUPER_FRAME_MAX_BYTES, int(rate_bytes_per_s * super_frame_s), within // 8)
    super_frame = max(frame, super_frame)
    segments = -(-super_frame // (frame - _HEADERS_BYTES))
    slack = int(rate_bytes_per_s * _BUCKET_SLACK_S) if slack_bytes is None else slack_bytes
    return Shape(
        node=node,
        interface=interface,
        rate_bytes_per_s=round(rate_bytes_per_s * frame / (frame + WIRE_OVERHEAD_BYTES)),
        bucket_bytes=super_frame + segments * _HEADERS_BYTES + slack,
        queue_bytes=queue_bytes,
        super_frame_bytes=super_frame,
    )


def plan_fabric_shape(node: str, interface: str, rate_bits_per_s: float, mtu: int) -> Shape:
    """The token bucket of a node in front of the fabric, see the module's documentation."""
    one_ms = int(rate_bits_per_s / 8 * _BUCKET_SLACK_S)
    slack = max(one_ms, min(int(rate_bits_per_s / 8 * _FABRIC_SLACK_S), _FABRIC_SLACK_MAX_BYTES))
    share = rate_bits_per_s * FABRIC_NODE_SHARE
    return plan_shape(
        node, interface, share, mtu, NODE_QUEUE_BYTES, super_frame_s=_FABRIC_SUPER_FRAME_S, slack_bytes=slack
    )


def untagged_share(mtu: int) -> float:
    """Length of full frames on the wire without 802.1Q tags, relative to that with tags."""
    wire = mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES
    return wire / (wire + TAG_BYTES)


def replies_share_max(mtu: int) -> float:
    """Largest share of a wire that acknowledgements take beside the data, with one for every two
    full frames.
    """
    frame = mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES + TAG_BYTES
    reply = _HEADERS_BYTES + WIRE_OVERHEAD_BYTES + TAG_BYTES
    return reply / (2 * frame + reply)


def tcp_payload_bits_per_s(rate_bits_per_s: float, mtu: int) -> float:
    """Payload of TCP (IPv4, timestamps) in bits per second over an Ethernet link of that rate, with
    full frames back to back and no loss.
    """
    return rate_bits_per_s * (mtu - 52) / (mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES)
