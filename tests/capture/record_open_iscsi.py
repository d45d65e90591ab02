"""Records `data/open-iscsi-tgt.pcapng` again: open-iscsi in a Debian guest, tgt on the host,
captured on loopback.

    PYTHONPATH=python .venv/bin/python -m tests.capture.record_open_iscsi

Needs root (tgt), QEMU, tgt and dumpcap (Debian package wireshark-common). The guest's user-mode
network terminates TCP on the host: iSCSI comes from the guest's kernel, TCP from QEMU and the host.
The data are zeros, so that the file compresses well.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.open_iscsi import OpenIscsi

from tests.peers.tgt import LUN, TARGET_NAME, tgt

CAPTURE = Path(__file__).parent / "data" / "open-iscsi-tgt.pcapng"
MIB = 1 << 20
# Immediate and unsolicited data up to tgt's FirstBurstLength of 64 KiB, R2Ts beyond.
WORK = """
set -e
echo 512 >/sys/block/{name}/queue/max_sectors_kb
dd if=/dev/zero of={disk} bs=4k count=4 oflag=direct 2>/dev/null
dd if=/dev/zero of={disk} bs=256k count=1 oflag=direct 2>/dev/null
dd if=/dev/zero of={disk} bs=512k count=1 oflag=direct 2>/dev/null
dd if={disk} of=/dev/null bs=4k count=4 iflag=direct 2>/dev/null
dd if={disk} of=/dev/null bs=256k count=1 iflag=direct 2>/dev/null
"""


async def work(portal: str) -> None:
    """Run the workload that is captured."""
    image = find_image()
    async with await Guest.boot(GuestSpec("recorded", image), await find_accelerator(image)) as guest:
        initiator = OpenIscsi(guest, "iqn.2026-01.org.hakaru:recorded")
        await initiator.begin()
        session = await initiator.log_in(portal, TARGET_NAME)
        disk = await session.disk(LUN)
        await guest.run(WORK.format(disk=disk, name=disk.removeprefix("/dev/")), timeout_s=240)
        await session.log_out()


def main(file: Path) -> None:
    """Record to `file`."""
    with tempfile.TemporaryDirectory() as folder, tgt(Path(folder), 64 * MIB) as target:
        port = target.portal.rpartition(":")[2]
        command = ["dumpcap", "-q", "-i", "lo", "-f", f"tcp port {port}", "-w", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as capture:
            assert capture.stderr is not None
            # dumpcap names the file once it captures.
            while b"File:" not in capture.stderr.readline():
                assert capture.poll() is None, "dumpcap does not run"
            try:
                asyncio.run(work(target.portal))
            finally:
                capture.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CAPTURE)
