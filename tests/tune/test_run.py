"""The run directory of a tuning: whole at every instant, resumable from any, and enough to make its
report again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.errors import Interrupted, UsageError
from hakaru.kinds.vms.load import load_at
from hakaru.run.site_file import load_site
from hakaru.store import RunReader
from hakaru.study import load
from hakaru.study.consistency import problems
from hakaru.tune import run as tuning
from hakaru.tune.setup import Setup
from hakaru.tune.start import TODAY, defaults_from, peer_from
from hakaru.tune.study import factors_of, load_base
from hakaru.tune.tuning import Peer

from tests.tune.model_run import interrupt_at, refuse, resume_model, run_model, settings_of, small_setup
from tests.tune.path_model import PathModel, search_only

ROOT = Path(__file__).parents[2]
SHARE = 0.9


def course(directory: Path) -> list[object]:
    """What was measured, in its order."""
    return [(r["point"], r["repetition"], r["tuning"]["phase"], r["tuning"]["knob"], r["tuning"]["settings"])
            for r in RunReader(directory).repetitions()]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuning that was never interrupted; with all trials of its search, since the bound is out of
    reach.
    """
    return run_model(tmp_path_factory.mktemp("runs"), small_setup(), share=SHARE)


def test_setup_and_settings_survive_their_json_and_the_study_holds_together() -> None:
    setup = small_setup()
    assert Setup.of_json(setup.describe()) == setup
    study = load_base(setup).study
    assert problems(study) == []
    model = PathModel(setup.conditions, setup.machine)
    for tried in search_only(model.search(), model, 8):
        factors = factors_of(setup, tried.settings)
        assert settings_of(setup, factors) == tried.settings
        at = load_at(study.at(factors)).iscsi
        assert at.initiator.max_burst_length == at.target.max_burst_length == tried.settings["max_burst_length"]
        buffer = tried.settings["send_buffer"]
        assert at.initiator.socket.send_buffer == (None if buffer == "auto" else buffer)
        assert list(at.problems()) == []


def test_study_of_a_run_can_be_run_by_itself(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes((whole / "study.yaml").read_bytes())
    assert load(str(tmp_path)).study.variables.keys() >= {"initial_r2t", "send_buffer"}


def test_every_trial_is_a_repetition_and_points_are_settings(whole: Path) -> None:
    reader = RunReader(whole)
    records = reader.repetitions()
    assert [r["tuning"]["phase"] for r in records].count("search") == 5
    by_point: dict[str, object] = {}
    for record in records:
        settings = record["tuning"]["settings"]
        assert by_point.setdefault(record["point"], settings) == settings
    points = reader.read("points.json")
    assert {p["point"]: p["repetitions"] for p in points} == {
        p: sum(r["point"] == p for r in records) for p in by_point
    }
    assert reader.read("run.json")["status"] == "done"


@pytest.mark.parametrize("order", [3, 20])
def test_ctrl_c_loses_the_trial_it_falls_into_and_nothing_else(whole: Path, tmp_path: Path, order: int) -> None:
    with pytest.raises(Interrupted) as e:
        run_model(tmp_path, small_setup(), interrupt_at(order), SHARE)
    assert e.value.exit_code == 130
    assert "hakaru tune --resume" in e.value.hint
    (directory,) = tmp_path.iterdir()
    assert RunReader(directory).read("run.json")["status"] == "interrupted"
    assert len(course(directory)) == order - 1
    resumed = resume_model(directory.name, tmp_path, share=SHARE)
    assert course(resumed) == course(whole)


KILLED = """\
import os, signal, sys
from pathlib import Path
from tests.tune.model_run import run_model, settings_of, small_setup
def before(settings, order):
    if order == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return False
run_model(Path(sys.argv[1]), small_setup(), before, 0.9)
"""


def test_killed_run_goes_on_where_it_stopped(whole: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "7"], env=environment, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    (directory,) = tmp_path.iterdir()
    assert directory.suffix == ".partial" and len(course(directory)) == 6
    assert course(resume_model("latest", tmp_path, share=SHARE)) == course(whole)


def test_same_seed_repeats_the_whole_course(whole: Path, tmp_path: Path) -> None:
    assert course(run_model(tmp_path, small_setup(), share=SHARE)) == course(whole)
    other = course(run_model(tmp_path / "other", small_setup(seed=2), share=SHARE))
    assert other != course(whole) and other[:2] == course(whole)[:2]


def test_settings_that_the_target_refuses_are_a_trial_that_failed(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup(), refuse(lambda settings, order: order == 2))
    found = summarise(directory)["tuning"]
    assert [t["error"] is not None for t in found["trials"][:3]] == [False, True, False]
    assert "closed the connection" in found["trials"][1]["error"]
    assert found["best"] is not None and found["advised"] is not None


def test_target_that_refuses_everything_ends_it(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup(), refuse(lambda settings, order: True))
    summary = summarise(directory)
    assert summary["tuning"]["ended"] == "failed" and summary["tuning"]["advised"] is None
    assert not summary["valid"]
    assert [f["kind"] for f in summary["findings"]] == ["tuning_failed"]


def test_summary_says_what_was_found_and_what_to_set(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup())
    summary = summarise(directory)
    found = summary["tuning"]
    assert summary["valid"] and found["finished"] and found["ended"] == "reached"
    assert found["default"]["settings"] == {}
    assert found["best"]["mb_per_s"]["median"] > 4 * found["default"]["mb_per_s"]["median"]
    assert found["best"]["mb_per_s"]["n"] == 2
    assert found["best"]["reachable_percent"] > 97
    losses = [c["loss_percent"] for c in found["contributions"]]
    assert losses == sorted(losses, reverse=True) and losses[0] > 50
    contributing = {c["knob"] for c in found["contributions"] if c["contributes"]}
    assert contributing <= set(found["advised"]["settings"]) and found["advised"]["confirmed"]
    text = {block["name"]: block["text"] for block in found["text"]}
    assert "node.session.iscsi.MaxBurstLength = 4194304" in text["open-iscsi-conf"]
    assert "--name MaxBurstLength --value 4194304" in text["tgt"]
    assert "set parameter MaxBurstLength=4194304" in text["lio"]


def test_setting_from_a_study_is_measured_beside_the_best(tmp_path: Path) -> None:
    setup = small_setup()
    name = "long-distance:settings=optimised"
    settings = peer_from(name, setup.conditions, setup.space, setup.machine, lab=True)
    # Half of the 32 MiB that buffers may grow to there, since the kernel doubles it; no level that
    # the search draws.
    assert settings["send_buffer"] == 16 << 20 and settings["commands"] == 32
    with_peer = replace(setup, peer=Peer(name, settings))
    assert Setup.of_json(with_peer.describe()) == with_peer
    directory = run_model(tmp_path, with_peer)
    found = summarise(directory)["tuning"]
    best, peer = found["best"], found["peer"]
    assert peer["name"] == name and peer["mb_per_s"]["n"] == best["mb_per_s"]["n"] == 2
    # As many requests outstanding as the best has.
    assert peer["settings"]["queue_depth"] == best["settings"]["queue_depth"]
    assert peer["low"] <= peer["best_percent"] <= peer["high"]
    assert peer["best_percent"] == pytest.approx(100, abs=3)
    assert "(peer)" not in [c["knob"] for c in found["contributions"]]
    assert "tuning_peer" in [f["kind"] for f in summarise(directory)["findings"]]


def test_level_that_a_study_does_not_have_is_said(tmp_path: Path) -> None:
    setup = small_setup()
    with pytest.raises(UsageError, match="--against long-distance:setting=optimised: 'setting' is no variable"):
        peer_from("long-distance:setting=optimised", setup.conditions, setup.space, setup.machine, lab=True)


def test_defaults_are_those_that_the_study_long_distance_documents() -> None:
    """Of open-iscsi 2.1 and LIO; the README of the study has their sources."""
    assert defaults_from("long-distance:settings=default-today") == TODAY


def test_study_of_a_kind_that_cannot_be_tuned_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="backup-mismatch is of kind copy, which has no settings to tune"):
        defaults_from("backup-mismatch")


def test_finished_tuning_and_other_runs_are_not_gone_on_with(whole: Path, invented_run: Path) -> None:
    with pytest.raises(UsageError, match="is finished"):
        tuning.prepare_resumed(str(whole), folder=whole.parent, command=[])
    with pytest.raises(UsageError, match="is no tuning"):
        tuning.prepare_resumed(str(invented_run), folder=whole.parent, command=[])


def test_what_is_not_expendable_is_not_written_to(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        "format: 1\nname: ours\nlus: [{portal: '127.0.0.1:3260', target_name: 'iqn.2011-10.example:x', lun: 0}]\n"
    )
    with pytest.raises(UsageError, match="does not say that LU 0"):
        tuning.prepare_new(small_setup(lab=False), folder=tmp_path, site=load_site(site), command=[])
