#!/usr/bin/env python3
"""Runs labs with one planted bottleneck each and checks the verdicts of the analysis (`make
limits`).

    bench/limits.py                     run all, print the tables, write docs/methodology/limits.md
    bench/limits.py slow-drive depth    only these cases; nothing is written

Rates are low (links of 50 to 200 Mbit/s, drives of a few hundred IOPS), so that the planted limit
is reached before this machine's own. Exit code 0: done; 1: a wrong verdict; 2: more than two
bottlenecks not identified.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methodology/limits.md"
HAKARU = Path(sys.executable).parent / "hakaru"
MISSED_MAX = 2
TEST_SETUP = ("generator_cpu", "machine_cpu", "fabric")
KIB, MIB = 1 << 10, 1 << 20

FAST = {"raid": "raid0", "drives": 4, "stripe_unit_bytes": 65536, "drive": {"kind": "preset", "name": "nvme-ssd-2000"}}
NEARLINE = {
    "kind": "hdd",
    "capacity_bytes": 1000204886016,
    "rpm": 7200,
    "heads": 4,
    "rate_outer_bytes_per_s": 130e6,
    "rate_inner_bytes_per_s": 65e6,
    "seek_track_ms": 0.8,
    "seek_average_ms": 8.5,
    "seek_full_ms": 18,
    "write_settle_ms": 0.5,
    "queue_depth": 8,
    "age_limit_ms": 500,
}
DISK = {"raid": "raid0", "drives": 1, "stripe_unit_bytes": 65536, "drive": NEARLINE}
CONTROLLER = {"command_us": 20, "data_us_per_mib": 100}


def model(groups: dict[str, Any] = FAST, **parts: Any) -> dict[str, Any]:
    """Return the timing model of an array with one group."""
    return {"kind": "array", "controller": CONTROLLER, "groups": [groups]} | parts


FAR = {"lab.links.a1.delay": "5 ms"}
"""Changes for a round trip of 10 ms."""


@dataclass(frozen=True)
class Planted:
    """One bottleneck: the verdict that names it, the load, and the changes of the lab that plant
    it.
    """

    name: str
    verdict: str
    pattern: str
    changes: dict[str, Any] = field(default_factory=dict)


CHAIN = (
    Planted("slow drive", "drives", "read-8k", {"array.model": model(DISK)}),
    Planted(
        "slow controller", "controller", "read-8k", {"array.model": model(controller=CONTROLLER | {"command_us": 4000})}
    ),
    Planted("slow array port", "port", "read-64k", {"array.model": model(port={"rate_bytes_per_s": 5e6})}),
    Planted("slow link for reads", "link", "read-64k", {"lab.links.a1.rate": "50 Mbit/s"}),
    Planted("slow link for writes", "link", "write-64k", {"lab.links.a1.rate": "50 Mbit/s"}),
    Planted(
        "small receive window",
        "receive_window",
        "write-1m",
        FAR | {"load.iscsi.target.socket.receive_buffer": "16 KiB"},
    ),
    Planted(
        "small send buffer",
        "send_buffer",
        "write-1m",
        {"lab.links.a1.delay": "15 ms", "load.iscsi.initiator.socket.send_buffer": "16 KiB"},
    ),
    Planted(
        "R2T round trips",
        "r2t_turns",
        "write-512k-alone",
        FAR
        | {
            "load.iscsi.target.initial_r2t": True,
            "load.iscsi.target.immediate_data": False,
            "load.iscsi.target.max_burst_length": "64 KiB",
            "load.iscsi.target.max_outstanding_r2t": 1,
        },
    ),
    Planted(
        "shallow switch buffer",
        "switch_buffer",
        "write-1m",
        {"lab.links.a1.delay": "10 ms", "lab.links.a1.rate": "100 Mbit/s", "lab.links.a1.queue": "8 KiB"},
    ),
    Planted("lossy line", "congestion_window", "write-1m", FAR | {"lab.links.a1.loss": {"percent": 0.5}}),
    Planted(
        "full write cache",
        "cache",
        "write-8k-random",
        {"array.model": model(DISK, cache={"size_bytes": MIB, "hit_us": 100, "read_ahead_bytes": 0})},
    ),
    Planted("low queue depth", "depth", "read-64k-alone", {"lab.links.a1.delay": "20 ms"}),
)
"""Cases in a lab of a host, two switches and an array, described link by link."""
CORES = (
    Planted("busy initiator core", "generator_cpu", "write-1m-deep"),
    Planted("busy array core", "array_cpu", "write-1m-deep"),
)
"""Cases in a star without rates, whose array is as fast as this machine. A write of 1 MiB costs the
array twice as much processor time as the initiator; with every block stamped (`verify`) it costs
the initiator more.
"""


def pattern(read_percent: int, size: str, depth: int, random_percent: int = 100) -> dict[str, Any]:
    """Return a closed load of one request size."""
    load = {"kind": "closed", "queue_depth": depth}
    return {
        "sizes": [{"size": size}],
        "read_percent": read_percent,
        "random_percent": random_percent,
        "load": load,
    }


PATTERNS = {
    "read-8k": pattern(100, "8 KiB", 16),
    "read-64k": pattern(100, "64 KiB", 8),
    "write-64k": pattern(0, "64 KiB", 8),
    "write-1m": pattern(0, "1 MiB", 4, 0),
    "write-512k-alone": pattern(0, "512 KiB", 1, 0),
    "write-8k-random": pattern(0, "8 KiB", 32),
    "read-64k-alone": pattern(100, "64 KiB", 1),
    "write-1m-deep": pattern(0, "1 MiB", 8, 0),
    "mixed-64k": pattern(60, "64 KiB", 8),
}
LINKS = {
    "h1": {"between": ["h1", "near"], "rate": "200 Mbit/s", "queue": "1 MiB"},
    "trunk": {"between": ["near", "far"], "rate": "200 Mbit/s", "queue": "1 MiB"},
    "a1": {"between": ["far", "a1"], "rate": "200 Mbit/s", "queue": "1 MiB"},
}
LAB = {"hosts": ["h1"], "arrays": ["a1"], "switches": {"near": {}, "far": {}}, "links": LINKS}


def study(name: str, lab: dict[str, Any], factors: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a study document."""
    used = {level for block in factors for level in block["pattern"]}
    text = {"en": name, "ja": name}
    return {
        "format": 1,
        "id": name,
        "title": text,
        "question": text,
        "expectation": text,
        "origin": "emulated",
        "lab": lab,
        "array": {
            "target_name": f"iqn.2026-11.example.hakaru:{name}",
            "model": model(),
            "lus": [{"lun": 0, "size": "4 GiB", "placement": {"group": 0}}],
        },
        "load": {
            "kind": "vms",
            "columns": [[0]],
            "image": "256 MiB",
            "patterns": {n: p for n, p in PATTERNS.items() if n in used},
        },
        "factors": factors,
        "measure": {"warmup": "2 s", "time": "3 s", "repetitions": 1, "sample_interval": "200 ms"},
    } | more


def run(folder: Path, described: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a study; return its points, each with the `text` of its finding."""
    directory = folder / described["id"]
    directory.mkdir()
    (directory / "study.yaml").write_text(json.dumps(described))
    out = folder / f"{described['id']}-runs"
    command = [str(HAKARU), "run", str(directory), "--out", str(out), "--report", "none", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    summaries = sorted(out.glob("*/summary.json"))
    if not summaries:
        raise SystemExit(
            f"study {described['id']}: no summary (exit status {done.returncode})\n{done.stdout}{done.stderr}"
        )
    summary = json.loads(summaries[-1].read_text())
    texts = {json.dumps(f["where"], sort_keys=True): f["text"] for f in summary["findings"] if f["kind"] == "limiter"}
    for point in summary["points"]:
        point["text"] = _text(point, texts)
    points: list[dict[str, Any]] = summary["points"]
    return points


def _text(point: dict[str, Any], texts: dict[str, str]) -> str:
    """Return the finding about a point, or about the sweep that consists of it."""
    factors = point["factors"]
    for where in (factors, {f: v for f, v in factors.items() if f != "vms"}):
        if (text := texts.get(json.dumps(where, sort_keys=True))) is not None:
            name, _, rest = text.partition(": ")
            # The finding of a study with one series does not begin with the name of the series.
            named = any(level in name for level in factors.values() if isinstance(level, str))
            return rest if named else text
    return ""


def slug(name: str) -> str:
    """Return a case's name as a level of a variable."""
    return name.replace(" ", "-").lower()


def planted_study(name: str, lab: dict[str, Any], cases: list[Planted], **more: Any) -> dict[str, Any]:
    """Return one study with a level for each case."""
    blocks = [{"planted": [slug(c.name)], "pattern": [c.pattern], "vms": [1]} for c in cases]
    variables = {"planted": {slug(c.name): c.changes for c in cases}}
    return study(name, lab, blocks, variables=variables, **more)


def judgement(case: Planted, point: dict[str, Any]) -> str:
    """Return `yes`, `undetermined`, `test setup` (this machine was the limit) or `WRONG`."""
    limiter = point["limiter"]
    if limiter == case.verdict:
        return "yes"
    return "undetermined" if limiter == "undetermined" else "test setup" if limiter in TEST_SETUP else "WRONG"


def run_planted(folder: Path, chosen: set[str]) -> list[tuple[Planted, dict[str, Any]]]:
    """Run the chosen cases, or all; return each case with its point."""
    results: list[tuple[Planted, dict[str, Any]]] = []
    chain = [c for c in CHAIN if not chosen or slug(c.name) in chosen]
    if chain:
        results += zip(chain, run(folder, planted_study("chain", LAB, chain)), strict=True)
    machine = {"target_name": "iqn.2026-11.example.hakaru:cores", "model": {"kind": "none"}}
    array = machine | {"lus": [{"lun": 0, "size": "4 GiB"}]}
    for case in CORES:
        if chosen and slug(case.name) not in chosen:
            continue
        times = {"warmup": "2 s", "time": "3 s", "repetitions": 1, "sample_interval": "200 ms"}
        measure = times | {"verify": case.verdict == "generator_cpu"}
        block = {"pattern": [case.pattern], "vms": [1]}
        points = run(folder, study(slug(case.name), {"hosts": 1}, [block], array=array, measure=measure))
        results += zip([case], points, strict=True)
    return results


def run_compared(folder: Path) -> list[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """Run the same loads in a star and in a chain of links; return pattern, number of VMs and the
    two points of each load.
    """
    rate = {"rate": "100 Mbit/s", "queue": "512 KiB"}
    chain = LAB | {"links": {name: link | rate for name, link in LINKS.items()}}
    star = {"hosts": ["h1"], "array": "a1", "host_link": rate, "array_link": rate}
    blocks = [
        {"array": ["flash"], "pattern": ["read-64k", "write-64k", "mixed-64k"], "vms": [1, 4]},
        {"array": ["one-disk"], "pattern": ["read-8k"], "vms": [1, 4]},
    ]
    variables = {"array": {"flash": {}, "one-disk": {"array.model": model(DISK)}}}
    runs = [
        run(folder, study(name, lab, blocks, variables=variables))
        for name, lab in (("on-a-star", star), ("on-a-chain", chain))
    ]
    return [(a["factors"]["pattern"], a["factors"]["vms"], a, b) for a, b in zip(*runs, strict=True)]


def planted_table(results: list[tuple[Planted, dict[str, Any]]]) -> str:
    """Return the table of planted bottlenecks, verdicts and evidence."""
    rows = [
        f"| {case.name} | `{point['limiter']}` | {judgement(case, point)} | {point['text']} |\n"
        for case, point in results
    ]
    return "| planted | verdict | identified | evidence |\n|---|---|---|---|\n" + "".join(rows)


def compared_table(results: list[tuple[str, int, dict[str, Any], dict[str, Any]]]) -> str:
    """Return the table of the same load in both labs."""
    rows = []
    for name, vms, star, chain in results:
        same = "yes" if star["limiter"] == chain["limiter"] else "NO"
        sides = " | ".join(f"`{p['limiter']}` {p['resource'] or ''} {_rate(p)}" for p in (star, chain))
        rows.append(f"| {name}, {vms} VM | {sides} | {same} |\n")
    return "| load | star | chain of links | same |\n|---|---|---|---|\n" + "".join(rows)


def _rate(point: dict[str, Any]) -> str:
    rate = point["metrics"]["mb_per_s"]["mean"]
    return f"({rate:.1f} MB/s)" if rate is not None else ""


def main() -> int:
    """Run the cases, print the tables, write the page."""
    chosen = set(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="hakaru-limits-") as temporary:
        folder = Path(temporary)
        results = run_planted(folder, chosen - {"compare"}) if chosen != {"compare"} else []
        pairs = run_compared(folder) if not chosen or "compare" in chosen else []
    tables = [planted_table(results), compared_table(pairs)]
    print("\n".join(tables))
    if not chosen:
        text = re.sub(
            r"(<!-- limits -->\n).*?(<!-- /limits -->)",
            lambda m: f"{m[1]}{tables[0]}\n{tables[1]}{m[2]}",
            PAGE.read_text(),
            flags=re.DOTALL,
        )
        PAGE.write_text(text)
    verdicts = [judgement(case, point) for case, point in results]
    if "WRONG" in verdicts or any(a["limiter"] != b["limiter"] for _, _, a, b in pairs):
        return 1
    return 2 if len(verdicts) - verdicts.count("yes") > MISSED_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
