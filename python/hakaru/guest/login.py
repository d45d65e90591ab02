"""Logins of a guest's kernel, and the disks behind them. Pure.

`hakaru.guest.open_iscsi` makes the logins; a kind of study derives them from its load.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakaru.engine import contract
from hakaru.guest.multipath import KernelMultipath

QUEUE_DEPTH_MAX = 1024
"""Largest queue_depth of open-iscsi."""
COMMANDS_MIN, COMMANDS_MAX = 32, 2048
"""Bounds of its cmds_max, which must be a power of two. Linux refuses less than 16, and 16 leaves a
single SCSI command.
"""
MANAGEMENT_COMMANDS = 15
"""Tasks of cmds_max that Linux reserves (ISCSI_MGMT_CMDS_MAX of include/scsi/libiscsi.h)."""


@dataclass(frozen=True)
class KernelLogin:
    """One session of open-iscsi."""

    portal: str
    target_name: str
    initiator_name: str
    settings: tuple[tuple[str, str], ...] = ()
    """Records of the node (`node.session.queue_depth`), and their values."""
    window_bytes: int | None = None
    """Buffers of its socket that the kernel must allow. None: the default of open-iscsi, as far as
    a stock kernel allows it.
    """


@dataclass(frozen=True)
class PathTimers:
    """Timers of a session, seconds."""

    nop_interval_s: int
    """Silence of the target after which it is pinged."""
    nop_timeout_s: int
    recovery_s: int
    """Time after the loss of a session for which its commands wait for the next one. 0: none."""
    login_timeout_s: int

    def settings(self) -> dict[str, str]:
        """Return the records of a node."""
        return {
            "node.conn[0].timeo.noop_out_interval": str(self.nop_interval_s),
            "node.conn[0].timeo.noop_out_timeout": str(self.nop_timeout_s),
            "node.session.timeo.replacement_timeout": str(self.recovery_s),
            "node.conn[0].timeo.login_timeout": str(self.login_timeout_s),
        }


@dataclass(frozen=True)
class KernelDisk:
    """A disk behind a session, and the limits of its queue. None: those of the kernel."""

    login: KernelLogin
    lun: int
    command_bytes_max: int | None = None
    """Longest command, bytes: `max_sectors_kb`."""
    command_timeout_s: int | None = None
    other_logins: tuple[KernelLogin, ...] = ()
    """Sessions of further paths to the LU, which `multipath` joins."""
    multipath: KernelMultipath | None = None
    """None: the disk of the one session is used as it is."""

    @property
    def logins(self) -> tuple[KernelLogin, ...]:
        """The sessions of all paths, the first one first."""
        return (self.login, *self.other_logins)


def open_iscsi_settings(
    login: contract.LoginKeys,
    *,
    lu_commands: int | None = None,
    session_commands: int | None = None,
    window_bytes: int | None = None,
    timers: PathTimers | None = None,
) -> dict[str, str]:
    """Return the records of open-iscsi for login keys and limits. None: the default of open-iscsi.

    `lu_commands`: outstanding per LU. `session_commands`: open-iscsi's own limit per session,
    rounded up to a power of two, as it demands; SCSI commands have `MANAGEMENT_COMMANDS` less.
    `window_bytes`: buffers of the socket, in both directions.
    """
    settings = {
        "node.session.iscsi.InitialR2T": _flag(login.initial_r2t),
        "node.session.iscsi.ImmediateData": _flag(login.immediate_data),
        "node.session.iscsi.FirstBurstLength": str(login.first_burst_length),
        "node.session.iscsi.MaxBurstLength": str(login.max_burst_length),
        "node.conn[0].iscsi.MaxRecvDataSegmentLength": str(login.max_recv_data_segment_length),
        "node.conn[0].iscsi.HeaderDigest": _digest(login.header_digest),
        "node.conn[0].iscsi.DataDigest": _digest(login.data_digest),
    }
    if lu_commands is not None:
        settings["node.session.queue_depth"] = str(min(lu_commands, QUEUE_DEPTH_MAX))
    if session_commands is not None:
        rounded = 1 << (session_commands - 1).bit_length()
        settings["node.session.cmds_max"] = str(min(COMMANDS_MAX, max(COMMANDS_MIN, rounded)))
    if window_bytes is not None:
        settings["node.conn[0].tcp.window_size"] = str(window_bytes)
    return settings | (timers.settings() if timers is not None else {})


def _flag(value: bool) -> str:
    return "Yes" if value else "No"


def _digest(wanted: bool) -> str:
    return "CRC32C,None" if wanted else "None"
