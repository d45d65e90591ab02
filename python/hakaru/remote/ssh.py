"""The user's OpenSSH client, as the way to another machine. Pure.

Keys, agent, known hosts, jumps and ports are those of the user's `~/.ssh/config`. hakaru never asks
for a password or a fingerprint. Every command has a connection of its own, so that one that is lost
is noticed within `SILENCE_S`, and none outlives the run.
"""

from __future__ import annotations

from collections.abc import Sequence

CONNECT_S = 10
"""Time to connect and to exchange keys."""
_ALIVE_S, _ALIVE_MISSED = 5, 3
SILENCE_S = _ALIVE_S * _ALIVE_MISSED
"""Time after which a machine that sends nothing is lost."""
FAILED = 255
"""Exit status of a connection that failed. A remote program that a signal ended has it as well."""

_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(_ALIVE_S),
    "ServerAliveCountMax": str(_ALIVE_MISSED),
    # A shared connection would have the time-outs of its first user.
    "ControlMaster": "no",
    "ControlPath": "none",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    # The messages that `explain` looks for.
    "LogLevel": "INFO",
}
_CLOSED = "it closed the connection"
_HINT_CLOSED = "check whether the machine or its sshd ended, and the limits in its sshd_config (MaxStartups)"
_CAUSES = (
    (
        "Host key verification failed",
        "its host key is unknown or has changed",
        "compare its fingerprint with that of the machine: `ssh {destination}` shows it, and stores it if you accept",
    ),
    (
        "Permission denied",
        "it refuses the login",
        "hakaru enters no passwords: `ssh -o BatchMode=yes {destination} true` must work with a key or an agent",
    ),
    ("Could not resolve hostname", "its name is unknown", "check `ssh` of the host in the site file"),
    ("Connection refused", "it refuses connections", "start sshd there, or check the port in ~/.ssh/config"),
    ("No route to host", "there is no route to it", "check the network: `ssh {destination} true` must work"),
    ("timed out", "it does not respond", "check the network: `ssh {destination} true` must work"),
    (
        "not responding",
        f"it sent nothing for {SILENCE_S} s",
        "check whether the machine and the network still work: `ssh {destination} true`",
    ),
    ("closed by", _CLOSED, _HINT_CLOSED),
    ("reset by", _CLOSED, _HINT_CLOSED),
    ("Broken pipe", _CLOSED, _HINT_CLOSED),
)


def arguments(destination: str, command: str) -> list[str]:
    """Return the arguments of a process that runs `command` at `destination`, with its standard
    streams.
    """
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *options, "--", destination, command]


def explain(destination: str, stderr: Sequence[str]) -> tuple[str, str]:
    """Return why a connection failed, and what to do. `stderr`: lines of the client."""
    said = " / ".join(stderr[-3:])
    for sign, reason, hint in _CAUSES:
        if any(sign in line for line in stderr):
            return f"{reason} ({said})", hint.format(destination=destination)
    if not stderr:
        return "the connection or the engine ended", "look for the reason in the log of the machine (`dmesg`, sshd)"
    return f"ssh failed: {said}", f"`ssh -o BatchMode=yes {destination} true` must work"
