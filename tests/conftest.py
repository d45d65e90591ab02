"""Settings of all tests, and a fixture with a run of invented numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.disturbed import pytest_runtest_protocol
from tests.fixtures.make_run import make_run

__all__ = ["pytest_runtest_protocol"]  # a hook

# The time of an example depends on the machine.
settings.register_profile("hakaru", deadline=None)
# `make test-long` runs 50 times as many examples, different ones every time.
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("long" if "HAKARU_LONG" in os.environ else "hakaru")


# Files that take longest, the longest first. They start first, because a long file that starts last
# keeps one worker busy after the others have finished. Files that mostly wait stand beside files
# that compute. pytest ignores the order of its arguments.
LONGEST = (
    "guests/test_kernel_paths.py",
    "guests/test_device.py",
    "guests/test_file_chain.py",
    "guests/test_load_guest.py",
    "guests/test_file_server.py",
    "guests/test_thin_lu.py",
    "guests/test_vhost_user.py",
    "guests/test_power_cut.py",
    "guests/test_forwarding.py",
    "guests/test_open_iscsi.py",
    "guests/test_machine.py",
    "guests/test_disk_extension.py",
    "guests/test_tape_programs.py",
    "guests/test_pool_growth.py",
    "guests/test_tape.py",
    "run/test_in_lab_tune.py",
    "run/test_load_hosts.py",
    "report/test_browser.py",
    "report/test_page.py",
    "run/test_copy_to_tape.py",
    "run/test_in_lab.py",
    "report/test_output.py",
    "test_guide_kind.py",
    "kinds/files/test_run.py",
    "run/test_on_site.py",
    "cli/test_scorecard.py",
    "web/test_browser.py",
    "lab/test_leftovers.py",
    "engine/test_files_smb.py",
    "test_kind.py",
    "report/test_backup.py",
    "lab/test_sandbox.py",
    "run/test_vlans_in_lab.py",
    "run/test_goal.py",
    "conformance/test_conformance.py",
    "run/test_precision.py",
    "run/test_warm_up.py",
    "fileserver/test_samba.py",
    "run/test_guests_in_lab.py",
    "run/test_copying.py",
    "run/test_long_way.py",
    "run/test_path_failover.py",
    "run/test_attach_in_lab.py",
    "cli/test_cli.py",
)
RANK = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}


def pytest_configure() -> None:
    assert all(path.is_file() for path in RANK), "every file of LONGEST exists"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: RANK.get(item.path, len(RANK)))


@pytest.fixture(scope="session")
def invented_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a finished run of the quick form of vm-sweep with numbers from a queueing model.

    All tests share its files: do not change them.
    """
    return make_run(tmp_path_factory.mktemp("runs"))
