"""Upper bound of a setting's throughput, and the setting that the bound suggests. Pure.

    payload_bytes_per_s(…)    the link's rate less the headers of Ethernet, IP, TCP and iSCSI
    reachable_bytes_per_s(…)  what no setting can exceed: the payload rate, or depth x block / (RTT
                              + transfer)
    bound_bytes_per_s(…)      the lowest of the bounds of one setting, without loss; with loss the
                              response functions
    suggest(…)                buffers of 2 x rate x RTT, bursts of a block, no R2T before the first
                              data, …

A write command takes one round trip for itself and one for every R2T that it has to wait for (RFC
7143 11.7, 11.8): unsolicited data goes out with the command, `max_outstanding_r2t` bursts per turn
after that. A read takes one. These are upper bounds: host times and TCP's growth are left out, so
they order settings; what holds is measured.
"""

from __future__ import annotations

from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import AUTO, Knob, Machine, Settings, Space, Value, defaults_of, path_bytes, settle

ETHERNET_BYTES = 38
"""Preamble, header, check sequence and gap of a frame."""
IP_TCP_BYTES = 52
"""IPv4 and TCP with time stamps."""
BHS_BYTES = 48
RENO_C = 1.22
"""Mathis, Semke, Mahdavi, Ott 1997: rate = C x MSS / (RTT x sqrt(p)), random loss, every segment
acknowledged.
"""
CUBIC_C = 1.054
"""RFC 9438 section 5.1: average window = 1.054 x (RTT / p)^0.75 segments."""


def payload_bytes_per_s(rate_bits_per_s: int, mtu: int, segment_bytes: int) -> float:
    """Data of iSCSI PDUs of `segment_bytes` that a link of full frames carries."""
    wire = rate_bits_per_s / 8 * (mtu - IP_TCP_BYTES) / (mtu + ETHERNET_BYTES)
    return wire * segment_bytes / (segment_bytes + BHS_BYTES)


def reachable_bytes_per_s(conditions: Conditions, space: Space) -> float | None:
    """Throughput that no setting can exceed; None if the path is unknown."""
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return None
    segments = next((int(max(k.levels)) for k in space if k.name == "max_recv_data_segment_length"), 256 << 10)
    payload = payload_bytes_per_s(conditions.rate_bits_per_s, conditions.mtu, segments)
    if conditions.depth is None:
        return payload
    return min(payload, outstanding_bytes_per_s(conditions, conditions.depth, payload))


def outstanding_bytes_per_s(conditions: Conditions, depth: int, payload: float) -> float:
    """`depth` requests that each take a round trip and their transfer."""
    return depth * conditions.block_bytes / (_rtt_s(conditions) + conditions.block_bytes / payload)


def bound_bytes_per_s(conditions: Conditions, settings: Settings, machine: Machine) -> float:
    """The lowest bound of a setting; `conditions` with a rate and a round trip."""
    rate = conditions.rate_bits_per_s
    assert rate is not None and conditions.rtt_ns is not None, "bounds are of a path that is known"
    segment = int(settings.get("max_recv_data_segment_length", 256 << 10))
    payload = payload_bytes_per_s(rate, conditions.mtu, segment)
    rtt_s = _rtt_s(conditions)
    bounds = [payload]
    bounds.append(outstanding_bytes_per_s(conditions, depth_of(conditions, settings), payload))
    command = min(int(settings["command_max"]), conditions.block_bytes)
    per_request = -(-conditions.block_bytes // command)
    outstanding = min(int(settings["commands"]), depth_of(conditions, settings) * per_request)
    bounds.append(outstanding * command / (turns(settings, command, conditions) * rtt_s + command / payload))
    if rtt_s > 0:
        bounds += [window / rtt_s for window in windows(settings, machine).values()]
        bounds.append(under_loss_bytes_per_s(conditions, settings, rtt_s))
    return min(bounds)


def depth_of(conditions: Conditions, settings: Settings) -> int:
    """Requests outstanding: given, or a knob."""
    return conditions.depth if conditions.depth is not None else int(settings["queue_depth"])


def turns(settings: Settings, command: int, conditions: Conditions) -> int:
    """Round trips that one command waits for."""
    if conditions.op == "read":
        return 1
    unasked = 0
    if not settings["initial_r2t"]:
        unasked = min(int(settings["first_burst_length"]), command)
    elif settings["immediate_data"]:
        segment = int(settings.get("max_recv_data_segment_length", 256 << 10))
        unasked = min(int(settings["first_burst_length"]), segment, command)
    bursts = -(-(command - unasked) // int(settings["max_burst_length"]))
    return 1 + -(-bursts // int(settings["max_outstanding_r2t"]))


def windows(settings: Settings, machine: Machine) -> dict[str, float]:
    """Buffer → what may be under way at once by it.

    The kernel doubles what a program asks for and takes its own overhead from that (socket(7)), so
    that about what was asked for is left for data; of a buffer that it sizes itself, about half.
    """
    autos = {"send_buffer": machine.send_buffer_auto_max, "receive_buffer": machine.receive_buffer_auto_max}
    values = {name: settings.get(name, AUTO) for name in autos}
    return {name: autos[name] / 2 if isinstance(value, str) else float(value) for name, value in values.items()}


def under_loss_bytes_per_s(conditions: Conditions, settings: Settings, rtt_s: float) -> float:
    """Rate that congestion control reaches under random loss; infinite without loss."""
    p = conditions.loss_percent / 100
    control = settings.get("congestion_control", "cubic")
    if p == 0 or control == "bbr":
        return float("inf")
    segment = conditions.mtu - IP_TCP_BYTES
    reno: float = RENO_C / p**0.5
    window = reno if control == "reno" else max(reno, CUBIC_C * (rtt_s / p) ** 0.75)
    return segment * window / rtt_s


def suggest(conditions: Conditions, space: Space, machine: Machine) -> dict[str, Value]:
    """The setting that follows from the closed forms; a default that is enough stays."""
    path = _path(conditions)
    block = conditions.block_bytes
    # Twice what the path holds, and one that is being answered, as for the buffers.
    depth = conditions.depth or max(1, -(-(2 * path + block) // block))
    wanted: dict[str, Value] = {
        "initial_r2t": False,
        "immediate_data": True,
        "first_burst_length": block,
        "max_burst_length": block,
        "max_outstanding_r2t": 1,
        "max_recv_data_segment_length": 256 << 10,
        "command_max": block,
        "commands": depth,
        "send_buffer": 2 * path,
        "receive_buffer": 2 * path,
        "slow_start_after_idle": False,
        "queue_depth": depth,
    }
    suggested = defaults_of(space)
    for knob in space:
        if knob.name == "congestion_control":
            suggested[knob.name] = "bbr" if conditions.loss_percent and "bbr" in knob.levels else knob.default
        elif knob.ordered:
            suggested[knob.name] = _enough(knob, int(wanted[knob.name]), machine)
        else:
            suggested[knob.name] = wanted[knob.name]
    return settle(space, suggested)


def _enough(knob: Knob, wanted: int, machine: Machine) -> Value:
    """The default if it is not below `wanted`, else the least level that is not; the largest where
    all are.
    """
    default = windows({knob.name: knob.default}, machine)[knob.name] if knob.default == AUTO else knob.default
    if int(default) >= wanted:
        return knob.default
    numbers = [int(level) for level in knob.levels if level != AUTO]
    return next((level for level in numbers if level >= wanted), max(numbers))


def _path(conditions: Conditions) -> int:
    # Nothing is known of a real path before it has been measured: 1 Gbit/s over 20 ms.
    return path_bytes(conditions) if conditions.rate_bits_per_s and conditions.rtt_ns is not None else 2_500_000


def _rtt_s(conditions: Conditions) -> float:
    return (conditions.rtt_ns or 0) / 1e9
