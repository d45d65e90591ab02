"""Runs in a real lab, which is built, checked, loaded and removed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hakaru.run.runner import SAME_SIGNAL_S
from hakaru.store import RunReader, stored_runs

from tests.run.conftest import Hakaru, until


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of processes that run with this folder of runs."""
    command_lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"HAKARU_RUNS={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                command_lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return command_lines


def test_small_study_runs_from_lab_to_report(hakaru: Hakaru, study: Path) -> None:
    study.write_text(study.read_text().replace("hosts: 1", "hosts: 2"))
    result = hakaru.run("run", str(study), "--json", "--report", "json", "--note", "first try")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [e["phase"] for e in events if e["event"] == "phase"] == ["lab", "check", "analysis", "report"]
    assert [run.note for run in stored_runs(hakaru.runs)] == ["first try"]
    reader = RunReader(hakaru.only_run())
    lab = reader.read("lab.json")
    assert {n["kind"] for n in lab["nodes"]} == {"host", "switch", "array"}
    assert len(lab["checks"]) == 2
    (first, *_) = reader.repetitions()
    kinds = sorted((e["engine"], e["node"]) for e in first["engines"])
    watched = {node for engine, node in kinds if engine == "watch"}
    assert watched == {n["name"] for n in lab["nodes"]}
    assert ("array", "array") in kinds
    samples = reader.samples(first["point"], first["repetition"]).to_pylist()
    assert {"lu/0", "port/0", "machine", "nic/eth0", "vms", "process"} <= {row["entity"] for row in samples}
    assert len({row["node"] for row in samples if row["entity"] == "machine"}) == 1
    for point in reader.read("summary.json")["points"]:
        assert point["origin"] == "emulated"
        # Two hosts share a link of 100 Mbit/s, which limits the reads.
        assert 0 < point["metrics"]["read_mb_per_s"]["mean"] < 12.5
        assert "bytes_not_conserved" not in {c["caveat"] for c in point["caveats"]}
    assert processes_of(hakaru.runs) == []


def test_study_with_tcp_watch_stores_the_series_of_both_ends(hakaru: Hakaru, study: Path) -> None:
    text = (
        study.read_text().replace("mixed], vms: [1, 3]", "mixed], vms: [3]").replace("repetitions: 2", "repetitions: 1")
    )
    text = text.replace("hosts: 1", "hosts: 2")
    study.write_text(text + "watch: {tcp_interval: 5 ms, tcp_trace: auto}\n")
    result = hakaru.run("run", str(study), "--only", "pattern=mixed", "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    directory = hakaru.only_run()
    assert [path.name for path in (directory / "tcp").iterdir()] == ["p01-1.parquet"]
    reader = RunReader(directory)
    (record,) = reader.repetitions()
    table = reader.tcp("p01", 1)
    assert table is not None
    rows = [row for row in table.to_pylist() if row["source"] == "sock_diag"]
    # Three sessions, each with one end at a host and one at the array. Each connection is recorded
    # only at its own ends.
    assert len({row["node"] for row in rows}) == 3
    ends = {(row["node"], row["local"], row["peer"]) for row in rows}
    at_hosts = {(local, peer) for node, local, peer in ends if node != "array"}
    assert at_hosts == {(peer, local) for node, local, peer in ends if node == "array"}
    assert len(at_hosts) == 3
    during = [row for row in rows if record["measure"]["start_ns"] <= row["at_ns"] < record["measure"]["end_ns"]]
    # Several readings of both ends of each session, also on a machine that reads late.
    readings = Counter((row["node"], row["local"], row["peer"]) for row in during)
    assert set(readings) == ends and min(readings.values()) > 5, readings
    watches = [e for e in record["engines"] if e["engine"] == "watch" and "tcp" in e["found"]]
    assert {e["node"] for e in watches} == {row["node"] for row in rows}
    for engine in watches:
        counted = sum(row["node"] == engine["node"] for row in table.to_pylist())
        lost_rows = sum(row["source"] == "lost" for row in table.to_pylist())
        assert engine["values"]["tcp_records"] <= counted + lost_rows
        assert engine["found"]["tcp"]["trace"] or engine["found"]["tcp"]["why_not_traced"]
    answer = hakaru.ask("query", "SELECT count(*) FROM tcp WHERE point = 'p01'")
    assert str(table.num_rows) in answer.stdout, answer


def test_ctrl_c_ends_with_exit_code_130_keeps_the_run_and_leaves_no_process(hakaru: Hakaru, study: Path) -> None:
    with hakaru.start("run", str(study), "--json", "--report", "none") as process:
        until(process, "repetition", 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    reader = RunReader(hakaru.only_run())
    assert reader.read("run.json")["status"] == "interrupted"
    assert len(reader.repetitions()) >= 1
    assert processes_of(hakaru.runs) == []


def test_sigterm_ends_with_exit_code_143(hakaru: Hakaru, study: Path) -> None:
    with hakaru.start("run", str(study), "--json", "--report", "none") as process:
        until(process, "sample", 1)
        process.terminate()
        assert process.wait(120) == 143
    assert RunReader(hakaru.only_run()).read("run.json")["status"] == "interrupted"


def test_killed_engine_ends_the_run_with_exit_code_7_and_resume_continues(hakaru: Hakaru, study: Path) -> None:
    measure_for(study, "4 s")
    with hakaru.start("run", str(study), "--only", "vms=1", "--json", "--report", "none") as process:
        until(process, "repetition", 1)
        until(process, "sample", 1)
        # Kill only one engine: the run ends the others when one ends, so a second kill may find no
        # process.
        (array,) = filter(listens, engines_of(hakaru.runs))
        os.kill(array, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 7, stderr
    assert "error: array on array was lost: ended by SIGKILL" in stderr
    resumed = hakaru.run("run", str(study), "--only", "vms=1", "--resume", "latest", "--report", "none")
    assert resumed.returncode in (0, 5), resumed.stderr
    assert len(RunReader(hakaru.only_run()).repetitions()) == 2


def measure_for(study: Path, time: str) -> None:
    """Set a measuring time in which even a busy machine reacts to an event during the load."""
    study.write_text(study.read_text().replace("time: 1 s", f"time: {time}"))


def engines_of(folder: Path) -> list[int]:
    """Return the engines that run for this folder of runs."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"HAKARU_RUNS={folder}".encode() in (process / "environ").read_bytes().split(b"\0")
            if ours and b"hakaru-engine" in (process / "cmdline").read_bytes().split(b"\0")[0]:
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


def listens(pid: int) -> bool:
    """Return whether a process listens for TCP connections, as only the array of a run does. A
    process that has ended does not listen.
    """
    state, inode, listening = 3, 9, "0A"
    try:
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        open_files = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return False
    return any(f"socket:[{row[inode]}]" in open_files for row in rows if row[state] == listening)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare(1) is not installed")
def test_full_disk_ends_with_exit_code_3_and_keeps_only_complete_repetitions(
    hakaru: Hakaru, study: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small-disk"
    small.mkdir()
    hakaru.runs = small / "runs"
    # A file system of 8 MiB that only this command sees. The test fills it through /proc/PID/root.
    mount = f'mount -t tmpfs -o size=8m none {small} && exec "$@"'
    hakaru.prefix = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c", mount, "sh"]
    with hakaru.start("run", str(study), "--json", "--report", "none") as process:
        until(process, "repetition", 1)
        # Keep the file system after the only namespace that mounts it has ended.
        disk = os.open(f"/proc/{process.pid}/root{small}", os.O_RDONLY | os.O_DIRECTORY)
        inside = Path(f"/proc/self/fd/{disk}")
        with (inside / "filler").open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 3, stderr
    assert "No space left on device" in stderr and "--resume" in stderr
    (directory,) = (inside / "runs").iterdir()
    stored = RunReader(directory).repetitions()
    assert len(stored) >= 1
    for record in stored:
        assert RunReader(directory).samples(record["point"], record["repetition"]).num_rows > 0
    assert list(directory.rglob(".*")) == []
    os.close(disk)


def test_impossible_lab_ends_with_exit_code_2_and_names_the_place(hakaru: Hakaru, study: Path) -> None:
    study.write_text(study.read_text().replace("hosts: 1", "hosts: 2000"))
    result = hakaru.ask("run", str(study))
    assert result.returncode == 2
    assert "study.yaml:8:10: lab.hosts: this lab cannot be built: 2000 hosts are more than 256" in result.stderr
    assert "hint:" in result.stderr


def test_run_needs_no_privilege(hakaru: Hakaru, study: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("started as root; tests/lab runs labs as an ordinary user too")
    result = hakaru.run("run", str(study), "--only", "vms=1", "--repetitions", "1", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    assert subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout.count("veth") == 0


def test_second_ctrl_c_ends_at_once_and_leaves_no_process(hakaru: Hakaru, study: Path) -> None:
    measure_for(study, "30 s")
    with hakaru.start("run", str(study), "--json", "--report", "none") as process:
        until(process, "sample", 1)
        # With stopped engines, a graceful end takes some seconds.
        for pid in engines_of(hakaru.runs):
            with contextlib.suppress(ProcessLookupError):  # an engine that has finished may have ended
                os.kill(pid, signal.SIGSTOP)
        code = None
        while code is None:
            # A process that gets both late, at the same time, takes them for one.
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(2 * SAME_SIGNAL_S)
    assert code == 130
    assert hakaru.only_run().suffix == ".partial", "a graceful end would have given the run its final name"
    assert processes_of(hakaru.runs) == []
