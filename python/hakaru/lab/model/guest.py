"""The guests of a host, `lab: guests: HOST:`. Shape and units; `plan_lab` decides whether they can
exist.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from hakaru.units import Rate


class GuestsSpec(BaseModel):
    """Guests of one host. Each has a network interface of its own on the bridge of the host, and
    shares the host's link.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: tuple[str, ...] = Field(min_length=1, max_length=256, description="Names of the guests.")
    nic_rate: Rate | None = Field(
        default=None,
        description="Rate of each guest's interface in both directions, in bits per second on the wire: frames are "
        "spaced at this rate, and further frames wait in the guest. Default: as fast as the machine.",
    )
