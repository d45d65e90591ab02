"""Several file servers and clients: their places in a lab, refusals, and the engines' parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import UsageError
from hakaru.files.tree import TreeSpec
from hakaru.kinds.files.load import load_at
from hakaru.kinds.files.run import RUN
from hakaru.kinds.files.seats import Seat, seats
from hakaru.lab.plan import plan_lab
from hakaru.study import expand, load

from tests.kinds.files.segments import LOAD, segments
from tests.kinds.files.study import TREE, written
from tests.kinds.files.test_chain import GUEST, to
from tests.study.shipped import shipped


def seats_of(folder: Path, **parts: Any) -> list[Seat]:
    study = expand(load(str(written(folder, **parts))).study).study
    return seats(load_at(study), plan_lab(study.lab))


def places(found: list[Seat]) -> dict[str, list[str]]:
    servers: dict[str, list[str]] = {}
    for seat in found:
        servers.setdefault(seat.server, []).append(seat.host)
    return servers


def test_clients_stay_in_the_segment_of_their_server(tmp_path: Path) -> None:
    lab = segments(2, 2)
    # The order of the hosts does not matter.
    lab["hosts"] = ["c-21", "c-11", "c-22", "c-12"]
    found = seats_of(tmp_path, lab=lab, load=LOAD, factors=[{"tools": [2]}])
    assert places(found) == {"fs-1": ["c-11", "c-12"], "fs-2": ["c-21", "c-22"]}
    planned = plan_lab(load(str(written(tmp_path, lab=lab, load=LOAD, factors=[{"tools": [2]}]))).study.lab)
    assert {seat.server: seat.address for seat in found} == {
        server: f"{planned.addresses(server)[0]}:445" for server in ("fs-1", "fs-2")
    }


def test_a_third_client_comes_from_another_segment_if_any_is_free(tmp_path: Path) -> None:
    lab = segments(2, 2)
    shared = LOAD | {"clients": 3, "tools": 3, "tree": TREE | {"trees": 3}}
    with pytest.raises(UsageError, match="1 of 3 clients of file server fs-2"):
        load(str(written(tmp_path, lab=lab, load=shared, factors=[{"tools": [3]}])))
    found = seats_of(tmp_path, lab=lab, load=shared | {"servers": 1}, factors=[{"tools": [3]}])
    assert places(found) == {"fs-1": ["c-11", "c-12", "c-21"]}


def test_hosts_of_one_network_are_assigned_in_their_order(tmp_path: Path) -> None:
    lab = {"hosts": ["a", "b"], "array": "server"}
    parts: dict[str, Any] = {"lab": lab, "load": LOAD | {"servers": 1}, "factors": [{"clients": [1, 2], "tools": [2]}]}
    assert [(seat.host, seat.number) for seat in seats_of(tmp_path, **parts)] == [("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": LOAD | {"servers": 3}}, "3 file servers, and the lab has 2 arrays"),
        ({"load": LOAD | {"clients": 4}}, "0 of 4 clients of file server fs-2: too few hosts"),
        ({"load": LOAD, "factors": [{"tools": [3]}]}, "3 tools cannot be divided among 2 clients"),
        ({"load": LOAD | {"tree": TREE | {"trees": 5}}}, "5 trees cannot be divided among 2 clients"),
        (
            {"load": LOAD | {"servers": 1, "clients": 1}},
            "the file server has one client; hosts of the lab without tools: 3",
        ),
        ({"load": {"to": {"directory": "d"}}}, "a directory belongs to one host"),
        (
            {"lab": {"hosts": 1, "array": "fs"}, "load": {"to": {"directory": "d"}, "servers": 2}},
            "2 file servers, and the tools reach their files without one",
        ),
        (
            {"lab": {"hosts": 1, "array": "fs"}, "load": {"to": {"directory": "d"}, "clients": 2}},
            "2 clients, and the tools reach their files without a file server",
        ),
    ],
)
def test_servers_and_clients_that_cannot_be_are_refused(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        load(str(written(tmp_path, **({"lab": segments(2, 2), "factors": [{"tools": [2]}]} | parts))))
    assert refused.value.hint


def test_the_server_of_a_chain_may_have_several_clients(tmp_path: Path) -> None:
    lab = {"hosts": ["c-1", "c-2", "server"], "array": "storage", "load_guest": GUEST}
    parts: dict[str, Any] = {"lab": lab, "factors": [{"tools": [2]}]}
    shared = to(smb={}) | {"tools": 2, "clients": 2}
    assert places(seats_of(tmp_path, load=shared, **parts)) == {"server": ["c-1", "c-2"]}
    with pytest.raises(UsageError, match="2 file servers, and the lab has 1 arrays for their disks"):
        load(str(written(tmp_path, load=shared | {"servers": 2}, **parts)))


def test_clients_divide_tools_and_trees_and_begin_together(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"lab": segments(2, 2), "factors": [{"tools": [2], "servers": [1, 2], "clients": [1, 2]}]}
    expanded = expand(load(str(written(tmp_path, load=LOAD, **parts))).study)
    planned = plan_lab(expanded.study.lab)
    for turn in expanded.repetitions:
        servers, clients = (int(turn.point.factors[name]) for name in ("servers", "clients"))
        engines = RUN.loads(expanded, turn, planned)
        assert len(engines) == servers * clients
        assert list(RUN.file_servers(expanded, turn, planned)) == [f"fs-{s}" for s in range(1, servers + 1)]
        folders, seeds = set(), set()
        for config in engines.values():
            assert config.engine == "files" and config.task == "load" and config.destination.kind == "smb"
            assert (config.tools, config.trees.trees) == (2 // clients, 4 // clients)
            assert config.second_start == (servers * clients > 1) and not config.cold
            folders.add((config.destination.address, config.destination.folder))
            seeds.add((config.trees.seed, config.seed))
        # No two engines build or lock the same trees, or draw alike.
        assert len(folders) == len(seeds) == len(engines)
        total = sum(config.trees.total_bytes for config in engines.values())  # type: ignore[union-attr]
        assert total == servers * (load_at(expanded.study).tree.total_bytes or 0)


def test_parts_of_trees_add_up_to_the_byte() -> None:
    spec = TreeSpec.model_validate({"trees": 9, "targets": 7, "total": "1000001 B"})
    whole = [spec.part(number, 3, number).config() for number in range(3)]
    assert [part.trees for part in whole] == [3, 3, 3]
    assert sum(part.total_bytes or 0 for part in whole) == 1_000_001


def test_shipped_study_has_the_published_segments() -> None:
    study = shipped("file-server-segments").study
    for expanded in (expand(study), expand(study, quick=True)):
        found = seats(load_at(expanded.at(expanded.points[-1])), plan_lab(expanded.study.lab))
        assert places(found) == {f"server-{s}": [f"client-{s}1", f"client-{s}2"] for s in range(1, 5)}
        assert load_at(expanded.at(expanded.points[-1])).cold
