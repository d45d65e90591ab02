"""Entering the sandbox: hakaru restarts itself inside namespaces that vanish with it.

Call `enter()` first thing in a command that builds a lab, before threads, temporary files or event
loops:

    from hakaru.lab import sandbox
    sandbox.enter()  # returns only inside; outside, this process becomes the supervisor

`sandbox.enter(argv: Sequence[str] | None = None) -> Sandbox`
    Outside: checks that the machine allows a sandbox (EnvironmentError_ names the obstacle and the
    remedies), then replaces this process by the supervisor (`supervisor.py`, same PID), which runs
    `argv` inside; never returns. `argv` defaults to this process's command line. Inside: returns at
    once with a description of the sandbox.
`sandbox.current() -> Sandbox | None`
    The sandbox, None outside. `Sandbox.describe()` goes into lab.json.
`sandbox.check() -> None`
    Only the check, for `hakaru doctor` and pre-flight.

Standard streams, terminal, working directory, environment, user and files stay the same; signals
and exit codes pass through. The network differs: the sandbox contains only what the lab builds.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakaru import system_calls
from hakaru.errors import EnvironmentError_
from hakaru.lab.sandbox import supervisor

_SUPERVISOR = str(Path(supervisor.__file__).resolve())
_AS_ROOT = "or run the command as root (`sudo`), which needs no user namespace"

# Settings that may forbid a sandbox. A setting whose file is absent restricts nothing.
_FACTS = {
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "max_net_namespaces": "/proc/sys/user/max_net_namespaces",
    "max_pid_namespaces": "/proc/sys/user/max_pid_namespaces",
    "max_mnt_namespaces": "/proc/sys/user/max_mnt_namespaces",
    "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
}

_APPARMOR_PROFILE = """\
abi <abi/4.0>,
include <tunables/global>
profile hakaru {python} flags=(unconfined) {{
  userns,
}}"""


@dataclass(frozen=True)
class Sandbox:
    """The sandbox this process is in. `kind`: `user` (rootless) or `root` (started with
    privileges).
    """

    kind: str

    def describe(self) -> dict[str, Any]:
        """Return the entry of lab.json: the namespaces that isolate the lab, and its privileges."""
        namespaces = ["mount", "network", "pid"]
        note = "the user's own rights; nothing of the host can be changed"
        if self.kind == "user":
            namespaces.append("user")
        else:
            note = "started with privileges: no user namespace, files written belong to root"
        return {"kind": self.kind, "namespaces": sorted(namespaces), "uid": os.geteuid(), "note": note}


def current() -> Sandbox | None:
    """The sandbox this process is in, or None. A marker inherited from elsewhere does not count."""
    kind, _, namespace = os.environ.get(supervisor.MARKER, "").partition(" ")
    if kind and namespace == str(Path("/proc/self/ns/net").readlink()):
        return Sandbox(kind)
    return None


def enter(argv: Sequence[str] | None = None) -> Sandbox:
    """Inside a sandbox, return it. Outside, become the supervisor that runs `argv` inside; this
    does not return.

    `argv` defaults to this process's own command line. Raises EnvironmentError_ if no sandbox can
    be made.
    """
    inside = current()
    if inside is not None:
        return inside
    check()
    command = list(argv) if argv is not None else [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-S", _SUPERVISOR, kind_here(), *command])


def kind_here() -> str:
    """Return `root` if this process may make namespaces without a user namespace, else `user`."""
    needed = 1 << system_calls.CAP_SYS_ADMIN | 1 << system_calls.CAP_NET_ADMIN
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return "root" if int(value, 16) & needed == needed else "user"
    return "user"


def check() -> None:
    """Try to make a sandbox and throw it away. Raises EnvironmentError_ that names the obstacle and
    the remedies.
    """
    kind = kind_here()
    trial = subprocess.run(
        [sys.executable, "-I", "-S", _SUPERVISOR, "--try", kind],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if trial.returncode == 0:
        return
    words = trial.stdout.split()
    step, number = (words[0], int(words[1])) if len(words) == 2 else ("start", 0)
    message, hint = explain(kind, step, number, read_facts())
    raise EnvironmentError_(message, hint)


def read_facts() -> dict[str, str]:
    """Settings of this machine that may forbid a sandbox. Absent settings are left out."""
    facts = {}
    for name, path in _FACTS.items():
        try:
            facts[name] = Path(path).read_text().strip()
        except OSError:
            continue
    if any(Path(path).exists() for path in ("/.dockerenv", "/run/.containerenv")):
        facts["container"] = "1"
    if not _root_is_mount_point():
        facts["chroot"] = "1"
    return facts


def _root_is_mount_point() -> bool:
    """Whether something is mounted at the root directory of this process, as everywhere except in a
    chroot.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return True
    return any(line.split()[4] == "/" for line in lines)


def explain(kind: str, step: str, number: int, facts: Mapping[str, str]) -> tuple[str, str]:
    """(message, hint) for a step of the supervisor that failed with errno `number` on a machine
    with `facts`. Pure.
    """
    message = f"no sandbox can be made for the lab ({step}: {errno.errorcode.get(number, number)})"
    for resource in ("user", "net", "pid", "mnt"):
        setting = f"max_{resource}_namespaces"
        if facts.get(setting) == "0" and (resource != "user" or kind == "user"):
            return (
                f"{message}: {resource} namespaces are switched off on this machine (user.{setting} is 0)",
                f"`sudo sysctl user.{setting}=15000` allows them; {_AS_ROOT}"
                if resource == "user"
                else f"`sudo sysctl user.{setting}=15000` allows them",
            )
    if number == errno.ENOSPC:
        return (
            f"{message}: a limit on namespaces is used up (user.max_*_namespaces)",
            "raise the limit, or end programs that hold namespaces",
        )
    if number == errno.EUSERS:
        return f"{message}: user namespaces are nested too deeply", "start hakaru outside of the containers it is in"
    if facts.get("chroot"):
        return (
            f"{message}: this process is in a chroot, where the kernel refuses it",
            "enter the folder with systemd-nspawn or a container, or run hakaru outside of the chroot",
        )
    if number == errno.EINVAL:
        return f"{message}: this kernel lacks user, network, PID or mount namespaces", "use a distribution's own kernel"
    return _explain_permission(message, kind, step, facts)


def _explain_permission(message: str, kind: str, step: str, facts: Mapping[str, str]) -> tuple[str, str]:
    if kind == "user" and facts.get("unprivileged_userns_clone") == "0":
        return (
            f"{message}: only root may make user namespaces here (kernel.unprivileged_userns_clone is 0)",
            f"`sudo sysctl kernel.unprivileged_userns_clone=1` allows them; {_AS_ROOT}",
        )
    if kind == "user" and facts.get("apparmor_restrict_unprivileged_userns") == "1":
        profile = _APPARMOR_PROFILE.format(python=os.path.realpath(sys.executable))
        return (
            f"{message}: AppArmor denies programs without a profile all capabilities in user namespaces "
            "(kernel.apparmor_restrict_unprivileged_userns is 1)",
            "give hakaru's Python a profile: write the lines below to /etc/apparmor.d/hakaru and run "
            "`sudo apparmor_parser -r /etc/apparmor.d/hakaru`; or `sudo sysctl "
            f"kernel.apparmor_restrict_unprivileged_userns=0`; {_AS_ROOT}\n{profile}",
        )
    if step == "mount":
        return (
            f"{message}: a new /proc may not be mounted, because parts of /proc are hidden here (usual in containers)",
            "start the container with `--security-opt systempaths=unconfined`, or run hakaru outside of it",
        )
    if "container" in facts:
        return (
            f"{message}: this container's seccomp profile or missing capabilities forbid namespaces",
            "start it with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`, "
            "or with `--privileged`",
        )
    return (
        f"{message}: a security policy of this machine forbids namespaces",
        f"ask the administrator of this machine; {_AS_ROOT}",
    )
