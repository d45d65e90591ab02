"""A device under test, `lab: device:`. Shape and units; `plan_lab` decides whether it can exist."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hakaru.guest.nic import Nic
from hakaru.guest.recipe import RECIPES, RecipeName
from hakaru.guest.requirements import Facts, Refusal, requirements

Forwards = Literal["bridge", "routing", "xdp", "switch", "guest"]


class PinningSpec(BaseModel):
    """Processors for the parts of a guest. Empty: wherever the scheduler places them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vcpus: tuple[int, ...] = Field(
        default=(), description="Processor of this machine for each virtual processor, in turns."
    )
    others: tuple[int, ...] = Field(default=(), description="Processors of this machine for QEMU's other threads.")
    interrupts: tuple[int, ...] = Field(
        default=(), description="Processors of the guest for the interrupts of each NIC, in turns."
    )


class GuestDeviceSpec(BaseModel):
    """A guest with two NICs, which forwards frames from one to the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nic: Nic = Field(default=Nic(), description="Both NICs of the guest.")
    cpus: int = Field(default=2, ge=1, le=64, description="Virtual processors.")
    image: Literal["auto", "cloud", "generic"] = Field(
        default="auto", description="Image of the guest. `auto`: the smallest one whose kernel has the NIC's driver."
    )
    forwards: Literal["routing", "bridge"] = Field(
        default="routing", description="`routing`: IPv4 forwarding of the guest's kernel. `bridge`: its bridge."
    )
    pinning: PinningSpec = Field(default=PinningSpec(), description="Placement of the guest's work on processors.")

    def refusal(self, facts: Facts) -> Refusal | None:
        """The reason why a machine cannot run this guest as a device; None if it can."""
        if self.nic.traits.backend == "macvtap":
            return Refusal(
                "the lab has no macvtap: its device in /dev is named by a number that is not unique across namespaces",
                "use `virtio-net`",
            )
        return requirements(self.nic, RECIPES[self.recipe], facts, cpus=self.cpus)

    @property
    def recipe(self) -> RecipeName:
        """The image of the guest: that of the study, or the smallest one with the NIC's driver."""
        if self.image != "auto":
            return self.image
        driver = self.nic.traits.driver
        return next((name for name, recipe in RECIPES.items() if driver in recipe.drivers), "generic")


class DeviceSpec(BaseModel):
    """A device with two ports, and the way in which it forwards frames from one to the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="device", description="Name of the node.")
    forwards: Forwards = Field(
        default="bridge",
        description="`bridge`: a bridge of this kernel. `routing`: IPv4 forwarding of this kernel between two "
        "subnets, with static neighbours. `xdp`: a program in the driver that redirects each frame to the other port, "
        "which needs root. `switch`: hakaru's own switch, which forwards frame by frame. `guest`: a virtual machine.",
    )
    guest: GuestDeviceSpec = Field(default=GuestDeviceSpec(), description="The guest, where it forwards.")
    own_thread: bool = Field(
        default=True,
        description="Whether the device works in threads of its own (threaded NAPI), with a finite queue in front "
        "of it. Without, the kernel forwards a frame within the call that sends it, so that a device never drops "
        "frames, but slows its sender. Not used by `switch`, which is a process of its own.",
    )
