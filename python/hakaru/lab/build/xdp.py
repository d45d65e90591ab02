"""An XDP program that sends every frame of an interface out of another one.

The smallest forwarder that Linux has: the driver hands each frame to the program before the network
stack sees it. Loading it needs CAP_BPF (or CAP_SYS_ADMIN) outside any user namespace, so root.
"""

from __future__ import annotations

import os
import struct

from pyroute2 import IPRoute

from hakaru.system_calls import bpf

# linux/bpf.h
_BPF_MAP_CREATE, _BPF_MAP_UPDATE_ELEM, _BPF_PROG_LOAD = 0, 2, 5
_BPF_MAP_TYPE_DEVMAP = 14
_BPF_PROG_TYPE_XDP = 6
_BPF_FUNC_REDIRECT_MAP = 51
_PSEUDO_MAP_FD = 1


def redirect(socket: IPRoute, index: int, target_index: int) -> None:
    """Redirect the frames that an interface receives to another one. Both are in this thread's
    network namespace, and so is the netlink socket.

    Raises OSError or NetlinkError if the kernel refuses.
    """
    devices = bpf(_BPF_MAP_CREATE, "=IIII", _BPF_MAP_TYPE_DEVMAP, 4, 4, 1)
    try:
        key, value = struct.pack("=I", 0), struct.pack("=I", target_index)
        bpf(_BPF_MAP_UPDATE_ELEM, "=IIQQQ", devices, 0, key, value, 0)
        program = _program(devices)
        instructions = len(program) // 8
        loaded = bpf(_BPF_PROG_LOAD, "=IIQQ", _BPF_PROG_TYPE_XDP, instructions, program, b"GPL\0")
        try:
            # The interface keeps the program, which keeps the map.
            socket.link("set", index=index, xdp_fd=loaded)
        finally:
            os.close(loaded)
    finally:
        os.close(devices)


def _program(devices: int) -> bytes:
    """`return bpf_redirect_map(devices, 0, 0)`."""
    return b"".join(
        struct.pack("=BBhi", code, registers, 0, value)
        for code, registers, value in (
            (0x18, _PSEUDO_MAP_FD << 4 | 1, devices),  # r1 = devices, in two parts
            (0x00, 0, 0),
            (0xB7, 2, 0),  # r2 = 0
            (0xB7, 3, 0),  # r3 = 0
            (0x85, 0, _BPF_FUNC_REDIRECT_MAP),  # call
            (0x95, 0, 0),  # exit
        )
    )
