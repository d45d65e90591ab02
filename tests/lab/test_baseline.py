"""Errors of baselines that cannot be measured. `test_linked_lab.py` measures baselines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import LostError
from hakaru.lab.build.apply import Namespaces
from hakaru.lab.check import baseline

from .linked_lab import plan

REPORT = {
    "start": {"version": "iperf 3.12"},
    "end": {
        "sum_sent": {"retransmits": 7},
        "sum_received": {"bits_per_second": 9.4e8},
        "sender_tcp_congestion": "cubic",
    },
}


@pytest.mark.parametrize(
    ("output", "message"),
    [("", "printed no report"), (json.dumps({"error": "unable to connect"}), "unable to connect")],
)
def test_missing_iperf_report_error_names_both_ends(output: str, message: str) -> None:
    with pytest.raises(LostError, match=f"from kvm-1 to vtl.*{message}"):
        baseline._parse_report(output, "kvm-1", "vtl")


class FakeLab:
    """A lab whose nodes have no network."""

    plan = plan()
    namespaces = Namespaces()


def test_unreachable_array_does_not_hide_the_baseline_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(_lab: Any, _program: str, _host: str, array: str, _address: str, _more: list[str]) -> Any:
        if array == "primary":
            raise LostError("iperf3 from kvm-1 to primary did not end", "")
        return REPORT

    monkeypatch.setattr(baseline.shutil, "which", lambda _: str(tmp_path / "iperf3"))
    monkeypatch.setattr(baseline, "_iperf", run)
    failed, measured = asyncio.run(baseline.measure_baselines(FakeLab()))  # type: ignore[arg-type]
    assert failed == {"from": "kvm-1", "to": "primary", "error": "iperf3 from kvm-1 to primary did not end"}
    assert (measured["to"], measured["tool"], measured["streams"], measured["forward_retransmits"]) == (
        "vtl",
        "iperf 3.12",
        2,
        7,
    )
    assert measured["back_payload_bits_per_s"] == 9.4e8
