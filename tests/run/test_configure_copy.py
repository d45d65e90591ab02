"""Configurations of the engines for a point of a copy study."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hakaru.engine import contract
from hakaru.kinds.copy.configure import copy_configs, lab_targets
from hakaru.lab.plan import plan_lab
from hakaru.run.configure import array_configs
from hakaru.run.plan import cost_of
from hakaru.study import Expanded, expand, load

from tests.study.copying import COPYING, PUBLISHED


def expanded(folder: Path, *changes: tuple[str, str]) -> Expanded:
    text = COPYING
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "study.yaml").write_text(text)
    (folder / "published.csv").write_text(PUBLISHED)
    return expand(load(str(folder / "study.yaml")).study)


def configs(study_points: Expanded, case: str) -> dict[str, contract.BackupConfig]:
    turn = next(t for t in study_points.repetitions if t.point.factors == {"case": case})
    study = study_points.at(turn.point)
    plan = plan_lab(study.lab)
    targets = lab_targets(study, {name: plan.portals(name) for name in plan.array_names})
    return copy_configs(study_points, turn, plan.host_names, targets)


def test_images_are_consecutive_at_both_ends_and_do_not_overlap(tmp_path: Path) -> None:
    (config,) = configs(expanded(tmp_path), "plain").values()
    assert [job.name for job in config.jobs] == ["vm01", "vm02", "vm03", "vm04"]
    for side in ("source_offset_bytes", "destination_offset_bytes"):
        offsets = [getattr(job, side) for job in config.jobs]
        assert all(
            offset + job.length_bytes == later
            for job, (offset, later) in zip(config.jobs[:-1], pairwise(offsets), strict=True)
        )
    assert {(job.source.lun, job.destination.lun) for job in config.jobs} == {(0, 1)}
    assert len({job.source.initiator_name for job in config.jobs}) == 4
    assert config.time_limit_s == 10.0
    assert config.sample_interval_ms == 100


def test_changes_of_a_point_reach_its_engines(tmp_path: Path) -> None:
    study_points = expanded(tmp_path)
    (plain,), (checked,) = configs(study_points, "plain").values(), configs(study_points, "checked").values()
    assert {(job.verify, job.rate_limit_bytes_per_s) for job in plain.jobs} == {(False, None)}
    assert {(job.verify, job.rate_limit_bytes_per_s) for job in checked.jobs} == {(True, 10_000_000)}


def test_jobs_alternate_between_hosts_and_lus(tmp_path: Path) -> None:
    more = "    - {lun: 1, size: 64 MiB}\n    - {lun: 2, size: 64 MiB}\n"
    study_points = expanded(
        tmp_path,
        ("  hosts: 1\n", "  hosts: 2\n"),
        ("    - {lun: 1, size: 64 MiB}\n", more),
        ("to: {array: array, lus: [1]}", "to: {array: array, lus: [1, 2]}"),
    )
    by_host = configs(study_points, "plain")
    assert {host: [job.name for job in c.jobs] for host, c in by_host.items()} == {
        "host-1": ["vm01", "vm03"],
        "host-2": ["vm02", "vm04"],
    }
    places = [(job.destination.lun, job.destination_offset_bytes >> 20) for c in by_host.values() for job in c.jobs]
    assert sorted(places) == [(1, 0), (1, 8), (2, 0), (2, 8)]


def test_source_is_filled_with_the_same_data_in_every_repetition(tmp_path: Path) -> None:
    study_points = expanded(tmp_path)
    first, second = (
        array_configs(study_points, turn, plan_lab(study_points.study.lab))["array"]
        for turn in study_points.repetitions[:2]
    )
    stores = [lu.store for lu in first.lus]
    assert all(isinstance(store, contract.MemoryStore) for store in stores)
    seeds = [store.fill_seed for store in stores if isinstance(store, contract.MemoryStore)]
    assert seeds[0] is not None and seeds[1] is None
    assert stores[0] == contract.MemoryStore(fill_seed=seeds[0], fill_compressible_percent=50)
    assert [lu.store for lu in second.lus] == stores
    assert first.seed != second.seed


def test_longest_time_of_a_copy_is_its_limit_plus_verification(tmp_path: Path) -> None:
    study_points = expanded(tmp_path)
    plain, _, checked = (cost_of(study_points, point, None) for point in study_points.points[:3])
    assert plain.seconds_max == 10.0
    assert checked.seconds_max > 10.0
    # The transfer of 32 MiB over 100 Mbit/s takes 2.7 s.
    assert 2.7 < cost_of(study_points, study_points.points[0], plan_lab(study_points.study.lab)).seconds <= 10.0
