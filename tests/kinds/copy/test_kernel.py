"""The kernel of a guest as initiator of copies: its logins, jobs on its disks, and settings that it
lacks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.kinds.copy import study as copy_study
from hakaru.kinds.copy.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.run.kind import KernelLoad
from hakaru.study.expand import Expanded, expand
from hakaru.study.model import Study

from tests.study.shipped import shipped

LEVEL = {"lab.load_guest": {}, "load.initiator": "kernel"}


def point_with(changes: dict[str, Any]) -> Expanded:
    """One point with the kernel as initiator, and with changes of the study."""
    written = dict(shipped("backup-mismatch").study.written)
    written["variables"] = {"initiator": {"open-iscsi": LEVEL | changes}}
    written["factors"] = [{"initiator": ["open-iscsi"]}]
    left_out = dict.fromkeys(("quick", "calibrated", "reference", "expect"))
    return expand(Study.model_validate({k: v for k, v in (written | left_out).items() if v is not None}))


def configured(changes: dict[str, Any]) -> tuple[Study, dict[str, contract.BackupConfig]]:
    expanded = point_with(changes)
    (point,) = expanded.points
    study = expanded.at(point)
    loads = RUN.loads(expanded, expanded.repetitions[0], plan_lab(study.lab))
    return study, {node: config for node, config in loads.items() if isinstance(config, contract.BackupConfig)}


def kernel_load_of(study: Study, config: contract.EngineConfig) -> KernelLoad:
    kernel_load = RUN.kernel_load(study, config)
    assert kernel_load is not None
    return kernel_load


def test_job_has_one_session_to_each_array() -> None:
    study, loads = configured({})
    assert list(loads) == ["vm01", "vm02", "vm03", "vm04"]
    disks = kernel_load_of(study, loads["vm02"]).disks
    assert [disk.login.target_name.rpartition(":")[2] for disk in disks] == ["primary", "vtl"]
    assert {disk.login.initiator_name.rpartition(":")[2] for disk in disks} == {"vm02"}
    # The limits of open-iscsi hold a job's eight blocks.
    assert all("node.session.queue_depth" not in dict(disk.login.settings) for disk in disks)


def test_deep_job_has_a_session_that_holds_its_blocks() -> None:
    study, loads = configured({"load.depth": 64})
    for disk in kernel_load_of(study, loads["vm01"]).disks:
        settings = dict(disk.login.settings)
        assert (settings["node.session.queue_depth"], settings["node.session.cmds_max"]) == ("64", "128")


def test_jobs_on_disks_copy_the_same_images() -> None:
    study, loads = configured({})
    config = loads["vm03"]
    kernel_load = kernel_load_of(study, config)
    paths = dict(zip(kernel_load.disks, ("/dev/sda", "/dev/sdb"), strict=True))
    on_disks = kernel_load.on(paths)
    assert isinstance(on_disks, contract.BackupConfig)
    (before,), (after,) = config.jobs, on_disks.jobs
    assert after.disks == contract.Disks(source="/dev/sda", destination="/dev/sdb")
    assert after.model_copy(update={"disks": None}) == before
    assert on_disks.time_limit_s == config.time_limit_s


def test_hakarus_initiator_needs_no_disks() -> None:
    study, loads = configured({"load.initiator": "hakaru"})
    assert RUN.kernel_load(study, loads["vm01"]) is None


TAPES = {"generation": "lto5", "cartridges": 4, "capacity": "16 GiB"}
TAPE_ARRAY = {"target_name": "iqn.2013-01.example.hakaru:vtl", "model": {"kind": "none"}, "tape_library": TAPES}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"lab.load_guest": None}, "initiator"),
        ({"load.streams": 2}, "streams"),
        ({"arrays.vtl": TAPE_ARRAY, "load.to": {"array": "vtl", "tape": {}}}, "initiator"),
    ],
)
def test_settings_that_the_kernel_lacks_are_refused(changes: dict[str, Any], place: str) -> None:
    expanded = point_with(changes)
    problems = list(copy_study.STUDY.point_problems(expanded.at(expanded.points[0])))
    assert [(path, bool(hint)) for path, _, hint in problems] == [(("load", place), True)]
