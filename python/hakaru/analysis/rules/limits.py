"""From which utilisation a resource is at its limit, in percent, and how close to full it is beyond
that.
"""

from __future__ import annotations

DEFAULT_LIMIT = 95.0
LIMITS = {
    "drives": 98.0,
    "link": 90.0,
    "cpu/initiator": 90.0,
    "cpu/backup": 90.0,
    "cpu/array": 90.0,
    "cpu/fabric": 90.0,
}
"""A stripe is as slow as its slowest drive; a link's busy time includes the begin and the end of a
copy; a process has no more than one processor.
"""
SUMS = ("drives_average", "group/")
"""Resources that only sum up others: never at a limit of their own."""
TEST_SETUP = ("cpu/initiator", "cpu/backup", "cpu/array", "cpu/fabric", "cpu/machine")
"""Processors of this machine: none of them is a part of the system under test."""


def limit_of(resource: str) -> float:
    """Percent from which `resource` (`drives/vtl`, `link/array/a>b`, `cpu/machine`) is at its
    limit.
    """
    return LIMITS.get(resource) or LIMITS.get(resource.partition("/")[0], DEFAULT_LIMIT)


def fill_of(resource: str, percent: float) -> float:
    """Return the position of a resource between its limit (0) and full (1). It is negative below
    the limit.
    """
    limit = limit_of(resource)
    return (percent - limit) / (100.0 - limit)
