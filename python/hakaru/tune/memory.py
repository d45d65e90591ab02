"""Buffer memory that a setting needs on both machines, for one session. Pure.

socket buffers of the direction that carries the data, twice what was asked for, as the kernel keeps
it (socket(7)); of a buffer that the kernel sizes, what it may grow to
+ one PDU in each direction's receiver (MaxRecvDataSegmentLength)
+ for a write, the bursts that the target has asked for or must take unasked, of every command
  outstanding
"""

from __future__ import annotations

from hakaru.tune.closed_form import bound_bytes_per_s, depth_of, suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import AUTO, Machine, Settings, Space, Value, settle

LEAN = 0.97
"""Share of the suggestion's bound that a lean setting must keep."""


def memory_bytes(conditions: Conditions, settings: Settings, machine: Machine, sessions: int = 1) -> int:
    """Bytes that both ends may hold for it at once."""
    sockets = sum(
        grown if value == AUTO else 2 * int(value)
        for value, grown in (
            (_of(settings, "send_buffer"), machine.send_buffer_auto_max),
            (_of(settings, "receive_buffer"), machine.receive_buffer_auto_max),
        )
    )
    return sessions * (sockets + pdu_bytes(conditions, settings))


def pdu_bytes(conditions: Conditions, settings: Settings) -> int:
    """Bytes of PDUs and bursts that are held until they are whole."""
    pdu = int(settings.get("max_recv_data_segment_length", 256 << 10))
    if conditions.op == "read":
        return pdu
    command = min(int(settings["command_max"]), conditions.block_bytes)
    per_request = -(-conditions.block_bytes // command)
    outstanding = min(int(settings["commands"]), depth_of(conditions, settings) * per_request)
    asked = int(settings["max_outstanding_r2t"]) * int(settings["max_burst_length"])
    unasked = 0 if settings["initial_r2t"] else int(settings["first_burst_length"])
    return pdu + outstanding * min(command, max(asked, unasked))


def lean(conditions: Conditions, space: Space, machine: Machine) -> dict[str, Value]:
    """The least memory that by the closed forms keeps almost all of the rate; the suggestion where
    the path is unknown.

    From every command size, knob after knob goes to the level that takes the least and is still
    fast enough.
    """
    start = suggest(conditions, space, machine)
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return start
    enough = LEAN * bound_bytes_per_s(conditions, start, machine)

    def cost(settings: Settings) -> float:
        fast = bound_bytes_per_s(conditions, settings, machine) >= enough
        return memory_bytes(conditions, settings, machine) if fast else float("inf")

    by_name = {knob.name: knob for knob in space}
    found = []
    for command in by_name["command_max"].levels:
        # Small commands fill a path only if there are many.
        now = settle(space, {**start, "command_max": command, "commands": by_name["commands"].levels[-1]})
        while True:
            near = [settle(space, {**now, k.name: level}) for k in space if k.ordered for level in k.levels]
            better = min(near, key=cost)
            if cost(better) >= cost(now):
                break
            now = better
        found.append(now)
    return min([start, *found], key=cost)


def _of(settings: Settings, name: str) -> Value:
    return settings.get(name, AUTO)
