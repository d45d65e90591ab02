#!/usr/bin/env python3
"""How often `hakaru compare` reports a difference between identical runs, and how often it finds a
planted one (`make compare-pairs`).

    bench/compare_pairs.py [--identical 40] [--planted 20] [--percent 5]

Runs one lab again and again; a link of 100 Mbit/s is its limit. Each pair is two runs of its own.
In a planted pair, the link of the second run is slower by `--percent`. Prints a table. A pair
counts as different if any metric that has a better direction is `better` or `worse`, and as found
if `iops` is `worse`. Needs an idle machine, and about 40 seconds per pair.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HAKARU = Path(sys.executable).parent / "hakaru"
RATE_MBIT = 100.0
STUDY = """\
format: 1
id: pair
title: {{en: One of a pair}}
question: {{en: How many requests per second pass a link?}}
expectation: {{en: As many as fill the link.}}
origin: emulated
lab:
  hosts: 1
  host_link: {{rate: 1 Gbit/s}}
  array_link: {{rate: {rate:g} Mbit/s}}
array:
  target_name: iqn.2026-01.org.hakaru:pair
  model: {{kind: none}}
  lus: [{{lun: 0, size: 64 MiB}}]
load:
  kind: vms
  columns: [[0]]
  image: 16 MiB
  patterns:
    reads: {{sizes: [{{size: 16 KiB}}], read_percent: 100, random_percent: 100, load: {{kind: closed, queue_depth: 4}}}}
factors: [{{pattern: [reads], vms: [2]}}]
measure: {{warmup: 300 ms, time: 1 s, repetitions: 5, sample_interval: 200 ms}}
"""


def run(folder: Path, rate_mbit: float) -> str:
    """Run the lab with a link of this rate. Return the path of the run."""
    study = folder / "study.yaml"
    study.write_text(STUDY.format(rate=rate_mbit))
    command = [HAKARU, "run", str(study), "--out", str(folder), "--report", "none", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 5):
        sys.exit(done.stderr)
    (event,) = [e for line in done.stdout.splitlines() if (e := json.loads(line))["event"] == "done"]
    return str(event["run"])


def compare(before: str, after: str) -> list[dict[str, Any]]:
    """The metrics of two runs that differ and have a better direction."""
    done = subprocess.run([HAKARU, "compare", before, after, "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["comparisons"][0]["rows"]
    return [row for row in rows if row["verdict"] in ("better", "worse")]


def line(number: int, kind: str, rows: list[dict[str, Any]]) -> str:
    changed = ", ".join(f"{row['metric']} {row['verdict']} ({row['change']:+.1f} {row['change_unit']})" for row in rows)
    return f"{number:>3} {kind:<9} {changed or 'no difference'}"


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--identical", type=int, default=40)
    options.add_argument("--planted", type=int, default=20)
    options.add_argument("--percent", type=float, default=5.0)
    chosen = options.parse_args()
    different = found = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(chosen.identical):
            rows = compare(run(folder, RATE_MBIT), run(folder, RATE_MBIT))
            different += bool(rows)
            print(line(number + 1, "identical", rows), flush=True)
        for number in range(chosen.planted):
            slower = RATE_MBIT * (1 - chosen.percent / 100)
            rows = compare(run(folder, RATE_MBIT), run(folder, slower))
            found += any(row["metric"] == "iops" and row["verdict"] == "worse" for row in rows)
            print(line(number + 1, "planted", rows), flush=True)
    print(f"identical pairs reported as different: {different} of {chosen.identical}")
    print(f"planted changes of {chosen.percent:g} % found: {found} of {chosen.planted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
