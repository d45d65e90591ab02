"""What `hakaru tune` says to set, set in a guest: open-iscsi takes its lines, and so does the
guest's kernel.
"""

from __future__ import annotations

import re
import shlex

from hakaru.tune.advice import Block, Names, blocks
from hakaru.tune.closed_form import suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Machine, changed, settle, space_of
from hakaru.tune.start import TODAY

from tests.guests.conftest import Run
from tests.guests.disk import open_iscsi
from tests.guests.machine import Guest
from tests.peers.array import MIB, TARGET_NAME, array, lu

MACHINE = Machine(("cubic", "reno"))


def advised(portal: str) -> dict[str, Block]:
    """For writes over 20 ms; with every knob turned that has a line for the initiator."""
    conditions = Conditions(20_000_000, 0.0, 10**9, 4 << 20, "write", None)
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    more = {"commands": 64, "command_max": 1 << 20, "max_outstanding_r2t": 4, "congestion_control": "reno"}
    settings = settle(space, {**suggest(conditions, space, MACHINE), **more})
    turned = [knob.name for knob in changed(space, settings)]
    found = blocks(conditions, settings, turned, MACHINE, Names(TARGET_NAME, portal, "1", "sda"))
    return {block.name: block for block in found}


def pairs(lines: tuple[str, ...]) -> dict[str, str]:
    """`key = value` lines, without comments."""
    return dict(re.split(r" = ", line, maxsplit=1) for line in lines if not line.startswith("#"))  # type: ignore[misc]


async def record_of(guest: Guest, node: str) -> dict[str, str]:
    said = await guest.run(f"{node} -o show")
    return dict(re.findall(r"^(\S+) = (.*)$", said, re.MULTILINE))


def test_open_iscsi_takes_its_lines_and_logs_in_with_them(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB)) as storage:
            async with open_iscsi(guest) as initiator:
                portal = "10.0.2.2:" + storage.portal.rpartition(":")[2]
                node = f"iscsiadm -m node -T {TARGET_NAME} -p {portal}"
                found = advised(portal)
                conf, wanted = "/etc/iscsi/iscsid.conf", pairs(found["open-iscsi-conf"].lines)
                # As shipped: what the study long-distance calls today's defaults.
                await guest.run(f"{node} -o new >/dev/null")
                before, defaults = await record_of(guest, node), TODAY
                assert before["node.conn[0].tcp.window_size"] == str(defaults.send_initiator)
                assert before["node.session.queue_depth"] == str(defaults.commands)
                receives = before["node.conn[0].iscsi.MaxRecvDataSegmentLength"]
                assert receives == str(defaults.max_recv_initiator)
                # For a target that is known already.
                for line in found["open-iscsi-node"].lines:
                    await guest.run(line)
                assert wanted.items() <= (await record_of(guest, node)).items()
                await guest.run(f"{node} -o delete && cp {conf} /tmp/iscsid.conf")
                # For those to come.
                text = shlex.quote(found["open-iscsi-conf"].text)
                try:
                    await guest.run(f"printf '%s' {text} >>{conf}")
                    await guest.run(f"{node} -o new >/dev/null")
                    assert wanted.items() <= (await record_of(guest, node)).items()
                    await guest.run(f"{node} -o delete")
                    await initiator.log_in(storage.portal, TARGET_NAME)
                    session = await guest.run("iscsiadm -m session -P 2")
                    assert "InitialR2T: No" in session, session
                    disk = (await initiator.disk(0)).removeprefix("/dev/")
                    (line,) = [one for one in found["queue"].lines if one.startswith("#")]
                    command = re.search(r"echo \d+ > \S+", line)
                    assert command is not None
                    await guest.run(command[0].replace("sda", disk))
                    held = await guest.run(f"cat /sys/block/{disk}/queue/max_sectors_kb")
                    assert held.strip() == "1024"
                    await initiator.log_out()
                finally:
                    await guest.run(f"cp /tmp/iscsid.conf {conf}")

    run(work())


def test_kernel_takes_its_sysctl_lines(guest: Guest, run: Run) -> None:
    async def work() -> None:
        found = advised("192.0.2.1:3260")
        for name in ("sysctl-initiator", "sysctl-target"):
            block = found[name]
            keys = pairs(block.lines)
            before = {key: (await guest.run(f"sysctl -n {key}")).strip() for key in keys}
            await guest.run(f"printf '%s' {shlex.quote(block.text)} >/tmp/sysctl.conf && sysctl -p /tmp/sysctl.conf")
            held = {key: (await guest.run(f"sysctl -n {key}")).split() for key in keys}
            for key, value in before.items():
                await guest.run(f"sysctl -w {shlex.quote(f'{key}={value}')}")
            assert held == {key: value.split() for key, value in keys.items()}

    run(work())
