"""Runs whose load comes from several machines: two servers of OpenSSH on loopback stand for two
machines, one of them with a clock of its own. The array is ours, on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine
from hakaru.store import RunReader

from tests.cli.command import pages_of
from tests.peers.sshd import Sshd, client, sshd
from tests.run.conftest import Hakaru, LoopbackArray, until

MEASURED = (0, 5)
"""Exit codes of a run with all its results: on a busy machine, a point may be invalid."""
MOVED_S = 1000
ENGINE_ENDS_S = 15


@dataclass
class Machines:
    """Two machines, `kvm-1` and `kvm-2`, and a site that uses them."""

    folder: Path
    servers: dict[str, Sshd]
    engines: dict[str, Path]
    array: LoopbackArray
    hosts: list[dict[str, str]] = field(default_factory=list)

    def site(self, **changed: Any) -> Path:
        """Write a site file. `changed`: fields of `kvm-2` that differ."""
        hosts = [{"name": name, "ssh": name, "engine": str(path)} for name, path in self.engines.items()]
        hosts[1] |= changed
        lu = {"portal": self.array.portal, "target_name": self.array.target_name, "lun": 0, "expendable": True}
        path = self.folder / "site.yaml"
        path.write_text(json.dumps({"format": 1, "name": "x", "lus": [lu], "load_hosts": [*self.hosts, *hosts]}))
        return path

    def running(self) -> list[str]:
        """Return the command lines of engines that run on the machines."""
        programs = tuple(f"{path} " for path in self.engines.values())
        return [line for line in command_lines() if line.startswith(programs)]

    def wait_until_idle(self) -> None:
        """Wait until no engine and no SSH client is left; fail after a time-out."""
        deadline = time.monotonic() + ENGINE_ENDS_S
        client = f"{self.folder}/client/config "
        while left := [*self.running(), *(line for line in command_lines() if client in line)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


def command_lines() -> Iterator[str]:
    """Yield the command line of every process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


@pytest.fixture
def machines(tmp_path: Path, array: LoopbackArray, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Run two servers. The path of each machine's engine distinguishes its processes."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(sshd(tmp_path / name)) for name in ("kvm-1", "kvm-2")}
        engines = {name: tmp_path / f"engine-of-{name}" for name in servers}
        for path in engines.values():
            path.symlink_to(find_engine())
        folder = client(tmp_path / "client", servers)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield Machines(tmp_path, servers, engines, array)


def moved(machines: Machines) -> None:
    """Give `kvm-2` a monotonic clock that is ahead."""
    command = f"unshare --user --map-root-user --time --monotonic {MOVED_S}"
    if shutil.which("unshare") is None or subprocess.run([*command.split(), "true"], check=False).returncode != 0:
        pytest.skip("time namespaces are not available")
    real = machines.folder / "engine-behind-kvm-2"
    real.symlink_to(find_engine())
    program = machines.engines["kvm-2"]
    program.unlink()
    program.write_text(f'#!/bin/sh\nexec {command} {real} "$@"\n')
    program.chmod(0o755)
    machines.engines["kvm-2's clock"] = real


def test_load_of_two_machines_is_one_load_on_one_clock(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    site = machines.site()
    moved(machines)
    result = hakaru.run("run", str(study), "--site", str(site), "--only", "vms=3", "--report", "none")
    assert result.returncode in MEASURED, result.stderr
    directory = hakaru.only_run()
    reader = RunReader(directory)
    records = reader.repetitions()
    assert len(records) == 2
    for record in records:
        loads = {e["node"]: e["found"]["vms"] for e in record["engines"] if e["engine"] == "initiator"}
        assert loads == {"kvm-1": 2, "kvm-2": 1}
        offsets = {name: (clock["start"], clock["end"]) for name, clock in record["clocks"].items()}
        for name, ahead_ns in (("kvm-1", 0), ("kvm-2", MOVED_S * 10**9)):
            for offset in offsets[name]:
                assert abs(offset["offset_ns"] - ahead_ns) <= offset["bound_ns"] < 10**9
        window = record["measure"]
        assert 0.9e9 < window["end_ns"] - window["start_ns"] < 1.1e9
        rows = reader.samples(record["point"], record["repetition"]).to_pylist()
        for node in ("kvm-1", "kvm-2"):
            for engine in ("initiator", "watch"):
                instants = [r["at_ns"] for r in rows if (r["node"], r["engine"]) == (node, engine)]
                assert min(instants) <= window["start_ns"] < window["end_ns"] <= max(instants)
            assert any(r["entity"] == "machine" and r["node"] == node for r in rows)
    # The bytes of both machines are those of the array, so no result is missing.
    (point,) = reader.read("summary.json")["points"]
    assert point["metrics"]["iops"]["mean"] > 0
    assert {"cpu/machine/kvm-1", "cpu/machine/kvm-2", "cpu/initiator"} <= point["utilisation"].keys()
    nodes = {node["name"]: node for node in reader.read("lab.json")["nodes"]}
    assert nodes["kvm-2"]["ssh"] == "kvm-2" and nodes["kvm-2"]["cpus"] > 0 and nodes["kvm-2"]["clock"]["end"]
    pages = pages_of(directory)
    text = re.sub(r"<[^>]*>", "", pages["en"])
    assert "Load host kvm-2" in text and "1,000,000" in text and "CPU of kvm-1" in text
    assert "負荷ホスト kvm-2" in pages["ja"]
    machines.wait_until_idle()


def test_this_machine_can_be_one_of_the_load_hosts(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    machines.hosts.append({"name": "local"})
    site = str(machines.site())
    arguments = ["run", str(study), "--site", site, "--only", "vms=3", "--repetitions", "1", "--report", "none"]
    result = hakaru.run(*arguments)
    assert result.returncode in MEASURED, result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    loads = [e["node"] for e in record["engines"] if e["engine"] == "initiator"]
    assert loads == ["local", "kvm-1", "kvm-2"] and record["clocks"].keys() == {"kvm-1", "kvm-2"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_the_machines_after_the_end_of_hakaru(
    hakaru: Hakaru, study: Path, machines: Machines, number: signal.Signals
) -> None:
    site = str(machines.site())
    study.write_text(study.read_text().replace("time: 1 s", "time: 60 s").replace("repetitions: 2", "repetitions: 1"))
    with hakaru.start("run", str(study), "--site", site, "--json", "--only", "vms=3") as process:
        until(process, "sample", 2)
        assert len(machines.running()) == 6  # per machine a clock, a watch and a load
        process.send_signal(number)
        assert process.wait(60) == (130 if number == signal.SIGINT else -number)
    machines.wait_until_idle()


def test_interrupted_run_is_continued_on_the_same_machines(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    site = str(machines.site())
    with hakaru.start("run", str(study), "--site", site, "--json", "--only", "vms=3") as process:
        until(process, "repetition", 1)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    resumed = hakaru.run("run", str(study), "--site", site, "--resume", "latest", "--report", "none")
    assert resumed.returncode in MEASURED, resumed.stderr
    assert len(RunReader(hakaru.only_run()).repetitions()) == 2


def lose_connection(server: Sshd) -> None:
    """End the server's processes of all connections, as a crash of the machine does."""
    assert server.signal_sessions(signal.SIGKILL)


def fall_silent(server: Sshd) -> None:
    """Stop the same processes, as a broken network does."""
    assert server.signal_sessions(signal.SIGSTOP)


@pytest.mark.parametrize(
    ("loss", "reason"), [(lose_connection, "closed the connection"), (fall_silent, "sent nothing for 15 s")]
)
def test_lost_machine_ends_the_run_with_exit_code_7_and_keeps_finished_repetitions(
    hakaru: Hakaru, study: Path, machines: Machines, loss: Callable[[Sshd], None], reason: str
) -> None:
    site = str(machines.site())
    study.write_text(study.read_text().replace("time: 1 s", "time: 3 s"))
    with hakaru.start("run", str(study), "--site", site, "--json", "--only", "vms=3") as process:
        until(process, "repetition", 1)
        until(process, "sample", 1)
        loss(machines.servers["kvm-2"])
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 7, stderr
    assert "on kvm-2 was lost: kvm-2: " in stderr or "load host kvm-2 was lost: kvm-2: " in stderr
    assert reason in stderr and "--resume" in stderr and "Traceback" not in stderr
    reader = RunReader(hakaru.only_run())
    assert reader.read("run.json")["status"] == "failed" and len(reader.repetitions()) >= 1
    machines.servers["kvm-2"].signal_sessions(signal.SIGKILL)
    machines.wait_until_idle()


def run_with(hakaru: Hakaru, study: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run a study that cannot begin, and check that it leaves nothing."""
    result = hakaru.ask("run", str(study), "--site", str(site), "--report", "none")
    assert result.returncode == 3, result.stderr
    assert "hint: " in result.stderr and "Traceback" not in result.stderr
    assert "load host kvm-2" in result.stderr
    assert not hakaru.runs.exists()
    return result


def another_architecture(program: Path) -> None:
    """The first page of an engine, marked as one for a processor that does not exist."""
    with find_engine().open("rb") as engine:
        page = bytearray(engine.read(4096))
    page[18:20] = (0xFF, 0xFE)
    program.write_bytes(page)


def another_version(program: Path) -> None:
    program.write_text(f'#!/bin/sh\n{find_engine()} "$@" | sed s/\\"version\\":\\"[0-9.]*/\\"version\\":\\"9.8/\n')


def another_build(program: Path) -> None:
    program.write_text(f'#!/bin/sh\n[ "$1" = schema ] && echo other || exec {find_engine()} "$@"\n')


def other_program(program: Path) -> None:
    program.write_text("#!/bin/sh\necho hello\n")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (None, "there is no engine for Linux "),
        (another_architecture, "on Linux "),
        (other_program, "is not a hakaru-engine (hello)"),
        (another_version, "is version 9.8 with contract"),
        (another_build, "is another build of version"),
    ],
)
def test_engine_that_cannot_be_used_is_named_before_the_run(
    hakaru: Hakaru, study: Path, machines: Machines, write: Callable[[Path], None] | None, message: str
) -> None:
    site, program = machines.site(), machines.engines["kvm-2"]
    program.unlink()
    if write is not None:
        write(program)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    result = run_with(hakaru, study, site)
    assert message in result.stderr
    assert f"`scp {find_engine()} kvm-2:{program}`" in result.stderr
    machines.wait_until_idle()


def test_machine_that_cannot_be_reached_is_named_before_the_run(
    hakaru: Hakaru, study: Path, machines: Machines
) -> None:
    assert "its name is unknown" in run_with(hakaru, study, machines.site(ssh="no-such-host.invalid")).stderr
    machines.servers["kvm-2"].process.terminate()
    machines.servers["kvm-2"].process.wait()
    assert "it refuses connections" in run_with(hakaru, study, machines.site()).stderr


def test_unknown_host_key_is_refused_and_never_asked_for(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    known = machines.folder / "client" / "known_hosts"
    known.write_text(known.read_text().splitlines(keepends=True)[0])
    result = run_with(hakaru, study, machines.site())
    assert "its host key is unknown or has changed" in result.stderr and "`ssh kvm-2`" in result.stderr
    assert len(known.read_text().splitlines()) == 1


def test_refused_login_is_named_and_no_password_is_asked_for(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    (machines.folder / "kvm-2" / "user.pub").write_text("")
    assert "it refuses the login" in run_with(hakaru, study, machines.site()).stderr


def test_login_that_prints_text_is_named(hakaru: Hakaru, study: Path, machines: Machines) -> None:
    server = machines.folder / "kvm-2"
    keys = server / "user.pub"
    keys.write_text(f'command="echo welcome; eval \\"$SSH_ORIGINAL_COMMAND\\"" {keys.read_text()}')
    result = run_with(hakaru, study, machines.site())
    assert "welcome" in result.stderr and "print nothing of its own" in result.stderr


def test_doctor_states_engine_processors_and_clock_of_every_host(hakaru: Hakaru, machines: Machines) -> None:
    machines.hosts.append({"name": "local"})
    site = machines.site()
    moved(machines)
    result = hakaru.ask("doctor", "--site", str(site), "--json")
    assert result.returncode == 0, result.stdout
    found = [f["what"] for f in json.loads(result.stdout) if f["name"] == "load host"]
    assert len(found) == 3
    assert re.fullmatch(r"local \(this machine\): Linux \S+ \S+, \d+ CPUs, hakaru-engine [\d.]+", found[0])
    clock = r"; clock ([+-][\d.]+) ms from this machine's, known to ±([\d.]+) ms"
    for text, name, ahead_ms in ((found[1], "kvm-1", 0), (found[2], "kvm-2", 1000 * MOVED_S)):
        match = re.fullmatch(rf"{name} \({name}\): Linux \S+ \S+, \d+ CPUs, hakaru-engine [\d.]+{clock}", text)
        assert match is not None, text
        assert abs(float(match[1]) - ahead_ms) <= float(match[2]) + 0.001
    machines.engines["kvm-1"].unlink()
    result = hakaru.ask("doctor", "--site", str(site))
    assert result.returncode == 3
    assert "fail  load host: kvm-1 (kvm-1): there is no engine for Linux" in result.stdout
    assert "ok    load host: kvm-2" in result.stdout
