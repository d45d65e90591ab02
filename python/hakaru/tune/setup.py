"""Complete input of a tuning. run.json stores it under `tuning`, so that `--resume` needs nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hakaru.tune import knobs
from hakaru.tune.closed_form import reachable_bytes_per_s
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import Defaults, Machine, Space
from hakaru.tune.search import Goal, Search
from hakaru.tune.tuning import Limits, Peer, Tuning


@dataclass(frozen=True)
class Setup:
    """Complete input of a tuning."""

    conditions: Conditions
    defaults: Defaults
    machine: Machine
    space: Space
    goal: Goal
    seed: int
    limits: Limits
    trial_ns: int
    """Measuring time of one trial."""
    start: str
    """Source of the knobs' first values: `defaults`, or a study."""
    lab: bool
    """True for a lab, in which both ends can be set; False for a real target."""
    peer: Peer | None = None
    """A setting to compare with the best."""

    @property
    def tuning(self) -> Tuning:
        """Procedure of this tuning."""
        search = Search(self.conditions, self.space, self.machine, self.goal, self.seed)
        return Tuning(search, self.limits, self.peer)

    @property
    def reachable_mb_per_s(self) -> float | None:
        """Throughput that no setting can exceed."""
        reachable = reachable_bytes_per_s(self.conditions, self.space)
        return None if reachable is None else reachable / 1e6

    def describe(self) -> dict[str, Any]:
        """Return a JSON object that `of_json` reads."""
        return {
            "conditions": self.conditions.describe(),
            "defaults": asdict(self.defaults),
            "machine": asdict(self.machine) | {"congestion_controls": list(self.machine.congestion_controls)},
            "knobs": knobs.describe(self.space),
            "goal": self.goal,
            "seed": self.seed,
            "limits": asdict(self.limits),
            "trial_ns": self.trial_ns,
            "start": self.start,
            "lab": self.lab,
            "peer": None if self.peer is None else {"name": self.peer.name, "settings": dict(self.peer.settings)},
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Setup:
        """Setup from the output of `describe`."""
        machine = value["machine"] | {"congestion_controls": tuple(value["machine"]["congestion_controls"])}
        return cls(
            conditions=Conditions.of_json(value["conditions"]),
            defaults=Defaults(**value["defaults"]),
            machine=Machine(**machine),
            space=knobs.of_json(value["knobs"]),
            goal=value["goal"],
            seed=value["seed"],
            limits=Limits(**value["limits"]),
            trial_ns=value["trial_ns"],
            start=value["start"],
            lab=value["lab"],
            peer=Peer(value["peer"]["name"], value["peer"]["settings"]) if value.get("peer") else None,
        )
