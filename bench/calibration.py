"""The calibrations of hakaru: what is measured, against which known or observed value, within which
goal. `tools/calibrate` prints them as one table and writes docs/methodology/calibration.md.

- *Latency*: the initiator against an independent observer (bench/latency_scene.py).
- *Pacing*: an open load's rate, counted by the same observer.
- *Rate, delay, loss*: the emulated network against its settings (bench/fabric.py).
- *Forwarding rate*: the search for a device's highest rate, through ports whose rate is known.
- *Models in virtual time*: tests of the crates against calculated results, which print a line for
  every comparison.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric import ALONE, FabricBench
from figure import Figure

SCENE = Path(__file__).with_name("latency_scene.py")
KIB, MIB = 1 << 10, 1 << 20
MEDIAN_US, MEDIAN_SHARE, P99_SHARE = 2.0, 0.01, 0.05
"""Goals for latencies: the error of a median is at most the sum of the first two, that of a 99th
percentile at most the last one."""
PACING_SHARE = 0.01
FORWARDING_SHARE = 0.01
"""The width of the search."""
FRAME_GAP_BYTES = 20
"""Preamble and gap of a frame on the wire (IEEE 802.3)."""
COMPARED = re.compile(r"calibration: (\S+) (\S+) (\S+)")
TESTED = re.compile(r"^test (\S+) \.\.\.", re.MULTILINE)
MODELS = {
    "load": ("calibration", ""),
    "drive": ("calibration", ""),
    "fabric": ("fabric", "calibration::"),
    "world": ("phases", ""),
}
"""Tests that print a line for every comparison: crate → their program, and the beginning of their
names."""


@dataclass(frozen=True)
class Row:
    """One line of the table. `error` and `goal` are texts with their units."""

    kind: str
    case: str
    n: int
    reference: str
    measured: str
    error: str
    goal: str
    within: bool


def latency_cells(arrays: Sequence[str], sizes: Sequence[int], depths: Sequence[int], seconds: float) -> list[Any]:
    """Return the cells of every combination, for reads and writes."""
    return [
        {"array": array, "op": op, "bytes": size, "depth": depth, "seconds": seconds}
        for array in arrays
        for op in ("read", "write")
        for size in sizes
        for depth in depths
    ]


def pacing_cells(rates_per_s: Sequence[int], seconds: float) -> list[Any]:
    """Return cells with an open load."""
    cell = {"array": "memory", "op": "read", "bytes": 4 * KIB, "depth": 32, "seconds": seconds}
    return [cell | {"rate_per_s": rate} for rate in rates_per_s]


def measure(engine: Path, cells: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the result of each cell as it is measured."""
    # Captures go to memory, because a slow disk would make the ring overflow.
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hakaru-calibrate-") as folder:
        asked = json.dumps({"engine": str(engine), "folder": folder, "cells": cells})
        with subprocess.Popen([*ALONE, sys.executable, str(SCENE), asked], stdout=subprocess.PIPE, text=True) as scene:
            assert scene.stdout is not None
            for line in scene.stdout:
                yield json.loads(line)
        if scene.returncode != 0:
            raise RuntimeError(f"{SCENE.name} ended with exit status {scene.returncode}")


def latency_rows(result: dict[str, Any]) -> list[Row]:
    """Judge the median and the 99th percentile of a cell, and the mean from the departure of the
    commands, which excludes their waits in the initiator's send queue.

    A cell is outside its goals if the observer saw another number of requests than the initiator,
    or packets are missing.
    """
    size = f"{result['bytes'] // MIB} MiB" if result["bytes"] >= MIB else f"{result['bytes'] // KIB} KiB"
    case = f"{result['array']}, {result['op']} {size}, depth {result['depth']}"
    ours, seen = result["initiator"], result["observer"]
    whole = 0 < ours["n"] == seen["n"] and not result["dropped"] and not result["errors"]
    missing = "" if whole else f"; the observer saw {seen['n']:,}, {result['dropped']:,.0f} packets dropped"
    rows = []
    goals = (
        ("latency p50", "p50_us", MEDIAN_SHARE, MEDIAN_US),
        ("latency p99", "p99_us", P99_SHARE, 0.0),
        ("latency from departure, mean", "served_us", MEDIAN_SHARE, MEDIAN_US),
    )
    for kind, key, share, floor_us in goals:
        reference, measured = seen[key], ours[key]
        error = measured - reference
        goal = f"{floor_us:g} µs + {share:.0%}" if floor_us else f"{share:.0%}"
        rows.append(
            Row(
                kind,
                case,
                ours["n"],
                f"{reference:,.1f} µs",
                f"{measured:,.1f} µs",
                (f"{error:+,.1f} µs ({error / reference:+.1%})" if reference else "no commands") + missing,
                goal,
                whole and abs(error) <= floor_us + share * reference,
            )
        )
    return rows


def pacing_row(result: dict[str, Any]) -> Row:
    """Judge the rate of an open load by the observer's number of commands."""
    asked, seconds = result["rate_per_s"], result["seconds"]
    measured = result["observer"]["n"] / seconds
    error = measured / asked - 1
    return Row(
        "pacing",
        f"open load, {asked:,} requests per second",
        result["observer"]["n"],
        f"{asked:,} /s",
        f"{measured:,.1f} /s",
        f"{error:+.2%}",
        f"{PACING_SHARE:.0%}",
        abs(error) <= PACING_SHARE,
    )


def fabric_rows(engine: Path, rounds: int, seconds: int) -> Iterator[Row]:
    """Measure rate, delay and loss of the emulated network; yield the figures that have a limit."""
    with tempfile.TemporaryDirectory() as folder:
        bench = FabricBench(engine, rounds, seconds, Path(folder))
        parts = {"rate": bench.fabric_rate, "delay": bench.fabric_round_trip, "loss": bench.fabric_loss}
        for kind in parts:
            try:
                yield from (figure_row(kind, figure) for figure in parts[kind]() if figure.limit is not None)
            except RuntimeError as error:
                yield failed(kind, error)


def forwarding_rows(bits_per_s: int, frames: Sequence[int], repetitions: int) -> Iterator[Row]:
    """Search for the highest rate of a bridge and a router whose ports have this rate; yield a row
    for each device and length of frames. n is the number of searches, whose mean is judged.
    """
    goal = {"width_percent": 100 * FORWARDING_SHARE, "trial": "2 s", "time": "6 s"}
    study = {
        "format": 1,
        "id": "forwarding-calibration",
        "title": "Forwarding rate",
        "question": "Does the search find the rate of the device's ports?",
        "expectation": "It does.",
        "origin": "measured",
        "lab": {"hosts": ["generator"], "device": {"port_rate": f"{bits_per_s // 1000} kbit/s"}},
        "load": {"kind": "packets", "search": {"budget": "60 s", "goals": [goal]}},
        "variables": {"device": {"sets": ["lab.device.forwards"]}, "frame": {"sets": ["load.frame"]}},
        "factors": [{"device": ["bridge", "routing"], "frame": list(frames)}],
        "measure": {"repetitions": repetitions, "sample_interval": "100 ms"},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(json.dumps(study))
        command = [sys.executable, "-m", "hakaru.cli", "run", str(path), "--out", folder, "--quiet", "--report", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reports = list(Path(folder).glob("*/report/report.json"))
        if len(reports) != 1:
            raise RuntimeError(done.stderr[-1000:])
        points = json.loads(reports[0].read_text())["points"]
    yield from (forwarding_row(point, bits_per_s) for point in points)


def forwarding_row(point: dict[str, Any], bits_per_s: int) -> Row:
    """Judge a point of such a study."""
    device, frame = point["factors"]["device"], point["factors"]["frame"]
    known = bits_per_s / 8 / (frame + FRAME_GAP_BYTES)
    found = point["metrics"].get("frames_per_s") or {"mean": None, "n": 0}
    case = f"{device}, ports of {bits_per_s / 1e6:g} Mbit/s, frames of {frame} bytes"
    goal = f"{FORWARDING_SHARE:.0%}"
    if found["mean"] is None:
        return Row("forwarding rate", case, found["n"], f"{known:,.0f} /s", "none found", "", goal, False)
    error = found["mean"] / known - 1
    within = abs(error) <= FORWARDING_SHARE
    bounds = {each["caveat"] for each in point["caveats"]} & {"tester_limited", "search_unfinished"}
    measured = f"{found['mean']:,.0f} /s" + (f", a lower bound ({', '.join(sorted(bounds))})" if bounds else "")
    return Row("forwarding rate", case, found["n"], f"{known:,.0f} /s", measured, f"{error:+.2%}", goal, within)


def failed(kind: str, error: object) -> Row:
    """Return the row of a calibration that could not be measured."""
    print(f"error: {kind}: {error}", file=sys.stderr)
    return Row(kind, "not measured", 0, "", "", "", "", False)


def figure_row(kind: str, figure: Figure) -> Row:
    """Return the row of a figure that is an error with a limit."""
    value = figure.document()["value"]
    assert figure.limit is not None
    return Row(
        kind,
        figure.name.removeprefix("fabric_").replace("_", " "),
        len(figure.ours),
        "",
        "",
        f"{value:.3g} {figure.unit}",
        f"{figure.limit:g} {figure.unit}",
        value <= figure.limit,
    )


def model_rows(root: Path) -> Iterator[Row]:
    """Run the calibration tests of the crates; yield a row for each test, with the comparison that
    is closest to its tolerance.
    """
    for crate, (program, beginning) in MODELS.items():
        command = ["cargo", "test", "-p", f"hakaru-{crate}", "--test", program, beginning]
        done = subprocess.run(
            [*command, "--", "--nocapture", "--test-threads=1"], cwd=root, capture_output=True, text=True, check=False
        )
        yield from rows_of_tests(crate, done.stdout)
        if done.returncode != 0:
            yield failed(f"{crate} model", done.stdout[-1000:] + done.stderr[-1000:])


def rows_of_tests(crate: str, output: str) -> Iterator[Row]:
    """Parse the output of a crate's calibration tests."""
    parts = TESTED.split(output)[1:]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        compared = [tuple(map(float, match)) for match in COMPARED.findall(text)]
        if not compared:
            continue
        value, expected, tolerance = max(compared, key=_share_of_tolerance)
        error = abs(value - expected)
        yield Row(
            f"{crate} model",
            name.rpartition("::")[2].replace("_", " "),
            len(compared),
            f"{expected:,.6g}",
            f"{value:,.6g}",
            f"{100 * error / expected:.2g} %" if expected else f"{error:g}",
            f"{100 * tolerance / expected:.2g} %" if expected else f"{tolerance:g}",
            error <= tolerance,
        )


def _share_of_tolerance(compared: tuple[float, ...]) -> float:
    value, expected, tolerance = compared
    return abs(value - expected) / tolerance if tolerance else abs(value - expected)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| calibration | case | n | reference | measured | error | goal | within |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (row.kind, row.case, f"{row.n:,}", row.reference, row.measured, row.error, row.goal)
        lines.append(f"| {' | '.join(cells)} | {'yes' if row.within else '**no**'} |")
    return "\n".join(lines) + "\n"


def summary(rows: Sequence[Row]) -> str:
    """Return the number of rows within their goals, by kind; latencies also by operation."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        operation = next((f", {op}s" for op in ("read", "write") if f", {op} " in row.case), "")
        groups.setdefault(row.kind + (operation if row.kind.startswith("latency") else ""), []).append(row)
    lines = ["| calibration | within | of |", "|---|---|---|"]
    lines += [f"| {name} | {sum(row.within for row in group)} | {len(group)} |" for name, group in groups.items()]
    lines.append(f"| all | {sum(row.within for row in rows)} | {len(rows)} |")
    return "\n".join(lines) + "\n"


def machine() -> dict[str, Any]:
    """Return the properties of this machine that affect the table."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": cpu[1] if cpu else os.uname().machine,
        "cores": os.cpu_count() or 1,
        "kernel": os.uname().release,
        "load": os.getloadavg()[0],
    }
