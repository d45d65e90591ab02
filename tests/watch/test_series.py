"""The series file of the watch engine: complete files are read, other files are refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hakaru.analysis.tcp_series import timeouts
from hakaru.errors import HakaruError, LostError
from hakaru.store import TCP, read_series, series_table, write_tcp

HEADER = {
    "format": "hakaru tcp series",
    "version": 1,
    "byte_order": "little",
    "kinds": {
        "socket": {
            "kind": 1,
            "columns": [
                ["socket", "u32"],
                ["cookie", "u64"],
                ["local", "s48"],
                ["peer", "s48"],
                ["congestion_control", "s16"],
            ],
        },
        "sock_diag": {
            "kind": 2,
            "columns": [
                ["at_ns", "u64"],
                ["within_ns", "u32"],
                ["socket", "u32"],
                ["congestion_state", "u8"],
                ["congestion_window_segments", "u32"],
                ["acked_bytes", "u64"],
                ["unacked_segments", "u32"],
                ["unanswered_timeouts", "u8"],
            ],
        },
        "retransmit": {"kind": 4, "columns": [["at_ns", "u64"], ["socket", "u32"]]},
        "state": {"kind": 5, "columns": [["at_ns", "u64"], ["socket", "u32"], ["congestion_state", "u8"]]},
        "lost": {"kind": 6, "columns": [["at_ns", "u64"], ["lost_events", "u64"]]},
    },
}
READING = "<QIIBIQIB"
NO_U32, NO_U64 = (1 << 32) - 1, (1 << 64) - 1


def header(**changes: object) -> bytes:
    return json.dumps(HEADER | changes).encode() + b"\n"


def block(kind: int, *records: bytes) -> bytes:
    return struct.pack("<II", kind, len(records)) + b"".join(records)


def socket_record(number: int, cookie: int, peer: str, control: str = "cubic") -> bytes:
    return struct.pack("<IQ48s48s16s", number, cookie, b"10.0.0.1:3260", peer.encode(), control.encode())


def written(folder: Path, body: bytes) -> Path:
    path = folder / "a.series"
    path.write_bytes(body)
    return path


def test_rows_are_ordered_with_names_and_nulls(tmp_path: Path) -> None:
    body = (
        header()
        + block(1, socket_record(7, NO_U64 - 5, "10.0.0.2:1"), socket_record(9, 4, "10.0.0.2:2", ""))
        + block(
            2,
            struct.pack(READING, 30, 5, 9, 4, 10, NO_U64, 3, 0),
            struct.pack(READING, 10, 5, 7, 0, NO_U32, 1 << 40, 0, 255),
        )
        + block(4, struct.pack("<QI", 20, 7))
        + block(6, struct.pack("<QQ", 40, 12))
    )
    series = read_series(written(tmp_path, body))
    assert not series.cut
    table = series_table("host-1", series)
    assert table.schema == TCP
    first, second, third, fourth = table.to_pylist()
    assert [first["at_ns"], second["at_ns"], third["at_ns"], fourth["at_ns"]] == [10, 20, 30, 40]
    assert first["source"] == "sock_diag"
    assert (first["socket"], first["peer"], first["congestion_control"]) == (NO_U64 - 5, "10.0.0.2:1", "cubic")
    assert (first["congestion_window_segments"], first["acked_bytes"]) == (None, 1 << 40)
    assert (first["congestion_state"], first["unanswered_timeouts"], first["timeouts"]) == ("open", None, None)
    assert (second["source"], second["peer"], second["acked_bytes"]) == ("retransmit", "10.0.0.2:1", None)
    assert (third["peer"], third["congestion_control"], third["congestion_state"]) == ("10.0.0.2:2", None, "loss")
    assert (fourth["source"], fourth["socket"], fourth["lost_events"]) == ("lost", None, 12)
    assert {row["node"] for row in (first, second, third, fourth)} == {"host-1"}


def test_incomplete_end_of_a_series_is_cut_off_and_reported(tmp_path: Path) -> None:
    whole = header() + block(4, struct.pack("<QI", 20, 7))
    cut = block(4, struct.pack("<QI", 30, 7), struct.pack("<QI", 40, 7))
    for length in range(1, len(cut)):
        series = read_series(written(tmp_path, whole + cut[:length]))
        assert series.cut
        assert series.kinds["retransmit"]["at_ns"].tolist() == [20]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PAR1",
        b"[]\n",
        header(version=2),
        header(byte_order="big"),
        header() + block(99, b"x"),
    ],
    ids=["empty", "other", "no object", "version", "byte order", "kind"],
)
def test_invalid_series_is_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(LostError, match=r"a\.series"):
        read_series(written(tmp_path, body))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HakaruError, match="gone"):
        read_series(tmp_path / "gone")


def test_series_of_several_nodes_are_merged_into_one_file(tmp_path: Path) -> None:
    files = {}
    for node, peer in (("host", "10.0.0.2:1"), ("array", "10.0.0.2:2")):
        files[node] = tmp_path / node
        record = struct.pack("<QI", 20, 7)
        files[node].write_bytes(header() + block(1, socket_record(7, 1, peer)) + block(4, record) + bytes(3))
    assert write_tcp(tmp_path / "p01-1.parquet", files) == {"host": True, "array": True}
    rows = pq.read_table(tmp_path / "p01-1.parquet").to_pylist()
    assert [(row["node"], row["peer"]) for row in rows] == [("host", "10.0.0.2:1"), ("array", "10.0.0.2:2")]


def test_timeouts_are_found_with_a_counter_of_consecutive_timeouts(tmp_path: Path) -> None:
    readings = [
        struct.pack(READING, at, 0, 7, state, 10, acked, unacked, in_a_row)
        for at, state, acked, unacked, in_a_row in [
            (100, 0, 50, 0, 0),
            (200, 0, 60, 1, 0),
            (300, 0, 60, 1, 0),
            (400, 4, 60, 1, 1),
            (500, 4, 60, 1, 2),
            (600, 0, 70, 0, 0),
        ]
    ]
    body = header() + block(1, socket_record(7, 1, "10.0.0.2:1")) + block(2, *readings)
    in_series = timeouts(series_table("a", read_series(written(tmp_path, body))))
    assert [(t.at_ns, t.silent_ns, t.over_ns, t.traced) for t in in_series] == [
        (400, 200, 600, False),
        (500, 300, 600, False),
    ]


def test_timeouts_without_an_event_are_found_by_the_counter(tmp_path: Path) -> None:
    readings = [
        struct.pack(READING, at, 10, 7, state, 10, 60, 1, in_a_row)
        for at, state, in_a_row in [(100, 0, 0), (200, 4, 1), (300, 4, 2), (400, 4, 3), (500, 0, 0), (600, 4, 1)]
    ]
    # The result has the first and the third timeout (the third began during a reading), and the
    # ends of three; it lacks the second and the last.
    events = [struct.pack("<QIB", *event) for event in [(150, 7, 4), (405, 7, 4), (470, 7, 0)]]
    body = header() + block(1, socket_record(7, 1, "10.0.0.2:1")) + block(2, *readings) + block(5, *events)
    in_series = timeouts(series_table("a", read_series(written(tmp_path, body))))
    assert [(t.at_ns, t.over_ns, t.traced) for t in in_series] == [
        (150, 470, True),
        (300, 470, False),
        (405, 470, True),
        (600, None, False),
    ]
    assert {t.last_ns for t in in_series} == {600}
