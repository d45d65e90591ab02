"""Upper bound of a setting's throughput, and the setting that the bound suggests. Pure.

    payload_bytes_per_s(…)    the link's rate less the headers of Ethernet, IP, TCP and iSCSI
    reachable_bytes_per_s(…)  throughput that no setting can exceed: the payload rate, or depth x
                              block / (RTT + transfer)
    bound_bytes_per_s(…)      the lowest bound of one setting; under loss the bounds include TCP's
                              response function
    suggest(…)                buffers of 2 x rate x RTT, bursts of a block, no R2T before the first
                              data, …

A write command takes one round trip for itself and one for every R2T that it has to wait for (RFC
7143 11.7, 11.8). Unsolicited data goes out with the command; every further round trip carries
`max_outstanding_r2t` bursts. A read takes one round trip. The bounds leave out processing on the
hosts and the growth of TCP's window. They rank settings; only a measurement shows the throughput.
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
    """Return the payload rate of a link with full frames, in PDUs of `segment_bytes` data."""
    wire = rate_bits_per_s / 8 * (mtu - IP_TCP_BYTES) / (mtu + ETHERNET_BYTES)
    return wire * segment_bytes / (segment_bytes + BHS_BYTES)


def reachable_bytes_per_s(conditions: Conditions, space: Space) -> float | None:
    """Return the throughput that no setting can exceed; None if the path is unknown."""
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return None
    segments = next((int(max(k.levels)) for k in space if k.name == "max_recv_data_segment_length"), 256 << 10)
    payload = payload_bytes_per_s(conditions.rate_bits_per_s, conditions.mtu, segments)
    if conditions.depth is None:
        return payload
    return min(payload, outstanding_bytes_per_s(conditions, conditions.depth, payload))


def outstanding_bytes_per_s(conditions: Conditions, depth: int, payload: float) -> float:
    """Return the rate of `depth` outstanding requests, each with a round trip and a transfer."""
    return depth * conditions.block_bytes / (_rtt_s(conditions) + conditions.block_bytes / payload)


def bound_bytes_per_s(conditions: Conditions, settings: Settings, machine: Machine) -> float:
    """Return the lowest bound of a setting. `conditions` must have a rate and a round trip."""
    rate = conditions.rate_bits_per_s
    assert rate is not None and conditions.rtt_ns is not None, "a bound needs a known path"
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
    """Return the requests outstanding: of the conditions, or of the knob if they leave it free."""
    return conditions.depth if conditions.depth is not None else int(settings["queue_depth"])


def turns(settings: Settings, command: int, conditions: Conditions) -> int:
    """Return the number of round trips that one command takes."""
    if conditions.op == "read":
        return 1
    unsolicited = 0
    if not settings["initial_r2t"]:
        unsolicited = min(int(settings["first_burst_length"]), command)
    elif settings["immediate_data"]:
        segment = int(settings.get("max_recv_data_segment_length", 256 << 10))
        unsolicited = min(int(settings["first_burst_length"]), segment, command)
    bursts = -(-(command - unsolicited) // int(settings["max_burst_length"]))
    return 1 + -(-bursts // int(settings["max_outstanding_r2t"]))


def windows(settings: Settings, machine: Machine) -> dict[str, float]:
    """Return buffer → bytes that it allows in flight.

    The kernel doubles the size that a program requests and takes its own overhead from that
    (socket(7)). About the requested size is left for data, and about half of a buffer that the
    kernel sizes itself.
    """
    autos = {"send_buffer": machine.send_buffer_auto_max, "receive_buffer": machine.receive_buffer_auto_max}
    values = {name: settings.get(name, AUTO) for name in autos}
    return {name: autos[name] / 2 if isinstance(value, str) else float(value) for name, value in values.items()}


def under_loss_bytes_per_s(conditions: Conditions, settings: Settings, rtt_s: float) -> float:
    """Return the rate that congestion control reaches under random loss; infinite without loss."""
    p = conditions.loss_percent / 100
    control = settings.get("congestion_control", "cubic")
    if p == 0 or control == "bbr":
        return float("inf")
    segment = conditions.mtu - IP_TCP_BYTES
    reno: float = RENO_C / p**0.5
    window = reno if control == "reno" else max(reno, CUBIC_C * (rtt_s / p) ** 0.75)
    return segment * window / rtt_s


def suggest(conditions: Conditions, space: Space, machine: Machine) -> dict[str, Value]:
    """Return the setting that the closed forms suggest. A sufficient default stays."""
    path = _path(conditions)
    block = conditions.block_bytes
    # Requests for twice what the path holds, as for the buffers, and one that is being answered.
    depth = conditions.depth or max(1, -(-(2 * path + block) // block))
    needed: dict[str, Value] = {
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
            suggested[knob.name] = _enough(knob, int(needed[knob.name]), machine)
        else:
            suggested[knob.name] = needed[knob.name]
    return settle(space, suggested)


def _enough(knob: Knob, needed: int, machine: Machine) -> Value:
    """Return the default if it is at least `needed`, else the smallest such level, else the largest
    level.
    """
    default = windows({knob.name: knob.default}, machine)[knob.name] if knob.default == AUTO else knob.default
    if int(default) >= needed:
        return knob.default
    numbers = [int(level) for level in knob.levels if level != AUTO]
    return next((level for level in numbers if level >= needed), max(numbers))


def _path(conditions: Conditions) -> int:
    # Assumes 1 Gbit/s over 20 ms for a real path that has not been measured.
    return path_bytes(conditions) if conditions.rate_bits_per_s and conditions.rtt_ns is not None else 2_500_000


def _rtt_s(conditions: Conditions) -> float:
    return (conditions.rtt_ns or 0) / 1e9
