"""Configurations and the suites that run on each. No single LU can pass every test: some need it
removable, some read-only, some need two paths to it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.suites import Verdict, list_tests, run_suite
from tests.peers.array import MIB, TARGET_NAME, array, lu
from tests.peers.tgt import tgt

# Suites mostly sleep. Each array runs one suite at a time.
WORKERS = 4
LU_BYTES = 64 * MIB


@dataclass(frozen=True)
class Configuration:
    """An LU, the paths to it, and its selections: suites, or tests as `Suite.Test`."""

    name: str
    urls: list[str]
    selections: list[str]


# This test checks after several seconds that the LU is still being overwritten, so it needs a slow
# LU.
SLOW_LU_TEST = "Sanitize.Reset"
# 150 ms for each MiB: ten seconds for the whole LU.
SLOW = {
    "kind": "array",
    "controller": {"command_us": 0, "data_us_per_mib": 150_000},
    "groups": [
        {"raid": "raid0", "drives": 1, "stripe_unit_bytes": MIB, "drive": {"kind": "preset", "name": "sas-15k-146"}}
    ],
}


def everything_but(excluded: str) -> list[str]:
    """Return every suite; the suite of the test `excluded` as single tests without it."""
    selections: list[str] = []
    for suite, tests in list_tests().items():
        test_names = [f"{suite}.{test}" for test in tests]
        if excluded in test_names:
            selections += [test for test in test_names if test != excluded]
        else:
            selections.append(suite)
    return selections


Results = dict[tuple[str, str], dict[str, Verdict]]
"""Verdicts by configuration name, by (suite, test)."""

Server = Callable[[Path], AbstractContextManager[list[Configuration]]]


@contextmanager
def our_array(folder: Path) -> Iterator[list[Configuration]]:
    """Serve two arrays of hakaru with all configurations."""
    # WRITE SAME with UNMAP is expected to unmap blocks for any data.
    features: dict[str, Any] = {"thin": True, "removable": True, "sanitize": True, "unmap_any_data": True}
    lus = [
        lu(0, LU_BYTES, **features),
        lu(1, LU_BYTES, thin=True, read_only=True),
        lu(2, LU_BYTES, **features, physical_block_bytes=4096),
        # MultipathIO compares block 256 with zeros that it has not written: its LU must be new.
        lu(3, LU_BYTES, **features),
    ]
    slow = lu(0, LU_BYTES, **features, placement={"group": 0, "offset_bytes": 0})
    with (
        array(*lus, portals=["127.0.0.1:0", "127.0.0.1:0"], state_directory=str(folder / "state")) as ours,
        array(slow, model=SLOW) as modelled,
    ):
        first, second = (f"iscsi://{portal}/{TARGET_NAME}" for portal in ours.engine.found["portals"])
        yield [
            # The slowest configuration starts first; the others run meanwhile.
            Configuration("slow", [modelled.url()], [SLOW_LU_TEST]),
            Configuration("thin, removable", [f"{first}/0"], everything_but(SLOW_LU_TEST)),
            Configuration("4 KiB physical blocks", [f"{first}/2"], ["CompareAndWrite", "WriteSame10", "WriteSame16"]),
            Configuration("two portals", [f"{first}/3", f"{second}/3"], ["MultipathIO"]),
            Configuration("read-only", [f"{first}/1"], ["ReadOnly", "Inquiry", "ReadCapacity16", "TestUnitReady"]),
        ]


@contextmanager
def tgt_array(folder: Path) -> Iterator[list[Configuration]]:
    """Serve tgt with its best settings. Two sessions replace two portals."""
    (folder / "thin").mkdir()
    (folder / "paths").mkdir()
    (folder / "read-only").mkdir()
    with (
        tgt(folder / "thin", LU_BYTES, "thin_provisioning=1,removable=1") as thin,
        tgt(folder / "paths", LU_BYTES, "thin_provisioning=1") as paths,
        tgt(folder / "read-only", LU_BYTES, "readonly=1") as read_only,
    ):
        yield [
            Configuration("thin, removable", [thin.url], list(list_tests())),
            Configuration("two sessions", [paths.url, paths.url], ["MultipathIO"]),
            Configuration("read-only", [read_only.url], ["ReadOnly"]),
        ]


def run_all(server: Server, folder: Path) -> Results:
    """Run all selections of every configuration, several at a time, each on its own server."""
    tests = list_tests()
    results: Results = {(suite, test): {} for suite in tests for test in tests[suite]}
    work: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    failures: list[BaseException] = []
    with ExitStack() as stack:
        servers = []
        for worker in range(WORKERS):
            (directory := folder / str(worker)).mkdir()
            servers.append(stack.enter_context(server(directory)))
        for number, configuration in enumerate(servers[0]):
            for selection in configuration.selections:
                work.put((number, selection))

        def drain(configurations: list[Configuration]) -> None:
            try:
                while True:
                    number, selection = work.get_nowait()
                    configuration = configurations[number]
                    suite, _, test_name = selection.partition(".")
                    names = [test_name] if test_name else tests[suite]
                    for test, verdict in run_suite(selection, names, configuration.urls).items():
                        results[suite, test][configuration.name] = verdict
            except queue.Empty:
                pass
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=drain, args=[configurations]) for configurations in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return results
