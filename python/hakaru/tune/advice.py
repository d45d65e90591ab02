"""Configuration text that applies a setting to open-iscsi, LIO, tgt and Linux. Pure.

The names come from the projects' own documentation: iscsid.conf and the records of open-iscsi 2.1
(`iscsiadm -m node --op show`), `targetcli … set parameter` of LIO (its configfs parameters), tgt's
README.iscsi, Linux's ip-sysctl.rst and queue-sysfs.rst. A key that both sides negotiate must be set
on both: the smaller number takes effect, and so does `InitialR2T=Yes` or `ImmediateData=No` of
either side (RFC 7143 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import AUTO, Machine, Settings, Value

INITIATOR_KEYS = {
    "initial_r2t": "node.session.iscsi.InitialR2T",
    "immediate_data": "node.session.iscsi.ImmediateData",
    "first_burst_length": "node.session.iscsi.FirstBurstLength",
    "max_burst_length": "node.session.iscsi.MaxBurstLength",
}
TARGET_KEYS = {
    "initial_r2t": "InitialR2T",
    "immediate_data": "ImmediateData",
    "first_burst_length": "FirstBurstLength",
    "max_burst_length": "MaxBurstLength",
    "max_outstanding_r2t": "MaxOutstandingR2T",
}
SEGMENT = "max_recv_data_segment_length"
GRANTED_BYTES = 212_992
"""Buffer in bytes that a socket can request on every Linux since 3.2 (net.core.wmem_max; 4 MiB
since 6.18).
"""
QUEUE_DEPTH_MAX = 1024
"""Largest queue_depth of open-iscsi. Its cmds_max must be a power of two, at most 2048."""
LIO_COMMANDS = 64
"""Commands that LIO accepts per session by default (`default_cmdsn_depth`)."""
LIO_ACL = "# an ACL that exists keeps its depth (cmdsn_depth in configfs) until it is created again"


@dataclass(frozen=True)
class Block:
    """Lines for one program. `name`: `open-iscsi-conf`, `open-iscsi-node`, `lio`, `tgt`,
    `sysctl-initiator`, `sysctl-target`, `queue`. `file`: where they belong; empty for commands.
    """

    name: str
    file: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Text of the block for a shell or a file."""
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Names:
    """Placeholders in the text for the reader's own names and addresses."""

    target: str = "IQN-OF-THE-TARGET"
    portal: str = "ADDRESS:3260"
    tid: str = "1"
    device: str = "sdX"


def blocks(
    conditions: Conditions,
    settings: Settings,
    changed_knobs: Iterable[str],
    machine: Machine,
    names: Names | None = None,
) -> list[Block]:
    """Return the text for every program with settings to change: the knobs named in `changed_knobs`
    and the limits that must be raised for them.
    """
    changed_names, placeholders = set(changed_knobs), names or Names()
    chosen = {name: value for name, value in settings.items() if name in changed_names}
    writes = conditions.op == "write"
    initiator = _initiator(chosen, writes)
    target = _target(chosen, writes)
    node = f"iscsiadm -m node -T {placeholders.target} -p {placeholders.portal} --op update"
    candidates = [
        Block(
            "open-iscsi-conf",
            "/etc/iscsi/iscsid.conf",
            (*_offered(chosen), *(f"{k} = {v}" for k, v in initiator.items())),
        ),
        Block("open-iscsi-node", "", tuple(f"{node} -n {_quoted(k)} -v {v}" for k, v in initiator.items())),
        Block(
            "lio",
            "",
            (
                *(f"targetcli /iscsi/{placeholders.target}/tpg1 set {k}={v}" for k, v in _lio(target, chosen)),
                *([LIO_ACL] if int(chosen.get("commands", 0)) > LIO_COMMANDS else []),
            ),
        ),
        Block(
            "tgt",
            "",
            tuple(
                f"tgtadm --lld iscsi --mode target --op update --tid {placeholders.tid} --name {k} --value {v}"
                for k, v in target.items()
            ),
        ),
        Block("sysctl-initiator", SYSCTL, tuple(_sysctl(chosen, machine, writes, initiator=True))),
        Block("sysctl-target", SYSCTL, tuple(_sysctl(chosen, machine, writes, initiator=False))),
        Block("queue", UDEV, tuple(_queue(chosen, placeholders.device))),
    ]
    return [block for block in candidates if block.lines]


SYSCTL = "/etc/sysctl.d/90-iscsi.conf"
UDEV = "/etc/udev/rules.d/90-iscsi.rules"


def _offered(chosen: Settings) -> list[str]:
    """Return a comment if a setting cannot be applied: open-iscsi offers one R2T, whatever its
    record `node.session.iscsi.MaxOutstandingR2T` says (`add_params_normal_session` in
    usr/login.c).
    """
    wanted = int(chosen.get("max_outstanding_r2t", 1))
    return [f"# not with open-iscsi, which always offers MaxOutstandingR2T=1: {wanted}"] if wanted > 1 else []


def _initiator(chosen: Settings, writes: bool) -> dict[str, str]:
    settings = {key: _text(chosen[name]) for name, key in INITIATOR_KEYS.items() if name in chosen}
    if SEGMENT in chosen and not writes:
        settings["node.conn[0].iscsi.MaxRecvDataSegmentLength"] = _text(chosen[SEGMENT])
    if "commands" in chosen:
        commands = int(chosen["commands"])
        settings["node.session.queue_depth"] = str(min(commands, QUEUE_DEPTH_MAX))
        settings["node.session.cmds_max"] = str(min(2048, max(128, 1 << commands.bit_length())))
    buffer = chosen.get("send_buffer" if writes else "receive_buffer")
    if buffer is not None:
        # One number for SO_SNDBUF and SO_RCVBUF; 0 leaves both to the kernel.
        settings["node.conn[0].tcp.window_size"] = "0" if buffer == AUTO else str(buffer)
    return settings


def _target(chosen: Settings, writes: bool) -> dict[str, str]:
    settings = {key: _text(chosen[name]) for name, key in TARGET_KEYS.items() if name in chosen}
    if SEGMENT in chosen and writes:
        settings["MaxRecvDataSegmentLength"] = _text(chosen[SEGMENT])
    return settings


def _lio(target: Mapping[str, str], chosen: Settings) -> list[tuple[str, str]]:
    """Return LIO's parameters. More than `LIO_COMMANDS` commands per session also need an
    attribute, which only ACLs created afterwards take.
    """
    lines = [(f"parameter {key}", value) for key, value in target.items()]
    commands = int(chosen.get("commands", 0))
    return [*lines, ("attribute default_cmdsn_depth", str(commands))] if commands > LIO_COMMANDS else lines


def _sysctl(chosen: Settings, machine: Machine, writes: bool, *, initiator: bool) -> list[str]:
    """Return the kernel settings of a node.

    The initiator requests its buffer itself, and `*mem_max` must allow the size. The kernel sizes
    the target's sockets up to `tcp_*mem`, which includes the overhead, so its limit is twice the
    size. The settings affect every connection of the node, so none lowers `*mem_max` below the
    kernel's default.
    """
    lines = []
    sends = writes == initiator
    name, direction = ("send_buffer", "w") if sends else ("receive_buffer", "r")
    buffer = chosen.get(name)
    if buffer is not None and buffer != AUTO:
        size = int(buffer)
        if initiator and size > GRANTED_BYTES:
            lines.append("# minimum values; keep a larger value that is already set")
            lines += [f"net.core.{prefix}mem_max = {size}" for prefix in ("w", "r")]
        elif not initiator:
            start = 16_384 if sends else 131_072
            lines.append("# limits every connection of this machine, not only those of this target")
            lines.append(f"net.ipv4.tcp_{direction}mem = 4096 {start} {2 * size}")
    elif buffer == AUTO:
        size_max = machine.send_buffer_auto_max if sends else machine.receive_buffer_auto_max
        start = 16_384 if sends else 131_072
        lines.append(f"net.ipv4.tcp_{direction}mem = 4096 {start} {size_max}")
    if "congestion_control" in chosen and sends:
        lines.append(f"net.ipv4.tcp_congestion_control = {chosen['congestion_control']}")
    if "slow_start_after_idle" in chosen and sends:
        lines.append(f"net.ipv4.tcp_slow_start_after_idle = {int(bool(chosen['slow_start_after_idle']))}")
    return lines


def _queue(chosen: Settings, device: str) -> list[str]:
    if "command_max" not in chosen:
        return []
    kib = int(chosen["command_max"]) >> 10
    return [
        f"# to set {device} now: echo {kib} > /sys/block/{device}/queue/max_sectors_kb (at most its max_hw_sectors_kb)",
        'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sd*", ENV{ID_PATH}=="*-iscsi-*", '
        f'ATTR{{queue/max_sectors_kb}}="{kib}"',
    ]


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return str(value)


def _quoted(name: str) -> str:
    """Return a name for a shell, which would expand unquoted brackets."""
    return f"'{name}'" if "[" in name else name


def describe(blocks: Iterable[Block]) -> list[Mapping[str, object]]:
    """Return a JSON object."""
    return [{"name": block.name, "file": block.file, "text": block.text} for block in blocks]
