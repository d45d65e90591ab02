"""Loads on files: descriptions of trees, refusals, and the configuration of the engine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.files.survey import FOLDERS_MAX, shortened, tree_of, yaml_of
from hakaru.files.tree import PUBLISHED_BYTES, TreeSpec
from hakaru.files.tree_file import load_tree
from hakaru.kinds.files.load import approximate_bytes, load_at
from hakaru.kinds.files.report import REPORT
from hakaru.kinds.files.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate, lines
from hakaru.run.preflight import check_machine
from hakaru.study import expand, load
from hakaru.wording import LANGUAGES, say

from tests.kinds.files.study import TREE, written
from tests.study.shipped import shipped


def test_default_trees_are_the_published_ones() -> None:
    config = TreeSpec().config()
    assert (config.trees, config.depth, config.folders, config.targets, config.dummies) == (128, 25, 49, 1000, 0)
    assert config.total_bytes == PUBLISHED_BYTES
    assert config.sizes.kind == "lognormal" and config.sizes.min_bytes == 50_000


@pytest.mark.parametrize(("scale", "divisor"), [("1", 1), ("1/1000", 1000), ("1 / 10", 10)])
def test_scale_divides_sizes_and_keeps_counts(scale: str, divisor: int) -> None:
    spec = TreeSpec.model_validate({"scale": scale})
    assert (spec.divisor, spec.files) == (divisor, 128_000)


def test_other_numbers_of_files_have_their_part_of_the_published_total() -> None:
    assert TreeSpec.model_validate({"trees": 64}).total_bytes == PUBLISHED_BYTES // 2
    assert TreeSpec.model_validate({"trees": 64, "total": "drawn"}).total_bytes is None
    assert TreeSpec.model_validate({"total": "5 GB"}).total_bytes == 5_000_000_000


LINKS = {name: {"between": [name, "switch"], "rate": "1 Gbit/s"} for name in ("a", "one", "two")}
TWO_SERVERS = {"hosts": ["a"], "arrays": ["one", "two"], "switches": {"switch": {}}, "links": LINKS}


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": {"tools": 9}, "factors": [{"tools": [9]}]}, "9 tools for 4 trees"),
        ({"factors": [{"tools": [1, 5]}]}, "5 tools for 4 trees"),
        ({"lab": {"hosts": 2, "array": "server"}}, "a directory belongs to one host"),
        ({"lab": {"hosts": 1, "load_guest": {}}}, "tools in a guest do not reach a directory"),
        (
            {"lab": {"hosts": 2}, "load": {"to": {"smb": {}}}},
            "the file server has one client; hosts of the lab without tools: 1",
        ),
        ({"lab": TWO_SERVERS, "load": {"to": {"smb": {}}}}, "one file server in a lab of 2 arrays"),
        ({"measure": {"repetitions": 1, "verify": True}}, "blocks of files have no stamps"),
        ({"load": {"repeat": True}}, "a load that repeats its trees never ends"),
        ({"load": {"to": {"directory": "../etc"}}}, "load.to.directory"),
        ({"load": {"to": {"directory": "/etc"}}}, "load.to.directory"),
        ({"load": {"to": {}}}, "either `directory` or `smb`"),
        ({"load": {"to": {"directory": "small", "smb": {}}}}, "either `directory` or `smb`"),
        ({"factors": [{"signing": [False, True]}]}, "either `directory` or `smb`"),
        ({"load": {"to": {"smb": {"credits": 2}}}}, "compounds need at least 3 credits"),
        ({"load": {"to": {"smb": {"compound": "file", "credits": 3}}}}, "compounds need at least 4 credits"),
        ({"load": {"to": {"smb": {"compound": False}}}}, "load.to.smb.compound"),
        ({"load": {"to": {"smb": {"dialect": "2.0"}}}}, "load.to.smb.dialect"),
        ({"load": {"to": {"smb": {"server": {"protocol_max": "SMB3_00"}}}}}, "does not support dialect 3.1.1"),
        ({"load": {"to": {"smb": {"server": {"encryption": "required"}}}}}, "the server requires encryption"),
        ({"load": {"to": {"smb": {"encryption": "aes_128_gcm", "dialect": "3.0"}}}}, "dialect 3.0 has no encryption"),
        (
            {"load": {"to": {"smb": {"encryption": "aes_128_ccm", "server": {"encryption": "off"}}}}},
            "the server does not encrypt",
        ),
        ({"load": {"to": {"smb": {"server": {"signing": "required"}}}}}, "the server requires signatures"),
        (
            {
                "load": {"to": {"smb": {"signing": True, "server": {"signing": "required"}}}},
                "factors": [{"signing": [True, False]}],
            },
            "the server requires signatures",
        ),
        ({"load": {"to": {"smb": {"directory": "../etc"}}}}, "load.to.smb.directory"),
        ({"load": {"tree": TREE | {"folders": 2}}}, "every level needs one"),
        ({"load": {"tree": TREE | {"depth": 1}}}, "a tree of one level has one folder"),
        ({"load": {"tree": TREE | {"scale": "2"}}}, "load.tree.scale"),
        ({"load": {"tree": TREE | {"scale": "1/0"}}}, "load.tree.scale"),
        ({"load": {"tree": TREE | {"placement": [0.0]}}}, "one of which is above 0"),
        ({"load": {"tree": TREE | {"sizes": {}}}}, "write either `table` or `lognormal`"),
        ({"load": {"tree": TREE | {"trees": 65_536, "targets": 1000}}}, "all trees together may have"),
    ],
)
def test_impossible_loads_are_refused(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load(str(written(tmp_path, **parts)))


def test_load_that_repeats_its_trees_takes_its_whole_time(tmp_path: Path) -> None:
    measure = {"repetitions": 1, "warmup": "60 s", "time": "30 min", "sample_interval": "10 s"}
    seconds = {}
    for repeat in (False, True):
        expanded = expand(load(str(written(tmp_path, measure=measure, load={"repeat": repeat}))).study)
        planned = plan_lab(expanded.study.lab)
        (config,) = RUN.loads(expanded, expanded.repetitions[0], planned).values()
        assert isinstance(config, contract.FilesLoad) and config.repeat == repeat
        seconds[repeat] = RUN.cost(expanded, expanded.points[0], planned).seconds
    assert seconds[False] < 60 and seconds[True] == pytest.approx(31 * 60, rel=0.01)


def test_plan_states_the_space_of_the_files_and_a_run_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "scratch"
    monkeypatch.setenv("HAKARU_FILES", str(folder))
    expanded = expand(load(str(written(tmp_path))).study)
    planned = plan_lab(expanded.study.lab)
    total = approximate_bytes(load_at(expanded.study))
    assert estimate(expanded, planned).files_bytes == total > 0
    assert f"of files in {folder}" in "\n".join(lines(expanded, planned, {}))
    check_machine(expanded, planned, tmp_path)
    folder.mkdir()
    space = os.statvfs(folder)
    full = SimpleNamespace(f_bavail=(total - 1) // 4096, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: full if path == folder else space)
    with pytest.raises(EnvironmentError_, match=f"may need .* of disk in {folder}") as refused:
        check_machine(expanded, planned, tmp_path)
    assert "HAKARU_FILES" in (refused.value.hint or "")
    # Trees that are kept may be there already.
    kept = expand(load(str(written(tmp_path, load={"keep": True}))).study)
    check_machine(kept, planned, tmp_path)


def test_directory_lies_below_the_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAKARU_FILES", str(tmp_path / "scratch"))
    expanded = expand(load(str(written(tmp_path, load={"mix": {"read": 30}, "keep": True}))).study)
    turn = next(turn for turn in expanded.repetitions if turn.point.factors["tools"] == 2)
    (config,) = RUN.loads(expanded, turn, plan_lab(expanded.study.lab)).values()
    assert config.engine == "files" and config.task == "load"
    assert config.destination.kind == "directory"
    assert config.destination.path == str(tmp_path / "scratch" / "small")
    assert RUN.file_servers(expanded, turn, plan_lab(expanded.study.lab)) == {}
    assert (config.tools, config.read_percent, config.build, config.remove) == (2, 30, True, False)
    assert config.measure_s == 3600


def test_sessions_and_servers_follow_from_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAKARU_FILES", str(tmp_path / "scratch"))
    smb = {"smb": {"compound": "none", "folder_cache": True, "credits": 1, "server": {"strict_sync": False}}}
    factors = [{"tools": [2], "signing": [False, True], "dialect": ["3.0"]}]
    expanded = expand(load(str(written(tmp_path, load={"to": smb}, factors=factors))).study)
    planned = plan_lab(expanded.study.lab)
    for turn in expanded.repetitions:
        ((node, server),) = RUN.file_servers(expanded, turn, planned).items()
        assert (node, server.shares[0].path) == ("server", str(tmp_path / "scratch" / "shares" / "server"))
        assert not server.settings.strict_sync
        ((host, config),) = RUN.loads(expanded, turn, planned).items()
        assert config.engine == "files" and config.task == "load" and config.destination.kind == "smb"
        to = config.destination
        assert (host, to.address) == ("client", f"{planned.addresses('server')[0]}:445")
        assert (to.dialects, to.compound, to.credits, to.share) == (["3.0"], "none", 1, "data")
        assert to.folder_cache
        assert to.signing == ("required" if turn.point.factors["signing"] else "if_required")
        assert RUN.ports(config) == {445}
    assert RUN.cost(expanded, expanded.points[0], planned).sockets == 14


@pytest.mark.parametrize("language", LANGUAGES)
def test_method_has_the_sessions_of_the_points(tmp_path: Path, language: str) -> None:
    def method(factors: dict[str, Any], **smb: Any) -> list[str]:
        parts = {"load": {"block": "1 MiB", "to": {"smb": smb}}, "factors": [factors]}
        expanded = expand(load(str(written(tmp_path, **parts))).study)
        summary = {"points": [{"factors": point.factors} for point in expanded.points]}
        return REPORT.method(summary, expanded.study, plan_lab(expanded.study.lab), language)

    def requests(read: str, write: str) -> str:
        return say(language, "method.files.smb.requests", {"block": "1 MiB", "read": read, "write": write})

    separator = say(language, "list.separator")
    signed, unsigned = (say(language, f"method.files.smb.{word}") for word in ("signed", "unsigned"))
    whole = method({"tools": [1]})
    assert unsigned in whole and signed not in whole
    assert not any("64 KiB" in text for text in whole) and len(whole) == 5
    assert requests("256 KiB", "256 KiB") in method({"tools": [1]}, credits=4)
    ahead = method({"compound": ["operation", "file"], "folder_cache": [False, True]}, credits=7)
    assert {say(language, f"method.files.smb.{name}") for name in ("compound_file", "folder_cache")} <= set(ahead)
    assert requests(separator.join(("448 KiB", "256 KiB")), separator.join(("448 KiB", "256 KiB"))) in ahead
    limited = {"read_max": "64 KiB", "write_max": "512 KiB"}
    assert requests("64 KiB", "512 KiB") in method({"tools": [1]}, server=limited)
    swept = method({"credits": [4, 512], "signing": [True, False]})
    both = separator.join(("256 KiB", "1 MiB"))
    assert requests(both, both) in swept
    assert signed not in swept and unsigned not in swept
    listed = {"dialect": "3.1.1", "credits": separator.join(("4", "512"))}
    assert say(language, "method.files.smb", listed) in swept


@pytest.mark.parametrize("language", LANGUAGES)
def test_method_describes_points_of_both_destinations(language: str) -> None:
    expanded = expand(shipped("file-server").study, quick=True)
    summary = {"points": [{"factors": point.factors} for point in expanded.points]}
    texts = REPORT.method(summary, expanded.study, plan_lab(expanded.study.lab), language)
    assert say(language, "method.files.directory") in texts and say(language, "method.files.warm") in texts
    listed = {"dialect": "3.1.1", "credits": "512"}
    assert say(language, "method.files.smb", listed) in texts
    real = REPORT.method(summary, expanded.study, None, language)
    assert (
        say(language, "method.files.smb.site", listed) in real and say(language, "method.files.smb", listed) not in real
    )
    only_local = [point for point in summary["points"] if point["factors"]["place"] == "local"]
    assert len(REPORT.method({"points": only_local}, expanded.study, None, language)) == 6


def test_approximate_size_is_that_of_the_trees(tmp_path: Path) -> None:
    study = load(str(written(tmp_path))).study
    expected = PUBLISHED_BYTES * 1000 // 128_000 // 1000
    assert 0 <= expected - approximate_bytes(load_at(study)) < 1024


COUNTED: dict[str, Any] = {
    "files": 30,
    "depth": 3,
    "folders": 5,
    "placement": {"kind": "levels", "weights": [10, 0, 20]},
    "sizes": {"kind": "table", "classes": [{"up_to_bytes": 0, "count": 0}, {"up_to_bytes": 4096, "count": 30}]},
}


def test_survey_becomes_a_description_that_a_file_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text(yaml_of(tree_of(COUNTED), ["30 files"]))
    spec = load_tree(path, {"trees": 7})
    assert (spec.trees, spec.depth, spec.folders, spec.targets) == (7, 3, 5, 30)
    assert spec.placement == [10, 0, 20]
    assert spec.sizes.table is not None and [row.up_to for row in spec.sizes.table] == [0, 4096]
    assert spec.config().total_bytes is None


def test_survey_says_what_its_tree_lacks() -> None:
    assert shortened(COUNTED) == []
    (line,) = shortened(COUNTED | {"folders": FOLDERS_MAX + 1})
    assert line == "the tree has 65,536 folders, and the directory has 65,537"
    assert tree_of(COUNTED | {"folders": FOLDERS_MAX + 1})["folders"] == FOLDERS_MAX


def test_errors_in_a_description_have_a_place(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("tree:\n  trees: 3\n  deepth: 5\n")
    with pytest.raises(UsageError, match=r"tree\.yaml:3:3.*deepth"):
        load_tree(path, {})
    with pytest.raises(UsageError, match="no files"):
        tree_of(COUNTED | {"files": 0})
