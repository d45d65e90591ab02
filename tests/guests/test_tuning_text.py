"""Configuration text of `hakaru tune` in a guest: open-iscsi accepts its lines, and so does the
guest's kernel.
"""

from __future__ import annotations

import re
import shlex

from hakaru.guest.machine import Guest
from hakaru.tune.advice import Block, Names, blocks
from hakaru.tune.closed_form import suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Machine, changed, settle, space_of
from hakaru.tune.start import TODAY

from tests.guests.conftest import Run
from tests.guests.disk import open_iscsi
from tests.peers.array import MIB, TARGET_NAME, array, lu

MACHINE = Machine(("cubic", "reno"))


def advised(portal: str) -> dict[str, Block]:
    """Return the text for writes over 20 ms, with every knob changed that has a line for the
    initiator.
    """
    conditions = Conditions(20_000_000, 0.0, 10**9, 4 << 20, "write", None)
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    more = {"commands": 64, "command_max": 1 << 20, "max_outstanding_r2t": 4, "congestion_control": "reno"}
    settings = settle(space, {**suggest(conditions, space, MACHINE), **more})
    turned = [knob.name for knob in changed(space, settings)]
    text_blocks = blocks(conditions, settings, turned, MACHINE, Names(TARGET_NAME, portal, "1", "sda"))
    return {block.name: block for block in text_blocks}


def pairs(lines: tuple[str, ...]) -> dict[str, str]:
    """Return the `key = value` lines, without comments."""
    return dict(re.split(r" = ", line, maxsplit=1) for line in lines if not line.startswith("#"))  # type: ignore[misc]


async def record_of(guest: Guest, node: str) -> dict[str, str]:
    output = await guest.run(f"{node} -o show")
    return dict(re.findall(r"^(\S+) = (.*)$", output, re.MULTILINE))


def test_open_iscsi_accepts_its_lines_and_logs_in_with_them(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB)) as storage:
            async with open_iscsi(guest) as initiator:
                portal = "10.0.2.2:" + storage.portal.rpartition(":")[2]
                node = f"iscsiadm -m node -T {TARGET_NAME} -p {portal}"
                text_blocks = advised(portal)
                conf, expected = "/etc/iscsi/iscsid.conf", pairs(text_blocks["open-iscsi-conf"].lines)
                # The shipped settings are those that the study long-distance calls today's
                # defaults.
                await guest.run(f"{node} -o new >/dev/null")
                before, defaults = await record_of(guest, node), TODAY
                assert before["node.conn[0].tcp.window_size"] == str(defaults.send_initiator)
                assert before["node.session.queue_depth"] == str(defaults.commands)
                receives = before["node.conn[0].iscsi.MaxRecvDataSegmentLength"]
                assert receives == str(defaults.max_recv_initiator)
                # Text for a target that is already known.
                for line in text_blocks["open-iscsi-node"].lines:
                    await guest.run(line)
                assert expected.items() <= (await record_of(guest, node)).items()
                await guest.run(f"{node} -o delete && cp {conf} /tmp/iscsid.conf")
                # Text for targets discovered later.
                text = shlex.quote(text_blocks["open-iscsi-conf"].text)
                try:
                    await guest.run(f"printf '%s' {text} >>{conf}")
                    await guest.run(f"{node} -o new >/dev/null")
                    assert expected.items() <= (await record_of(guest, node)).items()
                    await guest.run(f"{node} -o delete")
                    logged_in = await initiator.log_in(storage.portal, TARGET_NAME)
                    session = await guest.run("iscsiadm -m session -P 2")
                    assert "InitialR2T: No" in session, session
                    disk = (await logged_in.disk(0)).removeprefix("/dev/")
                    (line,) = [comment for comment in text_blocks["queue"].lines if comment.startswith("#")]
                    command = re.search(r"echo \d+ > \S+", line)
                    assert command is not None
                    await guest.run(command[0].replace("sda", disk))
                    max_sectors = await guest.run(f"cat /sys/block/{disk}/queue/max_sectors_kb")
                    assert max_sectors.strip() == "1024"
                    await logged_in.log_out()
                finally:
                    await guest.run(f"cp /tmp/iscsid.conf {conf}")

    run(work())


def test_kernel_accepts_its_sysctl_lines(guest: Guest, run: Run) -> None:
    async def work() -> None:
        text_blocks = advised("192.0.2.1:3260")
        for name in ("sysctl-initiator", "sysctl-target"):
            block = text_blocks[name]
            keys = pairs(block.lines)
            before = {key: (await guest.run(f"sysctl -n {key}")).strip() for key in keys}
            await guest.run(f"printf '%s' {shlex.quote(block.text)} >/tmp/sysctl.conf && sysctl -p /tmp/sysctl.conf")
            found_values = {key: (await guest.run(f"sysctl -n {key}")).split() for key in keys}
            for key, value in before.items():
                await guest.run(f"sysctl -w {shlex.quote(f'{key}={value}')}")
            assert found_values == {key: value.split() for key, value in keys.items()}

    run(work())
