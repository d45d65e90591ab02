"""open-iscsi in a guest: the Linux kernel's initiator, with iscsid and iscsiadm as Debian ships
them.

    initiator = OpenIscsi(guest, "iqn.2026-01.org.hakaru:vm-1")
    await initiator.begin()
    await initiator.log_in("127.0.0.1:3260", target_name)     the portal as reported by the
                                                              array's engine
    disk = await initiator.disk(0)                            /dev/sda
    await initiator.log_out()
    await initiator.end()

A refusal raises GuestCommandError with the output of open-iscsi.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from hakaru.guest.command import HOST_ADDRESS
from hakaru.guest.machine import Guest

# A login takes a few round trips, but under TCG on a busy machine each program takes seconds to
# start.
LOGIN_TIMEOUT_S = 90.0
_DISK_TIMEOUT_S = 30


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


class OpenIscsi:
    """An initiator with one session at a time."""

    def __init__(self, guest: Guest, initiator_name: str) -> None:
        self.guest = guest
        self.initiator_name = initiator_name
        self._node = ""

    async def begin(self) -> None:
        """Start iscsid."""
        name = shlex.quote(f"InitiatorName={self.initiator_name}")
        await self.guest.run(f"echo {name} >/etc/iscsi/initiatorname.iscsi; iscsid")

    async def end(self) -> None:
        """Stop iscsid after a logout."""
        await self.guest.run("iscsiadm -k 0")

    async def discover(self, portal: str) -> list[tuple[str, str]]:
        """Return portal and name of each target that SendTargets lists, as known to the target."""
        output = await self.guest.run(
            f"iscsiadm -m discovery -t sendtargets -p {_seen_from_guest(portal)} -o nonpersistent -P 0",
            timeout_s=LOGIN_TIMEOUT_S,
        )
        return [(p, name) for p, name in re.findall(r"^(\S+),\d+ (\S+)$", output, re.MULTILINE)]

    async def log_in(
        self, portal: str, target_name: str, chap: Chap | None = None, settings: dict[str, str] | None = None
    ) -> None:
        """Log in at a portal of the host's loopback. `settings`: of iscsid.conf
        (`node.conn[0].iscsi.HeaderDigest`).

        Raises GuestCommandError with the output of iscsiadm if the target refuses.
        """
        # Discovery would return the loopback's address, which differs inside the guest.
        self._node = f"iscsiadm -m node -T {shlex.quote(target_name)} -p {_seen_from_guest(portal)}"
        values = dict(settings or {})
        if chap is not None:
            values["node.session.auth.authmethod"] = "CHAP"
            values |= {"node.session.auth.username": chap.name, "node.session.auth.password": chap.secret}
            if chap.name_in:
                values |= {"node.session.auth.username_in": chap.name_in}
                values |= {"node.session.auth.password_in": chap.secret_in}
            if chap.algorithms:
                values["node.session.auth.chap_algs"] = chap.algorithms
        updates = [
            f"{self._node} -o update -n {shlex.quote(n)} -v {shlex.quote(v)} >/dev/null" for n, v in values.items()
        ]
        script = ["set -e", f"{self._node} -o new >/dev/null", *updates, f"{self._node} --login"]
        await self.guest.run("\n".join(script), timeout_s=LOGIN_TIMEOUT_S)

    async def log_out(self) -> None:
        """End the session and delete the target's record."""
        await self.guest.run(f"set -e\n{self._node} --logout\n{self._node} -o delete", timeout_s=LOGIN_TIMEOUT_S)

    async def disk(self, lun: int) -> str:
        """Return `/dev/sdX` of a LUN after the kernel has found it."""
        script = f"""
        for i in $(seq {_DISK_TIMEOUT_S * 5}); do
            for found in /sys/class/iscsi_session/session*/device/target*/*:{lun}/block/sd*; do
                [ -b "/dev/${{found##*/}}" ] && echo "/dev/${{found##*/}}" && exit 0
            done
            usleep 200000
        done
        echo "no LUN {lun} was found; there are:"; ls /sys/class/scsi_device; exit 1
        """
        return (await self.guest.run(script, timeout_s=2 * _DISK_TIMEOUT_S)).strip()

    async def rescan(self) -> None:
        """Let the kernel rescan the LUs for new sizes and new LUs."""
        await self.guest.run("iscsiadm -m session --rescan", timeout_s=LOGIN_TIMEOUT_S)


def _seen_from_guest(portal: str) -> str:
    host, _, port = portal.rpartition(":")
    if host != "127.0.0.1":
        raise ValueError(f"{portal} is not on the loopback: a guest does not reach it")
    return f"{HOST_ADDRESS}:{port}"
