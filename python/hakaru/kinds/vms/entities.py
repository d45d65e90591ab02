"""Names of the initiator's entities (docs/reference/metrics.md)."""

from __future__ import annotations

TOTAL = "vms"
"""The entity that sums up all VMs of an initiator."""
STREAM_ENGINE = "probe"
"""Engine that sends plain streams."""
STREAMS = "tcp/streams"
"""Entity of the connections of its streams."""
