"""One QEMU process: its start, its console, its monitor (QMP) and the reason of its end.

    emulator = await Emulator.start("vm-1", command, descriptors)
    await emulator.wait_for_line("Linux version", 10)
    threads = await emulator.vcpu_threads()
    await emulator.close()

The monitor uses a connected pair of sockets, so there is no file and no port to remove. QEMU asks
the kernel to be killed when this process dies, so none remains after SIGKILL. This module does not
know guests: `hakaru.guest.machine` talks to the one inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from qemu.qmp import EventListener, ExecuteError, Message, QMPClient, QMPError, Runstate

from hakaru.errors import EnvironmentError_, HakaruError, LostError

PROGRAM = "qemu-system-x86_64"
_PROGRAMS = ((PROGRAM, "qemu-system-x86"), ("setpriv", "util-linux"), ("nsenter", "util-linux"))

_CONSOLE_LINES = 60
_CONSOLE_LINE_MAX = 500
# QEMU answers within milliseconds, once a busy machine lets it run.
MONITOR_TIMEOUT_S = 30.0
# Time for QEMU to end after it has closed a guest's port, and for its last events to arrive.
_END_S = 5.0
_ENDS = {
    "guest-shutdown": "switched itself off",
    "guest-reset": "restarted itself",
    "host-qmp-quit": "was ended through its monitor",
}
"""Reason in QEMU's SHUTDOWN event → action of the guest."""
_PANIC = "Kernel panic - not syncing: "


class Emulator:
    """A running QEMU. Created by `start`."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        """Name for messages: `guest vm-1 (tcg)`."""
        self._process = process
        self._console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self._output = asyncio.Condition()
        self._ended = False
        self._seen = ""
        self._panicked = False
        self._panic_message = ""
        self._shutdown = ""
        self._monitor = QMPClient(name)
        self._reader = asyncio.create_task(self._read_console())

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], descriptors: Sequence[int], *, namespace: int | None = None
    ) -> Self:
        """Start QEMU with the arguments of `hakaru.guest.command` and connect to its monitor.

        `descriptors`: open files that the arguments name. `namespace`: descriptor of the network
        namespace to enter; None: this process's own. Raises EnvironmentError_ if QEMU is not
        installed or refuses its arguments.
        """
        for program, package in _PROGRAMS:
            if shutil.which(program) is None:
                raise EnvironmentError_(f"{program} is not installed", f"sudo apt-get install {package}")
        enter = [] if namespace is None else ["nsenter", f"--net=/proc/self/fd/{namespace}"]
        ours, theirs = socket.socketpair()
        with theirs:
            monitor = ("-chardev", f"socket,id=monitor,fd={theirs.fileno()}", "-mon", "chardev=monitor,mode=control")
            try:
                process = await asyncio.create_subprocess_exec(
                    *(*enter, "setpriv", "--pdeathsig", "KILL", PROGRAM, *command, *monitor),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(*descriptors, *([] if namespace is None else [namespace]), theirs.fileno()),
                    process_group=0,
                )
            except BaseException:
                ours.close()
                raise
        emulator = cls(name, process)
        try:
            await emulator._connect(ours)
        except BaseException:
            ours.close()
            await emulator.close()
            raise
        return emulator

    @property
    def pid(self) -> int:
        """Process id of QEMU."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is still running; may lag behind its end."""
        return self._process.returncode is None

    def console(self) -> str:
        """Return the last lines of the serial console: messages of the kernel and of QEMU."""
        return "\n".join(self._console)

    async def wait_for_line(self, text: str, timeout_s: float) -> None:
        """Wait until the console has shown `text`. Raises LostError if it does not, or if QEMU
        ends.
        """

        def shown() -> bool:
            return self._ended or text in self._seen

        try:
            async with asyncio.timeout(timeout_s), self._output:
                await self._output.wait_for(shown)
        except TimeoutError:
            raise self.lost_error(f"did not print `{text}` within {timeout_s:g} s") from None
        if text not in self._seen:
            raise await self.end_error(f"before it printed `{text}`")

    async def execute(self, command: str, **arguments: Any) -> Any:
        """Execute a command of QMP and return its result.

        Raises LostError if QEMU is gone or does not answer, HakaruError if it refuses.
        """
        try:
            return await asyncio.wait_for(self._monitor.execute(command, arguments or None), MONITOR_TIMEOUT_S)
        except TimeoutError:
            raise self.lost_error(f"did not answer `{command}` within {MONITOR_TIMEOUT_S:g} s") from None
        except ExecuteError as error:
            raise HakaruError(f"{self.name}: QEMU refused `{command}`: {error}") from error
        except (QMPError, OSError, EOFError):
            raise await self.end_error(f"before it answered `{command}`") from None

    async def status(self) -> str:
        """Return the state of the machine: `running`, `paused`, `guest-panicked`, …"""
        return str((await self.execute("query-status"))["status"])

    async def vcpu_threads(self) -> list[int]:
        """Return the thread ids of the virtual processors, in their order."""
        processors = await self.execute("query-cpus-fast")
        return [int(cpu["thread-id"]) for cpu in sorted(processors, key=lambda cpu: int(cpu["cpu-index"]))]

    async def other_threads(self) -> list[int]:
        """Return the thread ids of QEMU's main loop, its iothreads and its workers."""
        virtual = set(await self.vcpu_threads())
        tasks = (int(entry.name) for entry in Path(f"/proc/{self.pid}/task").iterdir())
        return sorted(task for task in tasks if task not in virtual)

    async def pci_devices(self) -> list[str]:
        """Return the ids of the devices of the guest, also of those behind bridges, as their
        `-device` arguments give them.
        """
        return list(ids_of(await self.execute("query-pci")))

    async def quit(self) -> None:
        """Cut the power through the monitor. Raises LostError if QEMU does not end."""
        await self.execute("quit")
        await self.wait(_END_S)

    async def wait(self, timeout_s: float) -> int:
        """Wait for the end of the process and return its exit status. Raises LostError."""
        try:
            return await asyncio.wait_for(self._process.wait(), timeout_s)
        except TimeoutError:
            raise self.lost_error(f"did not end within {timeout_s:g} s") from None

    def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End the process in any state. May be called twice."""
        try:
            self.kill()
            await self._process.wait()
        finally:
            with contextlib.suppress(QMPError, OSError, EOFError):
                await self._monitor.disconnect()
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def lost_error(self, problem: str) -> LostError:
        """Return the error of a guest with this problem, with the end of its console."""
        lines = " / ".join(line for line in self._console if line)
        return LostError(f"{self.name} {problem}", f"its console: {lines or 'empty'}")

    async def end_error(self, moment: str) -> LostError:
        """Return the error of a guest that has ended: the cause, and the moment (`before its
        answer`).
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._process.wait()
                await asyncio.wait([self._reader])
                # The monitor reports the cause before it closes.
                while self._monitor.runstate is Runstate.RUNNING:
                    await self._monitor.runstate_changed()
        return self.lost_error(f"{self._cause()} {moment}")

    def _cause(self) -> str:
        status = self._process.returncode
        # Before its driver of pvpanic is loaded, a kernel reports a panic only on the console.
        if self._panic_message:
            return f"panicked ({self._panic_message})"
        if self._panicked:
            return "panicked"
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                return f"was lost: QEMU was ended by {signal.Signals(-status).name}"
        if self._shutdown in _ENDS:
            return _ENDS[self._shutdown]
        return "closed its port" if status is None else f"was lost: QEMU ended with exit status {status}"

    async def _connect(self, ours: socket.socket) -> None:
        self._monitor.register_listener(EventListener(event_filter=self._take_event))
        try:
            await asyncio.wait_for(self._monitor.connect(ours), MONITOR_TIMEOUT_S)
        except TimeoutError:
            raise self.lost_error(f"has a monitor that did not answer within {MONITOR_TIMEOUT_S:g} s") from None
        except QMPError:
            # QEMU has ended. Its last line names the argument that it refused.
            await self._process.wait()
            await asyncio.wait([self._reader], timeout=_END_S)
            raise EnvironmentError_(
                f"{self.name}: QEMU does not start: {self.console() or self._cause()}", "run `hakaru doctor`"
            ) from None

    def _take_event(self, event: Message) -> bool:
        """Note an event. False: nothing is queued, because no task reads the queue."""
        match event["event"]:
            case "GUEST_PANICKED":
                self._panicked = True
            case "SHUTDOWN":
                data = event["data"]
                self._shutdown = str(data["reason"]) if isinstance(data, dict) else ""
        return False

    async def _read_console(self) -> None:
        assert self._process.stdout is not None
        pending = b""
        while chunk := await self._process.stdout.read(65536):
            *lines, pending = (pending + chunk).split(b"\n")
            pending = pending[-_CONSOLE_LINE_MAX:]
            await self._show(lines, pending)
        await self._show([pending], b"")
        async with self._output:
            self._ended = True
            self._output.notify_all()

    async def _show(self, lines: Sequence[bytes], pending: bytes) -> None:
        texts = [line.decode(errors="replace").strip()[-_CONSOLE_LINE_MAX:] for line in lines]
        for text in texts:
            if not self._panic_message and _PANIC in text:
                self._panic_message = text.partition(_PANIC)[2]
        async with self._output:
            self._console.extend(texts)
            self._seen = "\n".join([*self._console, pending.decode(errors="replace")])
            self._output.notify_all()


def ids_of(buses: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of the devices on PCI buses and behind bridges, as `query-pci` gives them."""
    for bus in buses:
        for device in bus["devices"]:
            if device["qdev_id"]:
                yield device["qdev_id"]
            # The devices behind a bridge have the form of a bus. An empty bridge has none.
            behind = device.get("pci_bridge", {})
            yield from ids_of([behind] if "devices" in behind else [])
