"""A baseline that cannot be taken is told as such. Taking one: `test_linked_lab.py`."""

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
    ("out", "said"), [("", "gave no report"), (json.dumps({"error": "unable to connect"}), "unable to connect")]
)
def test_a_report_that_is_none_says_between_whom(out: str, said: str) -> None:
    with pytest.raises(LostError, match=f"from kvm-1 to vtl.*{said}"):
        baseline._parse_report(out, "kvm-1", "vtl")


class FakeLab:
    """Nodes without a network."""

    plan = plan()
    namespaces = Namespaces()


def test_one_array_that_cannot_be_reached_does_not_hide_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(_lab: Any, _program: str, _host: str, array: str, _address: str, _more: list[str]) -> Any:
        if array == "primary":
            raise LostError("iperf3 from kvm-1 to primary did not end", "")
        return REPORT

    monkeypatch.setattr(baseline.shutil, "which", lambda _: str(tmp_path / "iperf3"))
    monkeypatch.setattr(baseline, "_iperf", run)
    lost, taken = asyncio.run(baseline.measure_baselines(FakeLab()))  # type: ignore[arg-type]
    assert lost == {"from": "kvm-1", "to": "primary", "error": "iperf3 from kvm-1 to primary did not end"}
    assert (taken["to"], taken["tool"], taken["streams"], taken["to_array_retransmits"]) == ("vtl", "iperf 3.12", 2, 7)
    assert taken["from_array_payload_bits_per_s"] == 9.4e8
