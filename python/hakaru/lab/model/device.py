"""A device under test, `lab: device:`. Shape and units; `plan_lab` decides whether it can exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hakaru.guest.function import Function
from hakaru.guest.refusal import Refusal
from hakaru.guest.requirements import EMULATOR_BYTES, MEMORY_DEFAULT_BYTES, Facts
from hakaru.lab.model.machine import MachineSpec
from hakaru.units import Rate, format_size

Forwards = Literal["bridge", "routing", "xdp", "switch", "guest", "equipment"]


class GuestDeviceSpec(MachineSpec):
    """A guest with two NICs, which forwards frames from one to the other, or several of them: one
    behind the other, or side by side.
    """

    forwards: Literal["routing", "bridge"] = Field(
        default="routing",
        description="`routing`: IPv4 forwarding of the guest's kernel. `bridge`: its bridge; not with `igbvf` and "
        "`sr-iov`.",
    )

    chain: int = Field(
        default=1,
        ge=1,
        le=8,
        description="Number of such guests, one behind the other. Each forwards every frame, and has the same pinning.",
    )

    parallel: int = Field(
        default=1,
        ge=1,
        le=8,
        description="Number of such guests side by side, between the same two ports. Each forwards an equal share of "
        "the frames, and has the same pinning. Not with `chain`, and not with `forwards: bridge`.",
    )

    @model_validator(mode="after")
    def _check_guests(self) -> Self:
        if self.parallel > 1 and self.chain > 1:
            raise ValueError("guests are one behind the other (`chain`) or side by side (`parallel`); leave out one")
        if self.parallel > 1 and self.forwards == "bridge":
            raise ValueError("bridges side by side form a loop; use `forwards: routing` with `parallel`")
        if self.chain > 1 and self.nic.model == "macvtap":
            raise ValueError("no cable for a macvtap is between two guests; use `virtio-net` with `chain`")
        if self.forwards == "bridge" and (self.nic.traits.physical_driver or self.nic.model == "sr-iov"):
            raise ValueError("a virtual function receives only frames for its own address; use `forwards: routing`")
        return self

    @property
    def count(self) -> int:
        """Number of guests."""
        return self.chain * self.parallel

    @property
    def memory_bytes(self) -> int:
        """Memory of all guests and their emulators."""
        return self.count * (MEMORY_DEFAULT_BYTES + EMULATOR_BYTES)

    def refusal(self, facts: Facts, functions: Sequence[Function] = ()) -> Refusal | None:
        """The reason why a machine cannot run these guests as a device; None if it can.
        `functions`: those of the machine's adapters at both ports, for NICs that are functions.
        """
        if functions and self.count > 1:
            return Refusal(
                f"the ports of the site have functions for one guest, and the device has {self.count}",
                "use one guest: leave out `chain` and `parallel`",
            )
        if facts.memory_bytes is not None and self.memory_bytes > facts.memory_bytes:
            return Refusal(
                f"all guests of the device ({self.count}) may need {format_size(self.memory_bytes)} of memory, but "
                f"only {format_size(facts.memory_bytes >> 20 << 20)} are available",
                "use fewer guests, or a machine with more memory",
            )
        return super().refusal(facts, functions)


class DeviceSpec(BaseModel):
    """A device with two ports, and the way in which it forwards frames from one to the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="device", description="Name of the node.")
    forwards: Forwards = Field(
        default="bridge",
        description="`bridge`: a bridge of this kernel. `routing`: IPv4 forwarding of this kernel between two "
        "subnets, with static neighbours. `xdp`: a program in the driver that redirects each frame to the other port, "
        "which needs root. `switch`: hakaru's own switch, which forwards frame by frame. `guest`: a virtual machine. "
        "`equipment`: existing equipment between two interfaces that a site file names.",
    )
    guest: GuestDeviceSpec = Field(default=GuestDeviceSpec(), description="The guest, where it forwards.")
    own_thread: bool = Field(
        default=True,
        description="Whether the device works in threads of its own (threaded NAPI), with a finite queue in front "
        "of it. Without, the kernel forwards a frame within the call that sends it, so that a device never drops "
        "frames, but slows its sender. Not used by `switch`, which is a process of its own.",
    )
    port_rate: Rate | None = Field(
        default=None,
        description="Rate of each port of the device on the wire, preamble and gap included, behind a queue of 10 ms. "
        "It makes the device's highest rate known: 148,810 frames per second of 64 bytes at 100 Mbit/s. "
        "For `bridge` and `routing`. Default: as fast as the machine.",
    )
