"""Commands that join paths in a guest: the shell accepts them, and they contain the settings."""

from __future__ import annotations

import re
import subprocess

import pytest
from hakaru.guest import multipath
from hakaru.guest.multipath import KernelMultipath, Manager, Policy


def use(manager: Manager = "table", policy: Policy = "round_robin", no_path_s: int = 30) -> KernelMultipath:
    return KernelMultipath(manager, policy, recovery_s=5, check_s=2, failback_s=3, no_path_s=no_path_s)


@pytest.mark.parametrize("policy", ["round_robin", "least_queue_depth", "failover"])
def test_shell_accepts_every_script(policy: Policy) -> None:
    scripts = [
        multipath.join_script(0, ["sda", "sdb"], use(policy=policy)),
        multipath.part_script("paths-0"),
        multipath.multipathd_script([["sda", "sdb"], ["sdc", "sdd"]], use("multipathd", policy)),
        multipath.end_multipathd_script(["dm-0", "dm-1"]),
    ]
    # The inner script is text for the shell of the outer one.
    scripts += re.findall(r"<<'END'\n(lines?.*?|sda=.*?)\nEND\n", scripts[0], re.DOTALL)
    assert len(scripts) == 5
    for script in scripts:
        done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


@pytest.mark.parametrize(
    ("policy", "described"),
    [
        ("round_robin", "1 1 round-robin 0 2 1 $(cat /sys/block/sda/dev) 1 $(cat /sys/block/sdb/dev) 1"),
        ("least_queue_depth", "1 1 queue-length 0 2 1 $(cat /sys/block/sda/dev) 1 $(cat /sys/block/sdb/dev) 1"),
        (
            "failover",
            "2 1 round-robin 0 1 1 $(cat /sys/block/sda/dev) 1 round-robin 0 1 1 $(cat /sys/block/sdb/dev) 1",
        ),
    ],
)
def test_table_has_the_groups_of_the_policy(policy: Policy, described: str) -> None:
    script = multipath.join_script(0, ["sda", "sdb"], use(policy=policy))
    assert f'"0 $sectors multipath 1 queue_if_no_path 0 {described}"' in script
    assert ("switch_group 2" in script) == (policy == "failover")


def test_requests_without_a_path_fail_at_once_if_they_may_not_wait() -> None:
    assert "queue_if_no_path 0" not in multipath.join_script(0, ["sda"], use(no_path_s=0))
    assert "no_path_retry fail" in multipath.multipath_conf(use(no_path_s=0))
    # Fifteen checks of two seconds.
    assert "no_path_retry 15" in multipath.multipath_conf(use())


def test_multipathd_has_the_timers_and_follows_the_access_states() -> None:
    text = multipath.multipath_conf(use("multipathd", "failover"))
    for line in (
        "polling_interval 2",
        "max_polling_interval 2",
        "fast_io_fail_tmo 5",
        "path_grouping_policy failover",
        "prio alua",
        'hardware_handler "1 alua"',
        "path_checker tur",
    ):
        assert re.search(rf"^ +{re.escape(line)}$", text, re.MULTILINE), line
