"""Rates of requests that take about as long as the measuring phase, for which neither a count nor
the latency gives the rate.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hakaru.analysis import summarise
from hakaru.kinds.vms.tables import _packet_errors

from tests.analysis.small_distance import Load, Pt, factors, simulate, spec_of, write_run

DEEP = spec_of("optimised", 20, lanes=32, depth=4)
SLOWER = 30.0


def change(samples: Path, ended: bool) -> None:
    """Change the samples so that only the fast requests have ended, or none."""
    table = pq.read_table(samples)

    def counter(name: str, value: float) -> float:
        if name in ("writes", "write_bytes") and not ended:
            return 0.0
        return 0.3 * value if name == "write_latency_ns_sum" else value

    names, values = table.column("name").to_pylist(), table.column("value").to_pylist()
    others = [counter(n, v) for n, v in zip(names, values, strict=True)]
    assert others != values
    column = table.schema.get_field_index("value")
    pq.write_table(table.set_column(column, "value", pa.array(others)), samples)


@pytest.mark.parametrize("ended", [True, False])
def test_rate_comes_from_tcp_if_requests_take_longer_than_the_measuring_phase(tmp_path: Path, ended: bool) -> None:
    """Four requests outstanding take 4 s each, so only fast ones end within 3 s, if any."""
    load = Load(DEEP, slower=SLOWER, seconds=3)
    folder = write_run(tmp_path, [Pt(factors(settings="optimised", queue_depth=4), [load])])
    change(next(folder.glob("samples/*.parquet")), ended)
    metrics = summarise(folder)["points"][0]["metrics"]
    sent = simulate(DEEP).mb_per_s / SLOWER
    assert metrics["mb_per_s"]["mean"] == pytest.approx(sent, rel=0.001)
    assert metrics["write_iops"]["mean"] == pytest.approx(sent / 4.194304, rel=0.001)


@pytest.mark.parametrize(("errors", "shown"), [(0.0, "0 of 10"), (0.3, "1 of 10"), (2.0, "2 of 10")])
def test_no_packets_with_errors_means_none(errors: float, shown: str) -> None:
    assert _packet_errors({"packets": {"mean": 10.0}, "packet_errors": {"mean": errors}}, "en") == shown
