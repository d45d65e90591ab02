"""Our array with the programs of libiscsi and QEMU."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.peers.array import MIB, array, iscsi_perf_iops, lu, need, run


def test_iscsi_ls_finds_the_target_and_its_lus() -> None:
    program = need("iscsi-ls", "libiscsi-bin")
    with array(lu(0, 64 * MIB), lu(7, 2048 * MIB)) as a:
        output = run(program, "-s", f"iscsi://{a.portal}")
        values = a.engine.stop()
    assert f"Target:iqn.2026-01.org.hakaru:peers Portal:{a.portal},1" in output
    assert "Lun:0    Type:DIRECT_ACCESS" in output
    assert "Lun:7    Type:DIRECT_ACCESS" in output
    assert values["protocol_errors"] == 0


@pytest.mark.parametrize(("depth", "blocks"), [(1, 8), (32, 8), (32, 2048)])
def test_iscsi_perf_reads_and_every_read_is_counted(depth: int, blocks: int) -> None:
    with array(lu(0, 256 * MIB)) as a:
        began = time.monotonic()
        iops = iscsi_perf_iops(a.url(), depth, blocks)
        elapsed_s = time.monotonic() - began
        values = a.engine.stop()
    assert iops > 0
    # iscsi-perf averages over a time of its own, one second at least, and reads on until it is
    # ended.
    assert 0.99 * iops <= values["reads"] <= 1.5 * iops * elapsed_s + 2 * depth
    # iscsi-perf shortens a read that would go beyond the last block.
    assert values["read_bytes"] == pytest.approx(values["reads"] * blocks * 512, rel=0.02)
    assert values["logins"] == values["logouts"] == 1


@pytest.mark.alone
def test_modelled_drives_delay_reads_by_milliseconds() -> None:
    model = {"kind": "preset", "name": "jdsf-2011"}
    with array(lu(0, 1024 * MIB, placement={"group": 0, "offset_bytes": 0}), model=model) as a:
        iops = iscsi_perf_iops(a.url(), 1, 8, seconds=2)
        a.engine.stop()
    # With one read at a time, a drive of 15 000 rpm needs 2 ms for half a turn and at most 8 ms for
    # a seek and a turn.
    assert 100 <= iops <= 500


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Write a file of 40 MiB with random data, zeros and holes."""
    path = tmp_path / "source.raw"
    noise = random.Random(20261121)
    with path.open("wb") as file:
        file.write(noise.randbytes(9 * MIB))
        file.seek(20 * MIB)
        file.write(bytes(2 * MIB) + noise.randbytes(5 * MIB + 512))
        file.truncate(40 * MIB)
    return path


def _qemu_with_iscsi() -> str:
    program = need("qemu-img", "qemu-utils")
    if "iscsi" not in run(program, "--help"):
        pytest.skip("qemu-img has no iscsi driver (Debian package qemu-block-extra)")
    return program


@pytest.mark.parametrize("store", ["memory", "file"])
def test_qemu_img_converts_to_an_lu_and_back_and_finds_them_equal(image: Path, tmp_path: Path, store: str) -> None:
    qemu_img = _qemu_with_iscsi()
    backing = tmp_path / "lu.raw" if store == "file" else None
    copy = tmp_path / "back.raw"
    with array(lu(0, 40 * MIB, backing)) as a:
        run(qemu_img, "convert", "-n", "-f", "raw", "-O", "raw", image, a.url())
        run(qemu_img, "compare", "-f", "raw", "-F", "raw", image, a.url())
        run(qemu_img, "convert", "-f", "raw", "-O", "raw", a.url(), copy)
        values = a.engine.stop()
    assert copy.read_bytes() == image.read_bytes()
    assert values["write_bytes"] >= 14 * MIB
    assert values["protocol_errors"] == 0
    if backing is not None:
        assert backing.read_bytes() == image.read_bytes()


def test_lu_in_a_file_keeps_its_data_if_the_array_is_killed_after_a_flush(image: Path, tmp_path: Path) -> None:
    qemu_img = _qemu_with_iscsi()
    backing = tmp_path / "lu.raw"
    with array(lu(0, 40 * MIB, backing)) as a:
        run(qemu_img, "convert", "-n", "-f", "raw", "-O", "raw", image, a.url())
        os.kill(a.engine.process.pid, signal.SIGKILL)
    with array(lu(0, 40 * MIB, backing)) as a:
        run(qemu_img, "compare", "-f", "raw", "-F", "raw", image, a.url())
        a.engine.stop()


def test_lu_on_a_full_file_system_refuses_writes_and_the_array_keeps_serving(image: Path, tmp_path: Path) -> None:
    qemu_img = _qemu_with_iscsi()
    folder = tmp_path / "small"
    folder.mkdir()
    script = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    inside = (need("unshare", "util-linux"), "-Urm", "sh", "-c", script, str(folder))
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("user namespaces are forbidden here")
    with array(lu(0, 40 * MIB, folder / "lu.raw"), inside=inside) as a:
        with pytest.raises(AssertionError, match=r"(?i)error|space"):
            run(qemu_img, "convert", "-n", "-f", "raw", "-O", "raw", image, a.url())
        # Data written before the file system was full can still be read.
        assert iscsi_perf_iops(a.url(), 4, 8) > 0
        values = a.engine.stop()
    assert 0 < values["write_bytes"] <= 4 * MIB


def test_read_only_lu_can_be_read_and_refuses_writes(image: Path) -> None:
    qemu_img = _qemu_with_iscsi()
    with array(lu(0, 40 * MIB, read_only=True)) as a:
        with pytest.raises(AssertionError, match=r"(?i)read-?only|write protect|permission"):
            run(qemu_img, "convert", "-n", "-f", "raw", "-O", "raw", image, a.url())
        values = a.engine.stop()
    assert values["write_bytes"] == 0


def test_the_array_ends_cleanly_under_load() -> None:
    program = need("iscsi-perf", "libiscsi-bin")
    with array(lu(0, 256 * MIB)) as a:
        a.engine.send({"type": "start", "at_ns": 0})
        load = subprocess.Popen(
            [program, "-r", "-m", "32", "-b", "8", "-t", "60", a.url()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while sum(e["reads"] for n, e in a.engine.wait_for("sample")["counters"].items() if n == "lu/0") == 0:
                pass
            values = a.engine.stop()
        finally:
            load.kill()
            load.wait()
    assert values["reads"] > 0
