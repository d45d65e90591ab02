"""The supervisor of a sandbox: makes the namespaces, runs one command in them, and takes everything
down with itself.

A separate program that imports only the standard library and the three modules of hakaru that do
the same (`python -I -S supervisor.py KIND COMMAND…`; `--try KIND` only tries). It starts in
milliseconds, has one thread, as `unshare` requires, and keeps none of hakaru's memory.
`sandbox.enter` replaces its process by this program with exec.

    hakaru (supervisor)      the PID the user sees; waits, forwards signals, ends with the command's
                             exit code
      └─ init                PID 1 of the sandbox; reaps children; gets SIGKILL when the supervisor
                             dies, for whatever reason
           └─ hakaru         the real command, and below it the engines
      └─ threads             only as root: gives precedence to kernel threads, which do not exist in
                             the sandbox (`hakaru.kernel_threads`); dies with the supervisor

Nothing stays behind. When the supervisor dies, the kernel kills init (PR_SET_PDEATHSIG). When init
dies or ends, the kernel kills every process of its PID namespace. With the last process the network
and mount namespaces disappear, and with them every interface and mount. None of these steps depends
on code of this program. A node's network namespace has no name in any file system: it exists as
long as a process inside the sandbox holds it open.

A signal sent to the supervisor reaches the command once. A signal that the terminal sends to the
entire group reaches the command directly. After `kill -- -GROUP` the command gets the signal twice,
directly and through the supervisor; its handlers must tolerate that.

KIND is `user` (in a new user namespace: the user keeps their identity and files, and gets
CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN over the new namespaces only) or `root` (already
privileged: no user namespace is made).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

if __name__ == "__main__":
    # `python -I -S` finds only the standard library. hakaru's folder comes last, so that it hides
    # no standard module.
    sys.path.append(os.path.abspath(f"{__file__}/../../../.."))  # noqa: PTH100

from hakaru import kernel_threads, left_terminal, system_calls
from hakaru.system_calls import (
    CAP_NET_ADMIN,
    CAP_NET_RAW,
    CAP_SYS_ADMIN,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
)

_CAPABILITIES = (CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN)

# Environment variable of the command, with KIND and the sandbox's network namespace, so that a
# leaked marker is recognised.
MARKER = "HAKARU_SANDBOX"
EXIT_ENVIRONMENT = 3
EXIT_LOST = 7

# Signals to wait for with sigwaitinfo(2). None has a handler, because a handler could run between
# two steps. Faults of this program must still end it, so their signals are left out.
_WAITED = signal.valid_signals() - {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
}
_STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class StepError(OSError):
    """A step of making a sandbox was refused. `step` names it: unshare, map, private, mount,
    capabilities.
    """

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.step = step


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StepError(name, error) from None


def make_namespaces(kind: str) -> None:
    """Move this process, of one thread, into new mount and network namespaces.

    Its next child is PID 1 of a new PID namespace. Raises StepError.
    """
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | (CLONE_NEWUSER if kind == "user" else 0)
    with _step("unshare"):
        system_calls.unshare(flags)
    if kind == "user":
        # A user may map their own ids onto themselves, once groups can no longer be dropped
        # (user_namespaces(7)).
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _write_proc(name, text)


def _write_proc(name: str, text: str) -> None:
    with _step("map"):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def mount_private_proc() -> None:
    """Cut this mount namespace off from the host's; mount a /proc that shows this PID namespace.
    Raises StepError.
    """
    with _step("private"):
        system_calls.mount(None, "/", None, MS_REC | MS_PRIVATE)
    with _step("mount"):
        system_calls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def keep_capabilities() -> None:
    """Let the capabilities over the new namespaces survive exec by a user who is not root there.
    Raises StepError.
    """
    with _step("capabilities"):
        system_calls.set_capabilities(sum(1 << capability for capability in _CAPABILITIES))
        for capability in _CAPABILITIES:
            system_calls.raise_ambient_capability(capability)


def die_with_parent(lifeline: int) -> None:
    """Ask for SIGKILL when the parent dies, and end now if it has died already.

    `lifeline` is the read end of a pipe whose write end only the parent holds, so end of file means
    that the parent died. (`getppid` does not show it: the parent is outside this PID namespace, and
    the call returns 0 before and after.)
    """
    system_calls.set_parent_death_signal(signal.SIGKILL)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):
        os._exit(EXIT_LOST)


def _sent_by_a_process(info: signal.struct_siginfo) -> bool:
    """Return False for a signal from the terminal, which also reaches the command, because it goes
    to the entire foreground group.
    """
    return info.si_code <= 0


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _serve_threads() -> tuple[int, int]:
    """Start the process that raises kernel threads, outside the namespaces to be made. Returns the
    descriptors of its requests and answers.
    """
    requests, ask = os.pipe()
    answer, answers = os.pipe()
    if os.fork() == 0:
        system_calls.set_parent_death_signal(signal.SIGKILL)
        os.close(ask)
        os.close(answer)
        kernel_threads.serve(requests, answers)
        os._exit(0)
    os.close(requests)
    os.close(answers)
    return ask, answer


def _complain(message: str, hint: str) -> None:
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    sys.stderr.flush()


def _exec(kind: str, channel: tuple[int, ...], command: list[str]) -> NoReturn:
    try:
        os.environ.pop(kernel_threads.CHANNEL, None)
        if channel:
            words = (*channel, os.fstat(channel[0]).st_ino)
            os.environ[kernel_threads.CHANNEL] = " ".join(str(word) for word in words)
            for descriptor in channel:
                os.set_inheritable(descriptor, True)
        if kind == "user":
            keep_capabilities()
        os.environ[MARKER] = f"{kind} {os.readlink('/proc/self/ns/net')}"  # noqa: PTH115
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)
    except OSError as error:
        _complain(f"cannot run {command[0]} in the sandbox: {error.strerror}", "run `hakaru doctor`")
    os._exit(EXIT_ENVIRONMENT)


def _run_init(kind: str, lifeline: int, channel: tuple[int, ...], command: list[str]) -> NoReturn:
    die_with_parent(lifeline)
    try:
        mount_private_proc()
    except StepError as error:
        _complain(f"cannot make the sandbox: {error.step}: {error.strerror}", "run `hakaru doctor`")
        os._exit(EXIT_ENVIRONMENT)
    child = os.fork()
    if child == 0:
        _exec(kind, channel, command)
    # Leave the supervisor's process group to the command, which a signal from the terminal must
    # reach once.
    os.setpgid(0, 0)
    while True:
        info = signal.sigwaitinfo(_WAITED)
        if info.si_signo == signal.SIGCHLD:
            _reap(child)
        elif _sent_by_a_process(info):
            os.kill(child, info.si_signo)


def _reap(child: int) -> None:
    """Reap ended children. If the command is among them, exit with its exit code."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == child:
            os._exit(_exit_code(status))


def _supervise(init: int, terminal: list[Any] | None) -> int:
    while True:
        info = signal.sigwaitinfo(_WAITED)
        if info.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(init, os.WNOHANG)
            if pid == init:
                break
            continue
        if _sent_by_a_process(info):
            os.kill(init, info.si_signo)
        if info.si_signo in _STOPS:
            # The shell monitors this process, so it stops too, until the shell continues it.
            os.kill(os.getpid(), signal.SIGSTOP)
    # A view of the run was killed with the sandbox.
    left_terminal.restore(terminal)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        hint = "finished repetitions are kept; `hakaru run --resume` continues"
        _complain(f"the sandbox was ended by {name}", hint)
        return EXIT_LOST
    return os.waitstatus_to_exitcode(status)


def _try(kind: str) -> int:
    """Make a sandbox and run nothing in it. If a step fails, print `STEP ERRNO` on stdout."""
    try:
        make_namespaces(kind)
    except StepError as error:
        print(error.step, error.errno)
        return EXIT_ENVIRONMENT
    child = os.fork()
    if child == 0:
        try:
            mount_private_proc()
            if kind == "user":
                keep_capabilities()
        except StepError as error:
            print(error.step, error.errno, flush=True)
            os._exit(EXIT_ENVIRONMENT)
        os._exit(0)
    return _exit_code(os.waitpid(child, 0)[1])


def main(arguments: list[str]) -> int:
    """Run COMMAND for the arguments `KIND COMMAND…` and return its exit code. For `--try KIND`,
    return 0 if a sandbox can be made, else 3.
    """
    if arguments[0] == "--try":
        return _try(arguments[1])
    kind, command = arguments[0], arguments[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    # A disposition of "ignore" is inherited (nohup, shells' `&`) and would hide the end of
    # children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = _serve_threads() if kind == "root" else ()
    try:
        make_namespaces(kind)
    except StepError as error:
        _complain(f"cannot make the sandbox: {error.step}: {error.strerror}", "run `hakaru doctor`")
        return EXIT_ENVIRONMENT
    terminal = left_terminal.attributes()
    lifeline, write_end = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(write_end)
        _run_init(kind, lifeline, channel, command)
    for descriptor in (lifeline, *channel):
        os.close(descriptor)
    return _supervise(init, terminal)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
