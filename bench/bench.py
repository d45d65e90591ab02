"""Benchmark of hakaru and its peers, in one run on one machine (`make bench`).

Every figure is measured in rounds. Within a round hakaru and its peers run in sequence, so that
other work on the machine affects all of them alike. A ratio is the median of the rounds' ratios.
The table goes to stdout, all values to results/bench.json: {figures: [{name, value, low,
high, n, unit, peer: {NAME: value}, ratio: {NAME: value}}], machine}. With five rounds or more, the
figures also become the page docs/methodology/benchmark.md, with --only those parts of it.

usage: bench.py [--rounds 5] [--seconds 3] [--only WORD] [--long-seconds 60] [--folder DIR]
[--baseline DIR]

`--baseline DIR` compares every figure with that of the checkout in DIR (see `baseline.py`) and
writes results/baseline.json instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import baseline
import benchmark_page
import peers
from fabric import FabricBench
from figure import Figure, table
from packets import PacketsBench
from peers import Load, Pattern, Portal
from smb import SmbBench
from storage import StorageBench
from trees import TreesBench
from vhost_user import VhostUserBench
from watch import WatchBench

KIB, MIB = 1024, 1024 * 1024
TARGET_CPU, CLIENT_CPU = 0, 1
COALESCE = (64, 10.0)
"""`coalesce_us` and `coalesce_percent` of figures that do not name a setting. The initiator does
not coalesce unless a study asks for it.
"""
ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
"""Rounds of a figure that the page may show."""
PAGE = ROOT / "docs" / "methodology" / "benchmark.md"
PARTS = (
    "array_under_iscsi_perf",
    "array_depth_1",
    "initiator_alone",
    "many_sessions",
    "ten_thousand",
    "thin_against_file",
    "thin_first_writes",
    "thin_large_pool",
    "digests",
    "fabric_tcp_through_10_ms",
    "fabric_round_trip",
    "fabric_rate",
    "fabric_loss",
    "watch_tcp_overhead",
    "packets_sent",
    "packets_counted",
    "guest_forwarding",
    "smb_read",
    "smb_write",
    "tree_build",
)
"""Methods of `Bench` and of the classes in `storage`, `fabric`, `watch`, `packets`,
`vhost_user`, `smb` and `trees`, in table order.
"""


class Bench:
    """The benchmark's settings and the programs it runs."""

    def __init__(self, rounds: int, seconds: int, long_seconds: int, folder: Path) -> None:
        self.rounds, self.seconds, self.long_seconds = rounds, seconds, long_seconds
        self.binary = Path(sys.executable).with_name("hakaru-engine")
        self.echo = peers.build_echo(folder)

    def perf(self, portal: Portal, size: int, depth: int, cpu: int = CLIENT_CPU) -> Load:
        return peers.iscsi_perf(portal, size, depth, self.seconds, cpu)

    def initiator(
        self, portal: Portal, size: int, depth: int, sessions: int = 1, coalesce: tuple[int, float] = COALESCE
    ) -> Load:
        pattern = Pattern(size, depth)
        return peers.hakaru_initiator(
            self.binary, portal, pattern, self.seconds, CLIENT_CPU, sessions, coalesce=coalesce
        )

    def ceilings(self, size: int) -> tuple[float, float]:
        """Return the echo's messages per second at depth 32: with payloads from the cache, and from
        memory as large as the LU.
        """
        hot, cold = (
            peers.echo(self.echo, 32, size, self.seconds, (TARGET_CPU, CLIENT_CPU), memory_bytes)
            for memory_bytes in (0, peers.LU_BYTES)
        )
        return hot.iops, cold.iops

    def array_under_iscsi_perf(self) -> list[Figure]:
        """Measure the array and tgt under the same third-party initiator, and the ceilings, whose
        ends send in batches.

        `echo` sends payloads from its cache. `echo_memory` sends random blocks from as much memory
        as the LU has; no target that copies can exceed it.
        """
        cases = [
            (Figure("array_4k_depth32_iops", "1/s", goal={"tgt": 3.3}), 4 * KIB),
            (Figure("array_1m_depth32_iops", "1/s", goal={"tgt": 2.8}), MIB),
        ]
        with peers.hakaru_array(self.binary, TARGET_CPU) as ours, peers.tgt(TARGET_CPU) as tgt:
            peers.fill(ours)
            peers.fill(tgt)
            for _ in range(self.rounds):
                for figure, size in cases:
                    hot, cold = self.ceilings(size)
                    own_result, theirs = self.perf(ours, size, 32), self.perf(tgt, size, 32)
                    figure.add(own_result.iops, tgt=theirs.iops, echo=hot, echo_memory=cold)
        return [figure for figure, _ in cases]

    def array_depth_1(self) -> list[Figure]:
        """Measure one request at a time, in three settings. Most of its cost is waking another
        core, which no program can avoid.

        With target and client on one core, no other core is woken, so the figure compares the
        programs themselves. On two cores, both sleep. In the third setting the array polls for
        100 us before it sleeps (`spin_us`).
        """
        size = 4 * KIB
        one_core = Figure("array_4k_depth1_latency_one_core", "us", goal={"tgt": 2.0}, lower_is_better=True)
        two_cores = Figure("array_4k_depth1_latency_two_cores", "us", goal={"tgt": 2.0}, lower_is_better=True)
        two_cores_spin = Figure(
            "array_4k_depth1_latency_two_cores_spin100", "us", goal={"tgt": 2.0}, lower_is_better=True
        )
        with (
            peers.hakaru_array(self.binary, TARGET_CPU) as ours,
            peers.hakaru_array(self.binary, TARGET_CPU, spin_us=100) as spinning,
            peers.tgt(TARGET_CPU) as tgt,
        ):
            for portal in (ours, spinning, tgt):
                peers.fill(portal)
            for _ in range(self.rounds):
                for figure, cpu in ((one_core, TARGET_CPU), (two_cores, CLIENT_CPU)):
                    own_result, theirs = self.perf(ours, size, 1, cpu), self.perf(tgt, size, 1, cpu)
                    ceiling = peers.echo(self.echo, 1, size, self.seconds, (TARGET_CPU, cpu))
                    figure.add(own_result.latency_us_mean, tgt=theirs.latency_us_mean, echo=ceiling.latency_us_mean)
                two_cores_spin.add(self.perf(spinning, size, 1).latency_us_mean, tgt=theirs.latency_us_mean)
        return [one_core, two_cores, two_cores_spin]

    def initiator_alone(self) -> list[Figure]:
        """Measure hakaru at both ends against tgt under iscsi-perf and the ceiling, and the
        initiator's cost against tgt.

        The cost is measured with three settings. With `coalesce_us` 0, the default of studies, the
        initiator handles every response at once (`…_coalesce0`). With 64 us and a tenth of a
        request's time, an earlier default, it waits that long for further responses. With a quarter
        of a request's time, up to 500 us (`…_quarter`), it uses the least CPU and reports latencies
        up to 25 % too high.

        1 MiB reads use the same initiator at both targets. It discards the data inside the kernel,
        so the figure compares the targets, not the copying in the clients.
        """
        large = Figure("initiator_and_array_1m_depth32_iops", "1/s", goal={"tgt": 2.8})
        large_cost = Figure("array_cpu_per_100k_1m_depth32", "s", lower_is_better=True)
        both_ends = Figure("initiator_and_array_4k_depth32_iops", "1/s", goal={"tgt_iscsi_perf": 6.0, "echo": 0.6})
        cost = Figure("initiator_cpu_per_100k_against_tgt", "s", goal={"iscsi_perf": 2.0}, lower_is_better=True)
        cost_uncoalesced = Figure("initiator_cpu_per_100k_against_tgt_coalesce0", "s", lower_is_better=True)
        cost_quarter = Figure(
            "initiator_cpu_per_100k_against_tgt_quarter", "s", goal={"iscsi_perf": 2.0}, lower_is_better=True
        )
        with peers.hakaru_array(self.binary, TARGET_CPU) as ours, peers.tgt(TARGET_CPU) as tgt:
            peers.fill(ours)
            peers.fill(tgt)
            for _ in range(self.rounds):
                theirs = self.perf(tgt, 4 * KIB, 32)
                hot, cold = self.ceilings(4 * KIB)
                own_result = self.initiator(ours, 4 * KIB, 32)
                both_ends.add(own_result.iops, tgt_iscsi_perf=theirs.iops, echo=hot, echo_memory=cold)
                for figure, coalesce in ((cost, COALESCE), (cost_uncoalesced, (0, 0.0)), (cost_quarter, (500, 25.0))):
                    own_result = self.initiator(tgt, 4 * KIB, 32, coalesce=coalesce)
                    figure.add(own_result.client_cpu_s_per_100k, iscsi_perf=theirs.client_cpu_s_per_100k)
                theirs = self.initiator(tgt, MIB, 32)
                own_result = self.initiator(ours, MIB, 32)
                large.add(own_result.iops, tgt=theirs.iops, tgt_iscsi_perf=self.perf(tgt, MIB, 32).iops)
                large_cost.add(own_result.target_cpu_s_per_100k, tgt=theirs.target_cpu_s_per_100k)
        return [both_ends, cost, cost_uncoalesced, cost_quarter, large, large_cost]

    def many_sessions(self) -> list[Figure]:
        """Measure 512 sessions at depth 4 from one process, with either target."""
        iops = Figure("sessions512_4k_depth4_iops", "1/s", goal={"tgt": 3.0})
        array_memory = Figure("sessions512_array_memory", "MiB", lower_is_better=True)
        initiator_memory = Figure("sessions512_initiator_memory", "MiB", lower_is_better=True)
        # Without the pages of the program's file, whose number depends on the layout of the binary.
        array_anonymous = Figure("sessions512_array_anonymous_memory", "MiB", lower_is_better=True)
        initiator_anonymous = Figure("sessions512_initiator_anonymous_memory", "MiB", lower_is_better=True)
        for _ in range(self.rounds):
            # Each round starts fresh targets and does not fill the LU, whose memory must not count
            # as the array's.
            peers.drop_from_page_cache(self.binary)
            with peers.hakaru_array(self.binary, TARGET_CPU) as ours:
                own_result = self.initiator(ours, 4 * KIB, 4, sessions=512)
                array = peers.memory_of(ours.pid)
                array_memory.add(array.resident / MIB)
                array_anonymous.add(array.anonymous / MIB)
                initiator_memory.add(own_result.client_memory.resident / MIB)
                initiator_anonymous.add(own_result.client_memory.anonymous / MIB)
            with peers.tgt(TARGET_CPU) as tgt:
                theirs = self.initiator(tgt, 4 * KIB, 4, sessions=512)
            iops.add(own_result.iops, tgt=theirs.iops)
            if own_result.errors or theirs.errors:
                raise RuntimeError(f"512 sessions: {own_result.errors} errors with hakaru, {theirs.errors} with tgt")
        return [iops, array_memory, initiator_memory, array_anonymous, initiator_anonymous]

    def ten_thousand(self) -> list[Figure]:
        """Measure 10 000 sessions at depth 1 for a minute, none of which may fail."""
        errors = Figure("sessions10000_errors", "count", lower_is_better=True)
        iops = Figure("sessions10000_4k_depth1_iops", "1/s")
        with peers.hakaru_array(self.binary, TARGET_CPU) as ours:
            pattern = Pattern(4 * KIB, 1)
            load = peers.hakaru_initiator(self.binary, ours, pattern, self.long_seconds, CLIENT_CPU, sessions=10_000)
            errors.add(load.errors)
            iops.add(load.iops)
        return [errors, iops]


def machine() -> dict[str, Any]:
    """Return a description of this machine."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def main() -> int:
    """Run the parts that the command line selects."""
    a = _arguments()
    if missing := peers.missing_programs():
        print(
            f"error: peer programs are missing: {', '.join(missing)}\nhint: run tools/system-packages", file=sys.stderr
        )
        return 3
    if a.baseline is not None and (lacking := baseline.missing(a.baseline)):
        print(f"error: {lacking} is missing\nhint: run `make setup` in {a.baseline}", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    environment, began = machine(), time.time()
    if a.baseline is not None:
        parts = [name for name in PARTS if a.only in name]
        figures, failed = baseline.compare(a.baseline, parts, a.rounds, a.seconds, a.long_seconds)
        name, text = "baseline.json", baseline.table(figures)
    else:
        measured, failed = _measure(a)
        figures = [figure for of_part in measured.values() for figure in of_part]
        name, text = "bench.json", table(figures)
        if a.rounds >= ROUNDS and not failed:
            _write_page(measured, environment, began, is_whole=not a.only)
    results = ROOT / "results"
    results.mkdir(exist_ok=True)
    document = {"figures": [f.document() for f in figures], "machine": environment}
    (results / name).write_text(json.dumps(document, indent=1) + "\n")
    print(text)
    return 1 if failed else 0


def _write_page(
    measured: dict[Callable[[], list[Figure]], list[Figure]],
    environment: dict[str, Any],
    began: float,
    *,
    is_whole: bool,
) -> None:
    if is_whole:
        PAGE.write_text(benchmark_page.markdown(measured, environment, began))
        return
    try:
        PAGE.write_text(benchmark_page.with_parts(PAGE.read_text(), measured, environment, began))
    except ValueError as error:
        print(f"note: {PAGE.name} is not changed: {error}; `make bench` measures all of it", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of rounds of each figure")
    parser.add_argument("--seconds", type=int, default=3, help="length of one measurement")
    parser.add_argument("--long-seconds", type=int, default=60, help="length of the run with 10 000 sessions")
    parser.add_argument("--only", default="", help="run only the parts whose name contains this word")
    parser.add_argument("--folder", type=Path, default=ROOT / "results", help="folder for LUs in files and pools")
    parser.add_argument("--baseline", type=Path, help="a checkout of an earlier commit, set up with `make setup`")
    return parser.parse_args()


def _measure(a: argparse.Namespace) -> tuple[dict[Callable[[], list[Figure]], list[Figure]], list[str]]:
    """Measure this checkout's parts; return the figures by the method that measured them, and the
    names of the parts that failed.
    """
    figures: dict[Callable[[], list[Figure]], list[Figure]] = {}
    failed: list[str] = []
    a.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=a.folder, prefix="lus-") as lus:
        bench = Bench(a.rounds, a.seconds, a.long_seconds, Path(folder))
        storage = StorageBench(bench.binary, a.rounds, a.seconds, Path(lus), (TARGET_CPU, CLIENT_CPU))
        fabric = FabricBench(bench.binary, a.rounds, a.seconds, Path(folder))
        watch = WatchBench(bench.binary, a.rounds, a.seconds, Path(folder))
        packets = PacketsBench(bench.binary, a.rounds, a.seconds)
        nics = VhostUserBench(bench.binary, a.rounds, a.seconds)
        smb = SmbBench(bench.binary, a.rounds)
        trees = TreesBench(a.rounds, Path(lus))
        for name in (name for name in PARTS if a.only in name):
            print(f"{name} …", file=sys.stderr, flush=True)
            owner = next(o for o in (bench, storage, fabric, watch, packets, nics, smb, trees) if hasattr(o, name))
            try:
                measure = getattr(owner, name)
                figures[measure] = measure()
            except Exception as error:  # Figures that were already measured are printed.
                print(f"error: {name}: {error}\nhint: `--only {name}` runs this part alone", file=sys.stderr)
                failed.append(name)
    return figures, failed


if __name__ == "__main__":
    sys.exit(main())
