"""Retransmission timeouts of each point, from recorded TCP series, for every kind of study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.run_data import RunData
from hakaru.analysis.tcp_series import connections, recovering_ns, timeouts
from hakaru.wording import LANGUAGES, say

NEEDED = {"node", "socket", "local", "peer", "source", "at_ns", "within_ns", "congestion_state"}
NEEDED |= {"unacked_segments", "acked_bytes", "timeouts", "unanswered_timeouts"}


@dataclass
class TcpSeries:
    """Timeouts of all connections of a point during the measuring phase, over all its
    repetitions.
    """

    repetitions: int = 0
    connections: int = 0
    """Connections of a repetition; the largest number if repetitions differ."""
    timeouts: int = 0
    traced: int = 0
    """Timeouts that a kernel event reported; only the kernel's counter shows the others."""
    silence_s_max: float = 0.0
    """Longest time before a timer expired in which data was in flight and none was acknowledged."""
    recovery_s: float = 0.0
    """Time from an expiry until congestion control had recovered, summed over connections. Further
    expiries in that time add nothing.
    """

    def add(self, table: pa.Table, window: tuple[int, int]) -> None:
        """Add the series of one repetition."""
        self.repetitions += 1
        self.connections = max(self.connections, connections(table))
        found = timeouts(table)
        self.recovery_s += recovering_ns(found, window) / 1e9
        for timeout in found:
            if window[0] <= timeout.at_ns <= window[1]:
                self.timeouts += 1
                self.traced += timeout.traced
                self.silence_s_max = max(self.silence_s_max, (timeout.silent_ns or 0) / 1e9)

    def to_json(self) -> dict[str, Any]:
        """`tcp_series` of a point."""
        return {
            "repetitions": self.repetitions,
            "connections": self.connections,
            "timeouts": self.timeouts,
            "traced": self.traced,
            "silence_s_max": self.silence_s_max,
            "recovery_s": self.recovery_s,
        }


def of_point(run: RunData, point: str) -> TcpSeries | None:
    """Timeouts of a point; None if the run recorded no TCP series."""
    series = TcpSeries()
    for record in run.records(point):
        measure = record.get("measure") or {}
        table = run.tcp_series(point, int(record["repetition"]))
        if table is not None and table.num_rows and set(table.column_names) >= NEEDED and measure:
            series.add(table, (int(measure["start_ns"]), int(measure["end_ns"])))
    return series if series.repetitions else None


def finding(factors: dict[str, Any], series: TcpSeries, several: bool) -> Finding | None:
    """A finding about the timeouts of a point; None if there were none."""
    if not series.timeouts:
        return None
    where = dict(factors) if several else {}
    text = {lang: sentences.in_series(lang, where, _words(lang, series), several) for lang in LANGUAGES}
    return Finding("tcp_series", where, text, None, series.to_json())


def _words(language: str, series: TcpSeries) -> str:
    values = {
        "count": series.timeouts,
        "connections": say(language, "finding.tcp_series.connections", {"count": series.connections}),
        "repetitions": say(language, "finding.tcp_series.repetitions", {"count": series.repetitions}),
        "silence": round(series.silence_s_max * 1e3),
        "recovery": round(series.recovery_s, 2),
    }
    return say(language, "finding.tcp_series", values)
