"""Contents and gaps of a run's captures, of each node in each repetition: from the files and the
count of the watch.
"""

from __future__ import annotations

import re
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.store import RunReader


def captures_of(run: RunData) -> list[dict[str, Any]]:
    """One element per node and repetition, in the order of the points; empty where nothing was
    captured.

    `files`: paths within the run directory, in order; `bytes`: all of them; `packets` were written,
    `dropped` were not, for want of room in the kernel's ring; `deleted_files`: parts that went for
    newer ones, with their packets; `cut_short`: it ended before the measuring did.
    """
    reader = RunReader(run.directory)
    captures = []
    for point in run.points:
        for record in run.records(str(point["point"])):
            files = reader.captures(str(point["point"]), int(record["repetition"]))
            for engine in record.get("engines") or []:
                if "capture_packets" in (engine.get("values") or {}):
                    stem = f"{point['point']}-{record['repetition']}-{engine['node']}"
                    own = [file for file in files if re.fullmatch(rf"{re.escape(stem)}(-\d{{5,}})?", file.stem)]
                    values = engine["values"]
                    captures.append(
                        {
                            "point": str(point["point"]),
                            "repetition": int(record["repetition"]),
                            "node": str(engine["node"]),
                            "files": [str(file.relative_to(run.directory)) for file in own],
                            "bytes": sum(file.stat().st_size for file in own),
                            "packets": int(values["capture_packets"]),
                            "dropped": int(values.get("capture_dropped", 0)),
                            "deleted_files": max(0, int(values.get("capture_files", 0)) - len(own)),
                            "cut_short": bool(values.get("capture_cut_short")),
                        }
                    )
    return captures
