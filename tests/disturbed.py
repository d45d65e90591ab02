"""Repeats tests of rates and times that the host of this virtual machine disturbed.

A stall of a hundred milliseconds delays more requests than the limits of a short measurement allow.
The kernel counts the time that the host took away as `steal`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ATTEMPTS = 3
STOLEN_TICKS_MIN = 10
"""Stolen time of a test, in hundredths of a second of all processors together, from which on it may
be repeated: one stall of 100 ms of one processor.
"""


def stolen_ticks() -> int:
    """Return the time that the host took from all processors since boot."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test marked `alone`. If it fails, and the host took time away meanwhile, run it again
    with new fixtures, at most three times in all.
    """
    if item.get_closest_marker("alone") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(ATTEMPTS):
        stolen = stolen_ticks()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if attempt + 1 == ATTEMPTS or not any(report.failed for report in reports):
            break
        stolen = stolen_ticks() - stolen
        if stolen < STOLEN_TICKS_MIN:
            break
        # A fixture of a module may be the measurement itself.
        item.session._setupstate.teardown_exact(None)
        terminal = item.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"{item.nodeid} is repeated: the host took {stolen / 100:.2f} s meanwhile")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
