"""open-iscsi in a guest: the Linux kernel's initiator, with iscsid and iscsiadm as Debian ships
them.

    initiator = OpenIscsi(guest, "iqn.2026-01.org.hakaru:vm-1")
    await initiator.begin()
    session = await initiator.log_in("10.77.0.1:3260", target_name)
    disk = await session.disk(0)                       /dev/sda
    await session.log_out()
    await initiator.end()

A portal on the loopback of this machine is reached through the guest's network of QEMU, at
`command.HOST_ADDRESS`. A refusal raises GuestCommandError with the output of open-iscsi.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from hakaru.guest.command import HOST_ADDRESS
from hakaru.guest.machine import Guest

# A login takes a few round trips, but under TCG on a busy machine each program takes seconds to
# start.
LOGIN_TIMEOUT_S = 90.0
_DISK_TIMEOUT_S = 30
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Chap:
    """Credentials for open-iscsi. `name_in`, `secret_in`: those of the target, for mutual CHAP."""

    name: str
    secret: str
    name_in: str = ""
    secret_in: str = ""
    algorithms: str = ""
    """Algorithms in order of preference, for `node.session.auth.chap_algs`; empty: open-iscsi's
    default.
    """

    def settings(self) -> dict[str, str]:
        """Return the records of a node."""
        values = {"node.session.auth.authmethod": "CHAP"}
        values |= {"node.session.auth.username": self.name, "node.session.auth.password": self.secret}
        if self.name_in:
            values |= {"node.session.auth.username_in": self.name_in, "node.session.auth.password_in": self.secret_in}
        if self.algorithms:
            values["node.session.auth.chap_algs"] = self.algorithms
        return values


class OpenIscsi:
    """The initiator of a guest. `initiator_name`: that of sessions without a name of their own."""

    def __init__(self, guest: Guest, initiator_name: str) -> None:
        self.guest = guest
        self.initiator_name = initiator_name
        self._sessions = 0

    async def begin(self) -> None:
        """Start iscsid."""
        name = shlex.quote(f"InitiatorName={self.initiator_name}")
        await self.guest.run(f"echo {name} >/etc/iscsi/initiatorname.iscsi; iscsid", timeout_s=LOGIN_TIMEOUT_S)

    async def end(self) -> None:
        """Stop iscsid after all logouts."""
        await self.guest.run("iscsiadm -k 0", timeout_s=LOGIN_TIMEOUT_S)

    async def discover(self, portal: str) -> list[tuple[str, str]]:
        """Return portal and name of each target that SendTargets lists, as known to the target."""
        output = await self.guest.run(
            f"iscsiadm -m discovery -t sendtargets -p {_seen_from_guest(portal)} -o nonpersistent -P 0",
            timeout_s=LOGIN_TIMEOUT_S,
        )
        return [(p, name) for p, name in re.findall(r"^(\S+),\d+ (\S+)$", output, re.MULTILINE)]

    async def log_in(
        self,
        portal: str,
        target_name: str,
        chap: Chap | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        initiator_name: str = "",
    ) -> IscsiSession:
        """Log in and return the session. `settings`: of iscsid.conf
        (`node.conn[0].iscsi.HeaderDigest`). `initiator_name`: that of the session; empty: that of
        the guest.

        Each session has an interface record of its own, so that several to one target are possible.
        Raises GuestCommandError with the output of iscsiadm if the target refuses.
        """
        # Discovery would return the loopback's address, which differs inside the guest.
        name = f"session-{self._sessions}"
        self._sessions += 1
        interface = f"iscsiadm -m iface -I {name}"
        node = f"iscsiadm -m node -T {shlex.quote(target_name)} -p {_seen_from_guest(portal)} -I {name}"
        values = dict(settings or {}) | (chap.settings() if chap is not None else {})
        own_name = {"iface.transport_name": "tcp"}
        own_name |= {"iface.initiatorname": initiator_name} if initiator_name else {}
        script = ["set -e", f"{interface} -o new >/dev/null", f"{interface} {_update(own_name)}"]
        script.append(f"{node} -o new >/dev/null")
        if values:
            script.append(f"{node} {_update(values)}")
        script.append(f"{node} --login")
        await self.guest.run("\n".join(script), timeout_s=LOGIN_TIMEOUT_S)
        return IscsiSession(self.guest, name, node)

    async def log_out_all(self) -> None:
        """End all sessions, and delete all records."""
        await self.guest.run(
            "iscsiadm -m session >/dev/null 2>&1 && iscsiadm -m node -u >/dev/null; iscsiadm -m node -o delete; "
            "rm -rf /etc/iscsi/ifaces /var/lib/iscsi/ifaces; ! iscsiadm -m session",
            timeout_s=LOGIN_TIMEOUT_S,
        )


class IscsiSession:
    """One session of the guest's kernel. Created by `OpenIscsi.log_in`."""

    def __init__(self, guest: Guest, interface: str, node: str) -> None:
        self.guest = guest
        self.interface = interface
        """Name of its interface record, by which the kernel lists the session."""
        self._node = node

    async def disk(self, lun: int) -> str:
        """Return `/dev/sdX` of a LUN after the kernel has found it."""
        script = f"""
        for i in $(seq {_DISK_TIMEOUT_S * 5}); do
            for session in /sys/class/iscsi_session/session*; do
                [ "$(cat "$session/ifacename" 2>/dev/null)" = {self.interface} ] || continue
                for found in "$session"/device/target*/*:{lun}/block/sd*; do
                    [ -b "/dev/${{found##*/}}" ] && echo "/dev/${{found##*/}}" && exit 0
                done
            done
            usleep 200000
        done
        echo "no LUN {lun} was found; there are:"; ls /sys/class/scsi_device; exit 1
        """
        return (await self.guest.run(script, timeout_s=2 * _DISK_TIMEOUT_S)).strip()

    async def log_out(self) -> None:
        """End the session and delete the records."""
        await self.guest.run(
            f"set -e\n{self._node} --logout\n{self._node} -o delete\niscsiadm -m iface -I {self.interface} -o delete",
            timeout_s=LOGIN_TIMEOUT_S,
        )


def _update(values: Mapping[str, str]) -> str:
    """Return the arguments of iscsiadm that set records."""
    pairs = " ".join(f"-n {shlex.quote(name)} -v {shlex.quote(value)}" for name, value in values.items())
    return f"-o update {pairs} >/dev/null"


def _seen_from_guest(portal: str) -> str:
    host, _, port = portal.rpartition(":")
    return f"{HOST_ADDRESS if host == _LOOPBACK else host}:{port}"
