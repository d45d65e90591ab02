"""The engines of one repetition, and what they have sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.engine import contract
from hakaru.engine.session import EngineSession
from hakaru.fileserver.samba import Samba
from hakaru.store import Histograms, Samples


@dataclass
class Gang:
    """The engines of one repetition, by kind."""

    fabrics: list[EngineSession] = field(default_factory=list)
    servers: list[EngineSession] = field(default_factory=list)
    watches: list[EngineSession] = field(default_factory=list)
    loads: list[EngineSession] = field(default_factory=list)
    file_servers: dict[str, Samba] = field(default_factory=dict)
    tcp: dict[str, Path] = field(default_factory=dict)
    captures: dict[str, Path] = field(default_factory=dict)

    def all(self) -> list[EngineSession]:
        """All engines; those whose failure makes others fail come first."""
        return [*self.fabrics, *self.servers, *self.loads, *self.watches]


@dataclass
class Messages:
    """Messages of the engines."""

    samples: Samples = field(default_factory=Samples)
    histograms: Histograms = field(default_factory=Histograms)
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, contract.Result] = field(default_factory=dict)
    chains: dict[str, Any] = field(default_factory=dict)
    measure_ns: list[int] = field(default_factory=list)
    drain_ns: list[int] = field(default_factory=list)
