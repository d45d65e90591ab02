"""Names of the initiator's entities (docs/reference/metrics.md)."""

from __future__ import annotations

TOTAL = "vms"
"""All VMs of an initiator together."""
