"""The utilisation at which each resource counts as saturated, in percent."""

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
"""Limits in percent that differ from the default. Drives: a stripe is as slow as its slowest drive.
Links: their busy time includes the start and the end of a copy. Processes: none can use more than
one CPU.
"""
SUMS = ("drives_average", "group/")
"""Prefixes of resources that only sum up others and have no limit of their own."""
MACHINE = "cpu/machine"
"""The CPUs of this machine. If the load runs on several machines, `cpu/machine/NODE` are those of
each.
"""
TEST_SETUP = ("cpu/initiator", "cpu/backup", "cpu/array", "cpu/fabric", MACHINE)
"""CPU resources of the test setup, which are not part of the system under test."""
LATE_MAX_US = 200.0
"""99th percentile of the lateness of an emulated network's frames that is still on time."""


def is_machine(resource: str) -> bool:
    """Whether a resource is the CPUs of a machine."""
    return resource == MACHINE or resource.startswith(f"{MACHINE}/")


def is_test_setup(resource: str) -> bool:
    """Whether a resource belongs to the test setup, and not to the system under test."""
    return resource in TEST_SETUP or is_machine(resource)


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


def fell_behind(cpu_percent: float, late_us: float | None) -> bool:
    """Whether a thread of the fabric used a CPU up and frames were late. A busy CPU alone is no
    problem as long as frames are on time.

    `late_us`: 99th percentile of lateness, µs. If it is None (not reported), the CPU alone decides.
    """
    return cpu_percent >= limit_of("cpu/fabric") and (late_us is None or late_us > LATE_MAX_US)
