"""Contents and gaps of the captures of a run, per node and repetition, from the files and the
counters of the watch.
"""

from __future__ import annotations

import re
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.store import RunReader


def captures_of(run: RunData) -> list[dict[str, Any]]:
    """One element per node and repetition, in the order of the points; empty without captures.

    `files`: paths relative to the run directory, in order. `bytes`: their total size. `packets`:
    packets written. `dropped`: packets lost because the kernel's ring was full. `deleted_files`:
    older parts that were deleted, with their packets, to make room for newer ones. `cut_short`:
    whether the capture ended before the measurement.
    """
    reader = RunReader(run.directory)
    captures = []
    for point in run.points:
        for record in run.records(str(point["point"])):
            files = reader.captures(str(point["point"]), int(record["repetition"]))
            for engine in record.get("engines") or []:
                if "capture_packets" in (engine.get("values") or {}):
                    stem = f"{point['point']}-{record['repetition']}-{engine['node']}"
                    node_files = [file for file in files if re.fullmatch(rf"{re.escape(stem)}(-\d{{5,}})?", file.stem)]
                    values = engine["values"]
                    captures.append(
                        {
                            "point": str(point["point"]),
                            "repetition": int(record["repetition"]),
                            "node": str(engine["node"]),
                            "files": [str(file.relative_to(run.directory)) for file in node_files],
                            "bytes": sum(file.stat().st_size for file in node_files),
                            "packets": int(values["capture_packets"]),
                            "dropped": int(values.get("capture_dropped", 0)),
                            "deleted_files": max(0, int(values.get("capture_files", 0)) - len(node_files)),
                            "cut_short": bool(values.get("capture_cut_short")),
                        }
                    )
    return captures
