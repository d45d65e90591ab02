"""The run directory of a tuning is complete at any time, can be resumed, and suffices to write the
report again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.cli.tune import Search, judge, setup_of
from hakaru.errors import Interrupted, InvalidPoints, LostError, UsageError
from hakaru.kinds.vms.load import load_at
from hakaru.run.outcome import Outcome
from hakaru.run.progress import Watchers
from hakaru.run.runner import Run, drive
from hakaru.run.site_file import load_site
from hakaru.store import RunReader
from hakaru.study import Expanded, Repetition, load
from hakaru.study.consistency import problems
from hakaru.tune import run as tuning
from hakaru.tune.knobs import defaults_of, settle, space_of
from hakaru.tune.setup import Setup
from hakaru.tune.start import TODAY, buffer_limit, defaults_from, peer_from
from hakaru.tune.study import factors_of, load_base
from hakaru.tune.tuning import Peer

from tests.tune.model_run import (
    SECOND,
    empty_place,
    interrupt_at,
    outcome,
    refuse_settings,
    resume_model,
    run_model,
    settings_of,
    small_setup,
)
from tests.tune.path_model import PathModel, search_only

ROOT = Path(__file__).parents[2]
SHARE = 0.9


def course(directory: Path) -> list[object]:
    """Return the measurements in their order."""
    return [(r["point"], r["repetition"], r["tuning"]["phase"], r["tuning"]["knob"], r["tuning"]["settings"])
            for r in RunReader(directory).repetitions()]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a tuning without interruption. It uses all trials of the search because it cannot reach
    the bound.
    """
    return run_model(tmp_path_factory.mktemp("runs"), small_setup(), share=SHARE)


def test_setup_and_settings_survive_json_and_give_a_consistent_study() -> None:
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


def test_study_of_a_path_of_unknown_round_trip_has_the_buffers_of_a_long_one() -> None:
    """The first trial measures the round trip, and the next settings follow from it."""
    known = small_setup(lab=False)
    unknown = replace(known, conditions=replace(known.conditions, rtt_ns=None))
    unknown = replace(unknown, space=space_of(unknown.conditions, TODAY, unknown.machine, lab=False))
    long = replace(known.conditions, rtt_ns=200_000_000)
    later = replace(known, conditions=long, space=space_of(long, TODAY, known.machine, lab=False))
    study = load_base(unknown).study
    for knob in later.space:
        if knob.places:
            for value in knob.levels:
                study.at(factors_of(later, settle(later.space, {**defaults_of(later.space), knob.name: value})))


@pytest.mark.parametrize("interrupted", [False, True])
def test_later_trials_have_the_warm_up_of_the_measured_round_trip(tmp_path: Path, interrupted: bool) -> None:
    """The first trial measures 200 ms. A resumed run has the same warm-up as one that continues."""
    known = small_setup(trials=2, repetitions=1)
    path = replace(known.conditions, rtt_ns=None, depth=1)
    setup = replace(known, conditions=path, space=space_of(path, TODAY, known.machine, lab=True))
    warmups: dict[int, int] = {}
    stop = interrupted

    async def measure(place: Any, expanded: Expanded, turn: Repetition, on_sample: Any, folder: Path) -> Outcome:
        if stop and turn.order == 3:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.get_running_loop().create_future()
        warmups[turn.order] = expanded.measure.warmup_ns
        return outcome(turn, 2e7, path.block_bytes, rtt_us=200_000.0)

    def go(prepared: Any, chosen: Setup) -> Path:
        course = tuning.TuningCourse(prepared, chosen)
        return drive(Run(prepared, Watchers([]), course, open_place=empty_place, measure=measure))

    prepared = tuning.prepare_new(setup, folder=tmp_path, site=None, command=["hakaru", "tune"])
    if interrupted:
        with pytest.raises(Interrupted):
            go(prepared, setup)
        stop = False
        prepared, setup = tuning.prepare_resumed("latest", folder=tmp_path, command=["hakaru", "tune"])
    directory = go(prepared, setup)
    assert warmups.pop(1) == SECOND
    assert len(warmups) > 1 and set(warmups.values()) == {10 * SECOND}
    assert RunReader(directory).read("study.json")["measure"]["warmup"] == "10 s"


def test_study_of_a_run_can_be_run_by_itself(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes((whole / "study.yaml").read_bytes())
    assert load(str(tmp_path)).study.variables.keys() >= {"initial_r2t", "send_buffer"}


def test_every_trial_is_a_repetition_and_every_setting_a_point(whole: Path) -> None:
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
def test_ctrl_c_loses_only_the_trial_in_progress(whole: Path, tmp_path: Path, order: int) -> None:
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


def test_killed_run_resumes_where_it_stopped(whole: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "7"], env=environment, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    (directory,) = tmp_path.iterdir()
    assert directory.suffix == ".partial" and len(course(directory)) == 6
    assert course(resume_model("latest", tmp_path, share=SHARE)) == course(whole)


def test_same_seed_repeats_all_trials(whole: Path, tmp_path: Path) -> None:
    assert course(run_model(tmp_path, small_setup(), share=SHARE)) == course(whole)
    other = course(run_model(tmp_path / "other", small_setup(seed=2), share=SHARE))
    assert other != course(whole) and other[:2] == course(whole)[:2]


def test_settings_that_the_target_refuses_give_a_failed_trial(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup(), refuse_settings(lambda settings, order: order == 2))
    tuning = summarise(directory)["tuning"]
    assert [t["error"] is not None for t in tuning["trials"][:3]] == [False, True, False]
    assert "closed the connection" in tuning["trials"][1]["error"]
    assert tuning["best"] is not None and tuning["advised"] is not None


def test_target_that_refuses_everything_ends_the_tuning(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup(), refuse_settings(lambda settings, order: True))
    summary = summarise(directory)
    assert summary["tuning"]["ended"] == "failed" and summary["tuning"]["advised"] is None
    assert not summary["valid"]
    assert [f["kind"] for f in summary["findings"]] == ["tuning_failed"]


def judged(valid: bool, *errors: str | None) -> dict[str, Any]:
    """Return the part of a summary that decides on the exit code."""
    trials = [{"error": error, "mb_per_s": 10.0 if error is None else None} for error in errors]
    return {"valid": valid, "tuning": {"trials": trials}}


def test_exit_code_follows_from_failures_at_the_end_and_from_validity() -> None:
    assert judge(judged(True, None, "a", "b", None, "c")) == 0
    with pytest.raises(LostError, match="several trials in a row failed: c"):
        judge(judged(True, None, None, "a", "b", "c"))
    for errors in (["a"], ["b", "a"]):
        with pytest.raises(LostError, match="no trial has a result: a"):
            judge(judged(False, *errors))
    with pytest.raises(InvalidPoints, match="the trials on which the advice is based are invalid"):
        judge(judged(False, None, "a"))


def test_tuning_is_invalid_if_the_only_trial_of_the_defaults_is(tmp_path: Path) -> None:
    setup = small_setup(trials=2, repetitions=1)
    summary = summarise(run_model(tmp_path, setup, share=0.5, saturated={1}))
    described = summary["tuning"]
    assert [t["valid"] for t in described["trials"]] == [False] + [True] * (len(described["trials"]) - 1)
    assert described["advised"]["valid"] and not described["default"]["valid"]
    assert not summary["valid"]


def test_tuning_that_failures_ended_continues_once_the_target_works_again(whole: Path, tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup(), refuse_settings(lambda settings, order: order >= 4), SHARE)
    summary = summarise(directory)
    # The search ended by its trials. The first repetition after it was the third failure.
    assert summary["tuning"]["ended"] == "trials"
    assert [t["error"] is None for t in summary["tuning"]["trials"]] == [True] * 3 + [False] * 3
    with pytest.raises(LostError, match=r"several trials in a row failed: .*closed the connection"):
        judge(summary)
    assert course(resume_model(directory.name, tmp_path, share=SHARE)) == course(whole)


def test_summary_has_the_best_setting_and_the_advice(tmp_path: Path) -> None:
    directory = run_model(tmp_path, small_setup())
    summary = summarise(directory)
    tuning = summary["tuning"]
    assert summary["valid"] and tuning["finished"] and tuning["ended"] == "reached"
    assert tuning["default"]["settings"] == {}
    assert tuning["best"]["mb_per_s"]["median"] > 4 * tuning["default"]["mb_per_s"]["median"]
    assert tuning["best"]["mb_per_s"]["n"] == 2
    assert tuning["best"]["reachable_percent"] > 97
    losses = [c["loss_percent"] for c in tuning["contributions"]]
    assert losses == sorted(losses, reverse=True) and losses[0] > 50
    contributing = {c["knob"] for c in tuning["contributions"] if c["contributes"]}
    assert contributing <= set(tuning["advised"]["settings"]) and tuning["advised"]["confirmed"]
    text = {block["name"]: block["text"] for block in tuning["text"]}
    assert "node.session.iscsi.MaxBurstLength = 4194304" in text["open-iscsi-conf"]
    assert "--name MaxBurstLength --value 4194304" in text["tgt"]
    assert "set parameter MaxBurstLength=4194304" in text["lio"]


def test_peer_setting_from_a_study_is_compared_with_the_best(tmp_path: Path) -> None:
    setup = small_setup()
    name = "long-distance:settings=socket-buffer"
    settings = peer_from(name, setup.conditions, setup.space, setup.machine, lab=True)
    # Half of the maximum of 32 MiB in the study, because the kernel doubles the value. It is not a
    # level of the search.
    assert settings["send_buffer"] == 16 << 20 and settings["commands"] == 32
    with_peer = replace(setup, peer=Peer(name, settings))
    assert Setup.of_json(with_peer.describe()) == with_peer
    directory = run_model(tmp_path, with_peer)
    tuning = summarise(directory)["tuning"]
    best, peer = tuning["best"], tuning["peer"]
    assert peer["name"] == name and peer["mb_per_s"]["n"] == best["mb_per_s"]["n"] == 2
    # The peer uses the queue depth of the best settings.
    assert peer["settings"]["queue_depth"] == best["settings"]["queue_depth"]
    assert peer["low"] <= peer["best_percent"] <= peer["high"]
    assert peer["best_percent"] == pytest.approx(100, abs=3)
    assert "(peer)" not in [c["knob"] for c in tuning["contributions"]]
    assert "tuning_peer" in [f["kind"] for f in summarise(directory)["findings"]]


def test_buffers_on_the_stack_of_2009_have_its_limit() -> None:
    """It is 4 MiB, whatever the kernel of this machine allows, unless the study limits them."""
    name = "long-distance:settings=default-2009"
    defaults = defaults_from(name)
    assert (defaults.tcp_stack, defaults.buffer_max) == ("2009", None)
    assert buffer_limit(defaults) == 4 << 20 and buffer_limit(TODAY) is None
    assert buffer_limit(replace(defaults, buffer_max=1 << 20)) == 1 << 20
    setup = small_setup()
    machine = setup_of(setup.conditions, Search(from_=name), lab=True).machine
    assert machine.send_buffer_auto_max == machine.receive_buffer_auto_max == 4 << 20
    # The peer is measured on the stack of this machine, with buffers of the size of its own.
    peer = peer_from(name, setup.conditions, setup.space, setup.machine, lab=True)
    assert peer["send_buffer"] == peer["receive_buffer"] == 2 << 20


def test_unknown_variable_of_a_study_is_named(tmp_path: Path) -> None:
    setup = small_setup()
    with pytest.raises(UsageError, match="--against long-distance:setting=socket-buffer: 'setting' is not a variable"):
        peer_from("long-distance:setting=socket-buffer", setup.conditions, setup.space, setup.machine, lab=True)


def test_defaults_equal_those_of_the_study_long_distance() -> None:
    """They are those of open-iscsi 2.1 and LIO. The README of the study has their sources."""
    assert defaults_from("long-distance:initiator=open-iscsi-today") == TODAY


def test_study_of_a_kind_that_cannot_be_tuned_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="backup-mismatch is of kind copy, which has no settings to tune"):
        defaults_from("backup-mismatch")


def test_finished_tuning_and_other_runs_cannot_be_resumed(whole: Path, invented_run: Path) -> None:
    with pytest.raises(UsageError, match="is finished"):
        tuning.prepare_resumed(str(whole), folder=whole.parent, command=[])
    with pytest.raises(UsageError, match="is not a tuning"):
        tuning.prepare_resumed(str(invented_run), folder=whole.parent, command=[])


def test_lu_that_is_not_expendable_is_not_written(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        "format: 1\nname: ours\nlus: [{portal: '127.0.0.1:3260', target_name: 'iqn.2011-10.example:x', lun: 0}]\n"
    )
    with pytest.raises(UsageError, match="does not declare LU 0"):
        tuning.prepare_new(small_setup(lab=False), folder=tmp_path, site=load_site(site), command=[])
