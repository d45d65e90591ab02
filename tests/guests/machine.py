"""Runs one guest: QEMU with an image, and scripts in it.

    async with await Guest.boot("vm-1", image) as guest:
        print(await guest.run("mkfs.ext4 /dev/sda", timeout_s=120))

Errors: a script that fails is a GuestCommandError with its output. A guest that dies, panics or
stops responding is a LostError with the last lines of its console. Missing QEMU is an
EnvironmentError_. No process remains after the block, nor after SIGKILL: QEMU asks the kernel to be
killed when this process dies, and a guest whose host is gone switches itself off.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import shutil
import socket
from collections import deque
from types import TracebackType
from typing import Literal, Self

from hakaru.errors import EnvironmentError_, HakaruError, LostError

from tests.guests.image import Image

HOST_ADDRESS = "10.0.2.2"
"""Address of this machine's loopback in a guest: `10.0.2.2:3260` is `127.0.0.1:3260` of the host.
"""

Accelerator = Literal["kvm", "tcg"]

MEMORY_DEFAULT_BYTES = 768 * 1024**2
# With working KVM a kernel prints its first line within 1 s. Otherwise it never does, or QEMU ends
# at once.
FIRST_OUTPUT_TIMEOUT_S = {"kvm": 10.0, "tcg": 60.0}
# Booting takes 2 s with KVM and 10 s with TCG on an idle machine with 2 cores.
BOOT_TIMEOUT_S = {"kvm": 60.0, "tcg": 240.0}
POWER_OFF_TIMEOUT_S = 30.0
# Time beyond a script's own limit for the guest to stop it and to answer.
_ANSWER_S = 30.0
_CONSOLE_LINES = 60
_CONSOLE_LINE_MAX = 500
# Limit of a command or an answer in base64. Scripts and their output are meant for people.
_LINE_MAX_BYTES = 64 * 1024**2
_KILLED = 128 + 9
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class GuestCommandError(HakaruError):
    """A script in a guest ended with a status other than 0."""

    def __init__(self, guest: str, script: str, status: int, output: str) -> None:
        super().__init__(f"{guest}: `{script.strip()}` ended with status {status}\n{output}")
        self.status = status
        self.output = output


class Guest:
    """A running guest, created by `boot`."""

    _kvm_fails: str = ""
    """Reason why no guest boots on KVM here, after the first attempt. This process does not retry.
    """

    def __init__(self, name: str, accelerator: Accelerator, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.accelerator: Accelerator = accelerator
        """`kvm`, or `tcg`, which is about 20 times slower."""
        self.accelerator_why = ""
        """Reason why the accelerator is not `kvm`."""
        self.kernel_version = ""
        """Kernel version as reported by the guest."""
        self._process = process
        self._console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self._spoke = asyncio.Event()
        self._reader = asyncio.create_task(self._read_console())
        self._orders: asyncio.StreamWriter | None = None
        self._answers: asyncio.StreamReader | None = None
        self._id = 0
        self._busy = asyncio.Lock()

    @classmethod
    async def boot(
        cls,
        name: str,
        image: Image,
        *,
        memory_bytes: int = MEMORY_DEFAULT_BYTES,
        cpus: int = 2,
        accelerator: Accelerator | None = None,
    ) -> Self:
        """Start a guest and wait until it accepts commands.

        `name`: host name. `memory_bytes`: at least 512 MiB, because its root is in memory.
        `accelerator`: None tries KVM and falls back to TCG if a guest does not boot on it, because
        the existence of /dev/kvm proves nothing.
        """
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not a host name")
        if accelerator != "tcg" and not Guest._kvm_fails:
            if os.access("/dev/kvm", os.R_OK | os.W_OK):
                try:
                    return await cls._boot(name, image, memory_bytes, cpus, "kvm")
                except LostError as error:
                    Guest._kvm_fails = f"this machine's KVM boots no guest: {error.message}"
            else:
                Guest._kvm_fails = "this machine has no KVM, or this user may not use it"
        if accelerator == "kvm":
            raise EnvironmentError_(Guest._kvm_fails, "let guests run on TCG, or use a machine with working KVM")
        guest = await cls._boot(name, image, memory_bytes, cpus, "tcg")
        guest.accelerator_why = "it was requested" if accelerator == "tcg" else Guest._kvm_fails
        return guest

    @classmethod
    async def _boot(cls, name: str, image: Image, memory_bytes: int, cpus: int, accelerator: Accelerator) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            command = _command(name, image, memory_bytes, cpus, accelerator, theirs.fileno())
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
            except BaseException:
                ours.close()
                raise
        guest = cls(name, accelerator, process)
        try:
            guest._answers, guest._orders = await asyncio.open_connection(sock=ours, limit=_LINE_MAX_BYTES)
            await guest._wait_for_output(FIRST_OUTPUT_TIMEOUT_S[accelerator])
            word, guest.kernel_version = (await guest._answer("boot", BOOT_TIMEOUT_S[accelerator])).split()
            assert word == "ready", word
        except BaseException:
            await guest.close()
            raise
        return guest

    async def run(self, script: str, *, timeout_s: float = 60.0) -> str:
        """Run a script in the guest's shell, one at a time; return its output of both streams.

        After `timeout_s` the script is killed and counts as failed with status 137. Raises
        GuestCommandError, LostError.
        """
        async with self._busy:
            self._id += 1
            order = f"{self._id} {timeout_s:.0f} {base64.b64encode(script.encode()).decode()}\n"
            await self._send_line(order)
            answer = (await self._answer("answer", timeout_s + _ANSWER_S)).split(" ")
        identity, status, output = int(answer[0]), int(answer[1]), base64.b64decode(answer[2]).decode(errors="replace")
        assert identity == self._id, f"{self.name} answered order {identity}, not {self._id}"
        if status != 0:
            text = output + (f"(killed after {timeout_s:g} s)\n" if status == _KILLED else "")
            raise GuestCommandError(self.name, script, status, text)
        return output

    async def power_off(self) -> None:
        """Let the guest write back its data and switch off. Raises LostError if it does not."""
        await self._send_line("off\n")
        try:
            status = await asyncio.wait_for(self._process.wait(), POWER_OFF_TIMEOUT_S)
        except TimeoutError:
            raise self._lost_error(f"did not switch off within {POWER_OFF_TIMEOUT_S:g} s") from None
        if status != 0:
            raise self._lost_error(f"ended with exit status {status}")

    def kill(self) -> None:
        """Cut the power: data that the guest has not written back are lost."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End the guest in any state. May be called twice."""
        try:
            self.kill()
            await self._process.wait()
        finally:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            if self._orders is not None:
                self._orders.close()

    def console(self) -> str:
        """Return the last lines of the serial console: messages of the kernel and of QEMU."""
        return "\n".join(self._console)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _wait_for_output(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._spoke.wait(), timeout_s)
        except TimeoutError:
            raise self._lost_error(f"printed nothing within {timeout_s:g} s") from None

    async def _send_line(self, order: str) -> None:
        assert self._orders is not None
        # The caller that waits for the answer reports a guest that is gone.
        with contextlib.suppress(ConnectionError):
            self._orders.write(order.encode())
            await self._orders.drain()

    async def _answer(self, action: str, timeout_s: float) -> str:
        assert self._answers is not None
        try:
            line = await asyncio.wait_for(self._answers.readline(), timeout_s)
        except TimeoutError:
            raise self._lost_error(f"did not {action} within {timeout_s:g} s") from None
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 1)
            raise self._lost_error(f"ended before its {action}")
        return line.decode()

    def _lost_error(self, problem: str) -> LostError:
        lines = " / ".join(line for line in self._console if line)
        return LostError(f"guest {self.name} ({self.accelerator}) {problem}", f"its console: {lines or 'empty'}")

    async def _read_console(self) -> None:
        assert self._process.stdout is not None
        pending = b""
        # The end of QEMU also counts as output, so that a waiter notices it.
        while chunk := await self._process.stdout.read(65536):
            self._spoke.set()
            *lines, pending = (pending + chunk).split(b"\n")
            pending = pending[-_CONSOLE_LINE_MAX:]
            self._console.extend(line.decode(errors="replace").strip()[-_CONSOLE_LINE_MAX:] for line in lines)
        self._console.append(pending.decode(errors="replace").strip())
        self._spoke.set()


def _command(name: str, image: Image, memory_bytes: int, cpus: int, accelerator: Accelerator, orders: int) -> list[str]:
    """Return the command of QEMU with only a console, a port for commands (a connected socket) and
    a network card.
    """
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            raise EnvironmentError_(f"{program} is not installed", f"sudo apt-get install {package}")
    processor = {"kvm": ["kvm", "host"], "tcg": ["tcg,thread=multi", "max"]}[accelerator]
    return [
        *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
        *("-name", name, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-sandbox", "on"),
        *("-machine", "q35,hpet=off,vmport=off", "-accel", processor[0], "-cpu", processor[1]),
        *("-smp", str(cpus), "-m", f"{memory_bytes // 1024**2}M"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
        *("-append", f"console=ttyS0 earlyprintk=ttyS0 loglevel=6 panic=-1 mitigations=off hakaru.name={name}"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=orders,fd={orders}"),
        *("-device", "virtserialport,chardev=orders,name=hakaru"),
        # QEMU's user-mode network, in which QEMU makes the guest's connections. The guest uses no
        # gateway and no name server.
        *("-netdev", "user,id=net,ipv6=off,net=10.0.2.0/24,host=" + HOST_ADDRESS),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
    ]
