"""A device under test, `lab: device:`. Shape and units; `plan_lab` decides whether it can exist."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hakaru.guest.requirements import Facts, Refusal
from hakaru.lab.model.machine import MachineSpec

Forwards = Literal["bridge", "routing", "xdp", "switch", "guest", "equipment"]


class GuestDeviceSpec(MachineSpec):
    """A guest with two NICs, which forwards frames from one to the other, or a chain of them."""

    forwards: Literal["routing", "bridge"] = Field(
        default="routing", description="`routing`: IPv4 forwarding of the guest's kernel. `bridge`: its bridge."
    )

    chain: int = Field(
        default=1,
        ge=1,
        le=8,
        description="Number of such guests, one behind the other. Each forwards every frame, and has the same pinning.",
    )

    def refusal(self, facts: Facts) -> Refusal | None:
        """The reason why a machine cannot run this guest as a device; None if it can."""
        if self.nic.model == "vhost-user" and self.nic.queues > 1:
            return Refusal("a port of the fabric in a guest's memory has one pair of queues", "use `queues: 1`")
        return super().refusal(facts)


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
