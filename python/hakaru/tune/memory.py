"""Buffer memory that a setting needs on both machines, for one session. Pure.

The memory is the sum of:

- the socket buffers in the direction of the data: twice the requested size, as the kernel reserves
  (socket(7)), or the limit of a buffer that the kernel sizes
- one PDU at the receiver of the data (MaxRecvDataSegmentLength)
- for every outstanding write command, its solicited bursts or its unsolicited data, whichever is
  larger
"""

from __future__ import annotations

from hakaru.tune.closed_form import bound_bytes_per_s, depth_of, suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import AUTO, Machine, Settings, Space, Value, settle

LEAN = 0.97
"""Share of the suggestion's bound that a lean setting must reach."""


def memory_bytes(conditions: Conditions, settings: Settings, machine: Machine, sessions: int = 1) -> int:
    """Return the buffer bytes that a setting needs at both ends."""
    sockets = sum(
        auto_max if value == AUTO else 2 * int(value)
        for value, auto_max in (
            (_buffer(settings, "send_buffer"), machine.send_buffer_auto_max),
            (_buffer(settings, "receive_buffer"), machine.receive_buffer_auto_max),
        )
    )
    return sessions * (sockets + pdu_bytes(conditions, settings))


def pdu_bytes(conditions: Conditions, settings: Settings) -> int:
    """Return the bytes of incomplete PDUs and bursts that the receiver may hold."""
    pdu = int(settings.get("max_recv_data_segment_length", 256 << 10))
    if conditions.op == "read":
        return pdu
    command = min(int(settings["command_max"]), conditions.block_bytes)
    per_request = -(-conditions.block_bytes // command)
    outstanding = min(int(settings["commands"]), depth_of(conditions, settings) * per_request)
    solicited = int(settings["max_outstanding_r2t"]) * int(settings["max_burst_length"])
    unsolicited = 0 if settings["initial_r2t"] else int(settings["first_burst_length"])
    return pdu + outstanding * min(command, max(solicited, unsolicited))


def lean(conditions: Conditions, space: Space, machine: Machine) -> dict[str, Value]:
    """Return the setting of least memory that by the closed forms keeps almost all of the rate, or
    the suggestion if the path is unknown.

    From every command size, one knob at a time moves to the level that needs the least memory and
    is still fast enough.
    """
    start = suggest(conditions, space, machine)
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return start
    enough = LEAN * bound_bytes_per_s(conditions, start, machine)

    def cost(settings: Settings) -> float:
        fast = bound_bytes_per_s(conditions, settings, machine) >= enough
        return memory_bytes(conditions, settings, machine) if fast else float("inf")

    by_name = {knob.name: knob for knob in space}
    candidates = []
    for command in by_name["command_max"].levels:
        # Small commands fill a path only in large numbers.
        current = settle(space, {**start, "command_max": command, "commands": by_name["commands"].levels[-1]})
        while True:
            neighbours = [settle(space, {**current, k.name: level}) for k in space if k.ordered for level in k.levels]
            better = min(neighbours, key=cost)
            if cost(better) >= cost(current):
                break
            current = better
        candidates.append(current)
    return min([start, *candidates], key=cost)


def _buffer(settings: Settings, name: str) -> Value:
    return settings.get(name, AUTO)
