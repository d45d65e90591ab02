"""A guest as part of a lab: the virtual machine, apart from its task. Shape and units; `plan_lab`
decides whether it can exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hakaru.guest.function import Function
from hakaru.guest.nic import Nic
from hakaru.guest.recipe import RECIPES, RecipeName
from hakaru.guest.refusal import Refusal
from hakaru.guest.requirements import Facts, has_driver, requirements
from hakaru.units import Size

MEMORY_DEFAULT_BYTES, MEMORY_MIN_BYTES = 768 << 20, 512 << 20
"""The root of a guest is in memory: a third of the default."""


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


class MachineSpec(BaseModel):
    """The virtual machine of a guest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nic: Nic = Field(default=Nic(), description="Each NIC of the guest.")
    cpus: int = Field(default=2, ge=1, le=64, description="Virtual processors.")
    image: Literal["auto", "cloud", "generic", "file-server"] = Field(
        default="auto",
        description="Image of the guest. `auto`: the smallest one whose kernel has the NIC's driver; `file-server`: "
        "with Samba and virtual disks.",
    )
    pinning: PinningSpec = Field(default=PinningSpec(), description="Placement of the guest's work on processors.")

    @model_validator(mode="after")
    def _check_interrupts(self) -> Self:
        missing = {processor for processor in self.pinning.interrupts if not 0 <= processor < self.cpus}
        if missing:
            named = ", ".join(map(str, sorted(missing)))
            raise ValueError(f"`pinning.interrupts` names processor {named} of a guest with {self.cpus}, from 0 on")
        return self

    def refusal(self, facts: Facts, functions: Sequence[Function] = ()) -> Refusal | None:
        """The reason why a machine cannot run this guest; None if it can. `functions`: those of the
        machine's adapters that the guest gets.
        """
        missing = {*self.pinning.vcpus, *self.pinning.others} - facts.processors if facts.processors else set()
        if missing:
            return Refusal(
                f"it is pinned to processors {sorted(missing)}, which this machine or process lacks",
                f"use {sorted(facts.processors)}, or leave out `pinning`",
            )
        return requirements(self.nic, RECIPES[self.recipe], facts, cpus=self.cpus, functions=functions)

    @property
    def recipe(self) -> RecipeName:
        """The image of the guest: that of the study, or the smallest one with the NIC's driver."""
        if self.image != "auto":
            return self.image
        return next((name for name, recipe in RECIPES.items() if has_driver(self.nic, recipe)), "generic")


class LoadGuestSpec(MachineSpec):
    """The guest that takes the place of each node with load."""

    memory: Size = Field(
        default=MEMORY_DEFAULT_BYTES,
        ge=MEMORY_MIN_BYTES,
        le=1 << 40,
        description="Memory of the guest, at least 512 MiB: its root is in memory.",
    )

    @model_validator(mode="after")
    def _check_nic(self) -> Self:
        if self.nic.mac is not None:
            raise ValueError("`nic.mac` would be the address of every guest; leave it out: each gets its own")
        return self

    def refusal(self, facts: Facts, functions: Sequence[Function] = ()) -> Refusal | None:
        """As `MachineSpec.refusal`."""
        if self.nic.traits.backend == "vhost-user":
            return Refusal("no process of a lab moves the frames of `vhost-user`", "use `virtio-net` or `vhost-net`")
        if self.nic.traits.backend in ("macvtap", "function"):
            return Refusal(f"only a device under test has NICs of the model `{self.nic.model}`", "use `virtio-net`")
        return super().refusal(facts, functions)
