"""The sandbox as root and rootless: streams, signals, exit codes and refusals."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hakaru.kernel_threads import threads_of
from hakaru.lab import sandbox
from hakaru.lab.sandbox import explain
from hakaru.lab.sandbox.entry import read_facts

from .conftest import NOBODY, User


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_command_runs_alone_in_its_own_namespaces(user: User) -> None:
    done = user.run("describe", "a", "b c", env=user.environment(HAKARU_TEST_VARIABLE="kept"))
    assert done.returncode == 0, done.stderr
    seen = lines(done.stdout)[0]
    assert seen["interfaces"] == ["lo"]
    assert len(seen["processes"]) == 2, "init and the command"
    assert 1 in seen["processes"]
    outside = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("net", "mnt", "pid", "user")}
    inside = seen["namespaces"]
    assert {name for name in outside if outside[name] != inside[name]} >= {"net", "mnt", "pid"}
    assert (seen["argv"], seen["cwd"], seen["variable"]) == (["a", "b c"], str(user.folder), "kept")


def test_ordinary_user_keeps_their_id_and_has_three_capabilities(user: User) -> None:
    seen = lines(user.run("describe").stdout)[0]
    if user.name == "root":
        assert seen["sandbox"]["kind"] == "root"
        assert "root" in seen["sandbox"]["note"]
        assert seen["uid"] == 0
        return
    assert seen["sandbox"]["kind"] == "user"
    assert seen["uid"] == (NOBODY if os.geteuid() == 0 else os.geteuid())
    assert int(seen["effective"], 16) == 1 << 12 | 1 << 13 | 1 << 21


def test_thread_of_an_interface_runs_first_and_ends_with_the_sandbox(user: User) -> None:
    if user.name != "root":
        pytest.skip("only root may raise the kernel's threads")
    name = "first"
    with user.start("poll_first", name, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline(), process.stderr and process.stderr.read()
        policies = {os.sched_getscheduler(thread) for thread in threads_of(name)}
        if not policies:
            pytest.skip("this PID namespace shows no threads of the kernel")
        assert policies == {os.SCHED_FIFO}
        process.stdin.close()
    assert process.returncode == 0
    deadline = time.monotonic() + 60
    while threads_of(name) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not threads_of(name)


def test_files_written_inside_belong_to_the_user(user: User) -> None:
    path = user.folder / "written"
    done = user.run("write_file", str(path))
    assert done.returncode == 0, done.stderr
    assert path.stat().st_uid == user.folder.stat().st_uid
    assert lines(done.stdout)[0]["owner"] == path.stat().st_uid


@pytest.mark.parametrize("code", [0, 1, 7, 143])
def test_exit_code_passes_through(user: User, code: int) -> None:
    assert user.run("exit_with", str(code)).returncode == code


def test_command_ended_by_a_signal_has_the_exit_code_of_a_shell(user: User) -> None:
    assert user.run("end_by_signal", str(int(signal.SIGKILL))).returncode == 128 + signal.SIGKILL


def test_standard_streams_pass_through(user: User) -> None:
    done = user.run("echo_stdin", input="through\n")
    assert done.stdout == "THROUGH\n"
    assert done.stderr == "tty [False, False, False]\n"


def test_signal_sent_to_hakaru_reaches_the_command_once(user: User) -> None:
    process = user.start("count_signals")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["state"] == "waiting"
    for number in (signal.SIGINT, signal.SIGUSR1):
        process.send_signal(number)
        assert json.loads(process.stdout.readline()) == {"signal": number.name}
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert lines(rest) == [{"signal": "SIGTERM"}], "neither lost nor doubled"
    assert process.wait(60) == 143


class Terminal:
    """A terminal with a process in the foreground."""

    def __init__(self, user: User, *arguments: str) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(user.folder)
            command = user.command(*arguments)
            os.execvpe(command[0], command, user.environment())
        self._unread = b""

    def line(self, timeout: float = 60) -> str:
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            if not select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(self._unread)
            self._unread += os.read(self.master, 4096)
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode().strip()

    def until(self, text: str) -> str:
        while text not in (line := self.line()):
            pass
        return line

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


def test_ctrl_c_at_a_terminal_reaches_the_command_once(user: User) -> None:
    terminal = Terminal(user, "count_signals")
    terminal.until("waiting")
    terminal.type(b"\x03")
    terminal.until("SIGINT")
    os.kill(terminal.pid, signal.SIGTERM)
    # If Ctrl-C had arrived twice, another SIGINT would come before this line.
    assert json.loads(terminal.line()) == {"signal": "SIGTERM"}
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 143
    os.close(terminal.master)


def test_ctrl_z_stops_hakaru_for_the_shell_and_fg_continues_it(user: User) -> None:
    terminal = Terminal(user, "tick")
    try:
        terminal.until('"tick": 3')
        terminal.type(b"\x1a")
        _, status = os.waitpid(terminal.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "the shell sees its job stopped"
        with pytest.raises(TimeoutError):
            for _ in range(10_000):
                terminal.line(timeout=0.5)
        os.kill(terminal.pid, signal.SIGCONT)
        assert '"tick"' in terminal.until('"tick"')
    finally:
        terminal.close()


def test_foreign_marker_does_not_count_as_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAKARU_SANDBOX", "user net:[1]")
    assert sandbox.current() is None
    monkeypatch.setenv("HAKARU_SANDBOX", "nonsense")
    assert sandbox.current() is None


def test_refusal_names_switched_off_user_namespaces(user: User) -> None:
    if user.name == "root":
        pytest.skip("root needs no user namespace")
    # In a separate user namespace, where the limit can be set to 0 without changing the machine's.
    off = 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'
    prefix = [*user.prefix, "unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", off, "sh"]
    refused = User(user.name, prefix, user.python, user.folder).run("describe")
    assert refused.returncode == 3
    assert refused.stdout == ""
    message, hint = refused.stderr.splitlines()
    assert "user.max_user_namespaces is 0" in message
    assert "sysctl user.max_user_namespaces=" in hint
    assert "as root" in hint


@pytest.mark.parametrize(
    ("kind", "step", "number", "facts", "expected_message", "expected_hint"),
    [
        ("user", "unshare", 28, {"max_user_namespaces": "0"}, "switched off", "user.max_user_namespaces=15000"),
        ("root", "unshare", 28, {"max_net_namespaces": "0"}, "net namespaces are switched off", "max_net_namespaces"),
        ("user", "unshare", 28, {"max_user_namespaces": "100"}, "used up", "raise"),
        ("user", "unshare", 1, {"unprivileged_userns_clone": "0"}, "only root", "unprivileged_userns_clone=1"),
        (
            "user",
            "map",
            1,
            {"apparmor_restrict_unprivileged_userns": "1", "unprivileged_userns_clone": "1"},
            "AppArmor",
            "/etc/apparmor.d/hakaru",
        ),
        ("user", "unshare", 1, {"container": "1"}, "seccomp", "seccomp=unconfined"),
        ("user", "mount", 1, {"container": "1"}, "/proc", "systempaths=unconfined"),
        ("user", "unshare", 87, {}, "nested too deeply", "outside"),
        ("user", "unshare", 22, {}, "kernel lacks", "kernel"),
        ("root", "private", 22, {"chroot": "1"}, "in a chroot", "systemd-nspawn"),
        ("user", "unshare", 1, {"chroot": "1"}, "in a chroot", "systemd-nspawn"),
        ("user", "unshare", 1, {}, "security policy", "as root"),
    ],
)
def test_every_cause_has_its_own_message_and_remedy(
    kind: str, step: str, number: int, facts: dict[str, str], expected_message: str, expected_hint: str
) -> None:
    message, hint = explain(kind, step, number, facts)
    assert expected_message in message
    assert expected_hint in hint


def test_this_machine_is_no_chroot() -> None:
    assert "chroot" not in read_facts()


def test_missing_command_is_an_error_of_the_environment() -> None:
    program = Path(sandbox.__file__).with_name("supervisor.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, sandbox.kind_here(), "/no/such/program"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot run /no/such/program in the sandbox")
