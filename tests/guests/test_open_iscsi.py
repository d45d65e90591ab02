"""The kernel's own initiator against the array: file systems on its LUs, written and verified."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hakaru.guest.machine import Guest, GuestCommandError
from hakaru.guest.open_iscsi import Chap

from tests.guests.conftest import Run
from tests.guests.disk import CHECK, INITIATOR_NAME, LONG_S, MAKE, disk_of, open_iscsi
from tests.peers.array import MIB, TARGET_NAME, array, lu

# Random writes of several sizes, each block with its checksum, read back from the array past the
# page cache.
FIO = (
    "fio --name=verified --filename=/mnt/file --size=16M --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 "
    "--iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1 --output-format=terse"
)
COMPLAINT = re.compile(r".*(?:error|abort|Sense Key|timing out).*", re.IGNORECASE)


def test_discovery_returns_the_target_and_login_creates_a_session(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB)) as storage:
            async with open_iscsi(guest) as initiator:
                assert await initiator.discover(storage.portal) == [(storage.portal, TARGET_NAME)]
                crc = {"node.conn[0].iscsi.HeaderDigest": "CRC32C", "node.conn[0].iscsi.DataDigest": "CRC32C"}
                session = await initiator.log_in(storage.portal, TARGET_NAME, settings=crc)
                listed = await guest.run("iscsiadm -m session -P 2")
                assert "HeaderDigest: CRC32C" in listed and "DataDigest: CRC32C" in listed, listed
                disk = await session.disk(0)
                assert (await guest.run(f"blockdev --getsize64 {disk}")).strip() == str(64 * MIB)
                await guest.run(
                    "dd if=/dev/urandom of=/tmp/a bs=64k count=16 2>/dev/null &&"
                    f" dd if=/tmp/a of={disk} bs=64k oflag=direct 2>/dev/null &&"
                    f" dd if={disk} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/a"
                )
                await session.log_out()
            values = storage.engine.stop()
            assert (values["logins"], values["protocol_errors"], values["rejects"]) == (2, 0, 0)

    run(work())


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_file_system_keeps_the_data_that_fio_verifies(guest: Guest, run: Run, tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        with array(lu(0, 320 * MIB, path=tmp_path / "lu")) as storage:
            await guest.run("dmesg -c >/dev/null")
            async with disk_of(guest, storage) as disk:
                await guest.run(MAKE[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt && {FIO}", timeout_s=LONG_S)
                # Unmounting and mounting again removes the data from the guest's memory.
                await guest.run(f"sha256sum /mnt/file >/tmp/sum && umount /mnt && mount {disk} /mnt", timeout_s=LONG_S)
                await guest.run("sha256sum -c /tmp/sum && umount /mnt", timeout_s=LONG_S)
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
            assert COMPLAINT.findall(await guest.run("dmesg")) == []
            assert storage.engine.stop()["protocol_errors"] == 0

    run(work())


# 12 to 255 bytes. The two secrets differ, as RFC 7143 requires.
SECRET, TARGET_SECRET = "what the guest knows", "what the array knows"
CHAP = {
    "users": [{"name": "vm-1", "secret": {"kind": "text", "text": SECRET}}],
    "target": {"name": "array", "secret": {"kind": "text", "text": TARGET_SECRET}},
    "rules": [{"initiator_name": INITIATOR_NAME, "user": "vm-1"}],
}


@pytest.mark.parametrize("algorithm", ["SHA3-256", "SHA256"])
def test_mutual_chap_with_the_right_secrets_logs_in(guest: Guest, run: Run, algorithm: str) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB), access=CHAP) as storage:
            async with open_iscsi(guest) as initiator:
                both = Chap("vm-1", SECRET, "array", TARGET_SECRET, algorithm)
                session = await initiator.log_in(storage.portal, TARGET_NAME, both)
                disk = await session.disk(0)
                await guest.run(f"dd if={disk} of=/dev/null bs=64k count=4 iflag=direct")
                await session.log_out()
            assert storage.engine.stop()["logins_refused"] == 0

    run(work())


@pytest.mark.parametrize(
    "chap",
    [None, Chap("vm-1", "not what it should be"), Chap("vm-1", SECRET, "array", "not the array's own")],
    ids=["no CHAP", "another secret", "an array that cannot prove itself"],
)
def test_login_without_the_right_secrets_is_refused(guest: Guest, run: Run, chap: Chap | None) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB), access=CHAP) as storage:
            async with open_iscsi(guest) as initiator:
                # Status 24: authorization failure. The guest's refusal of the array has the same
                # status.
                with pytest.raises(GuestCommandError, match=r"authorization failure|status 24"):
                    await initiator.log_in(storage.portal, TARGET_NAME, chap)
                assert "No active sessions" in await guest.run("iscsiadm -m session 2>&1 || true")

    run(work())
