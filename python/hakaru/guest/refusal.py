"""The reason why this machine cannot do something."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """Reason why a guest or its NIC cannot be used, and what would change that."""

    reason: str
    hint: str
