"""`hakaru analyse` on a capture of open-iscsi and tgt, intact and damaged. tshark is the reference
for its content.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hakaru.capture import analyse, csv_rows, findings, print_analysis
from hakaru.capture.place import place_of_capture
from hakaru.errors import EnvironmentError_, UsageError

from tests.capture.record_open_iscsi import CAPTURE
from tests.peers.array import need

# RFC 7143 section 11.2.1.2.
OPCODES = {
    "NopOut": 0x00, "ScsiCommand": 0x01, "TaskManagementRequest": 0x02, "LoginRequest": 0x03, "TextRequest": 0x04,
    "DataOut": 0x05, "LogoutRequest": 0x06, "NopIn": 0x20, "ScsiResponse": 0x21, "TaskManagementResponse": 0x22,
    "LoginResponse": 0x23, "TextResponse": 0x24, "DataIn": 0x25, "LogoutResponse": 0x26, "R2t": 0x31,
    "AsyncMessage": 0x32, "Reject": 0x3F,
}  # fmt: skip


def only_session(analysed: dict[str, Any]) -> dict[str, Any]:
    (session,) = analysed["capture"]["sessions"]
    for kind in ("reads", "writes"):
        phases = session[kind]["phases"].values()
        assert sum(phase["sum_ns"] for phase in phases) == session[kind]["latency_sum_ns"]
    return dict(session)


def counted(session: dict[str, Any]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for side in ("from_initiator", "from_target"):
        for name, count in session[side]["pdus"].items():
            counts[OPCODES[name]] += count
    return counts


def blocks(pcapng: bytes) -> list[bytes]:
    """Return the blocks of a little-endian pcapng file."""
    parts, offset = [], 0
    while offset < len(pcapng):
        (length,) = struct.unpack_from("<I", pcapng, offset + 4)
        parts.append(pcapng[offset : offset + length])
        offset += length
    return parts


def is_packet(block: bytes) -> bool:
    return block[:4] == struct.pack("<I", 6)


def snapped(block: bytes, bytes_kept: int) -> bytes:
    """Return a packet cut to a snap length, without options."""
    interface, high, low, length, original = struct.unpack_from("<5I", block, 8)
    data = block[28 : 28 + min(length, bytes_kept)]
    body = struct.pack("<5I", interface, high, low, len(data), original) + data + bytes(-len(data) % 4)
    return struct.pack("<2I", 6, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def printed(capsys: pytest.CaptureFixture[str], analysed: dict[str, Any], language: str = "en") -> str:
    capsys.readouterr()
    print_analysis(analysed, language)
    return capsys.readouterr().out


def test_phases_sum_to_the_latency_and_the_session_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    analysed = analyse([CAPTURE])
    session = only_session(analysed)
    assert session["initiator_name"] == "iqn.2026-01.org.hakaru:recorded"
    assert session["target_name"] == "iqn.2011-10.example.tgt:peer"
    assert session["negotiated"]["ImmediateData"] == "Yes"
    # The bytes that dd wrote and read. The kernel also reads partition tables.
    assert session["writes"]["bytes"] == (16 + 256 + 512) << 10
    assert session["reads"]["bytes"] >= (16 + 256) << 10
    # Writes of 256 KiB and 512 KiB, of which the first burst of 64 KiB needs no R2T.
    assert session["writes"]["r2ts"] >= 2
    assert (session["commands_not_whole"], session["commands_unfinished"], session["assumed_pdus"]) == (0, 0, 0)
    for side in ("from_initiator", "from_target"):
        assert (session[side]["skipped_bytes"], session[side]["missing_bytes"]) == (0, 0)
    text = printed(capsys, analysed)
    assert "waiting for R2T" in text and "iqn.2011-10.example.tgt:peer" in text


def test_pdu_counts_by_opcode_equal_those_of_tshark() -> None:
    tshark = need("tshark", "tshark")
    session = only_session(analyse([CAPTURE]))
    port = session["target"].rpartition(":")[2]
    command = [tshark, "-r", str(CAPTURE), "-d", f"tcp.port=={port},iscsi", "-T", "fields", "-e", "iscsi.opcode"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = Counter(int(opcode, 0) for opcode in output.replace(",", " ").split())
    assert expected and counted(session) == expected


def test_packets_missing_from_the_capture_are_accounted_for_and_reported(tmp_path: Path) -> None:
    thinned = tmp_path / "thinned.pcapng"
    remaining = [b for n, b in enumerate(blocks(CAPTURE.read_bytes())) if not is_packet(b) or n % 10 != 7 or n < 60]
    thinned.write_bytes(b"".join(remaining))
    session = only_session(analyse([thinned]))
    missing = session["from_initiator"]["missing_bytes"] + session["from_target"]["missing_bytes"]
    by_kind = sum(session[kind]["commands"] for kind in ("reads", "writes", "others"))
    not_timed = ("commands_not_whole", "commands_unfinished", "commands_without_response")
    assert missing > 10_000
    assert by_kind + sum(session[name] for name in not_timed) == session["commands"]
    assert any("in no packet" in sentence for sentence in findings(session, "en"))


def test_a_snap_length_cuts_data_and_changes_no_byte_count(tmp_path: Path) -> None:
    whole = only_session(analyse([CAPTURE]))
    cut = tmp_path / "cut.pcapng"
    # The packets of the login stay whole, because their texts are longer.
    kept = [b if n < 60 or not is_packet(b) else snapped(b, 160) for n, b in enumerate(blocks(CAPTURE.read_bytes()))]
    cut.write_bytes(b"".join(kept))
    session = only_session(analyse([cut]))
    for side in ("from_initiator", "from_target"):
        assert session[side]["bytes"] == whole[side]["bytes"]
    assert session["from_initiator"]["cut_bytes"] > 100_000
    for kind in ("reads", "writes"):
        # Nothing is invented: fewer commands may be timed, and their times do not change.
        assert session[kind]["commands"] <= whole[kind]["commands"]
    assert session["writes"]["bytes"] == whole["writes"]["bytes"] or session["commands_not_whole"]


def test_parts_of_a_capture_are_read_in_the_order_of_their_time(tmp_path: Path) -> None:
    all_blocks = blocks(CAPTURE.read_bytes())
    head = [b for b in all_blocks if not is_packet(b)][:2]
    packets = [b for b in all_blocks if is_packet(b)]
    middle = len(packets) // 2
    first, second = tmp_path / "z.pcapng", tmp_path / "a.pcapng"
    first.write_bytes(b"".join(head + packets[:middle]))
    second.write_bytes(b"".join(head + packets[middle:]))
    assert only_session(analyse([second, first])) == only_session(analyse([CAPTURE]))


def test_truncated_file_is_read_up_to_its_last_whole_packet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "short.pcapng"
    short.write_bytes(CAPTURE.read_bytes()[:300_001])
    analysed = analyse([short])
    assert analysed["files"][0]["truncated"] and analysed["files"][0]["packets"] == analysed["capture"]["packets"] > 50
    assert "ends within a packet" in printed(capsys, analysed)


def test_input_without_captured_iscsi_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match="cannot open"):
        analyse([tmp_path / "nowhere.pcapng"])
    text = tmp_path / "text.pcapng"
    text.write_text("this is no capture " * 10)
    with pytest.raises(UsageError, match="neither pcap nor pcapng"):
        analyse([text])
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="is empty"):
        analyse([tmp_path / "empty"])
    # A pcap file with one ARP packet.
    arp = tmp_path / "arp.pcap"
    arp.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + struct.pack("<4I", 1, 0, 42, 42))
    arp.write_bytes(arp.read_bytes() + bytes(12) + b"\x08\x06" + bytes(28))
    with pytest.raises(UsageError, match=r"no iSCSI in .*: 1 packets"):
        analyse([arp])


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(CAPTURE), str(pipe)]) as writer:
        piped = analyse([pipe])
    assert writer.returncode == 0
    assert piped["capture"] == analyse([CAPTURE])["capture"]


def test_a_capture_of_one_direction_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = int(only_session(analyse([CAPTURE]))["target"].rpartition(":")[2])
    one_way = tmp_path / "one-way.pcapng"
    # With Ethernet and IPv4 without options, the source port is at offset 34.
    kept = [b for b in blocks(CAPTURE.read_bytes()) if not is_packet(b) or struct.unpack_from(">H", b, 62)[0] != port]
    one_way.write_bytes(b"".join(kept))
    analysed = analyse([one_way])
    assert only_session(analysed)["reads"]["commands"] == 0
    assert "lacks the packets from the target" in printed(capsys, analysed)
    assert "ターゲットからのパケットが採取されていない" in printed(capsys, analysed, "ja")


def test_a_snap_length_that_hides_every_header_is_named_as_the_cause(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(b"".join(snapped(b, 96) if is_packet(b) else b for b in blocks(CAPTURE.read_bytes())))
    with pytest.raises(UsageError) as refused:
        analyse([cut])
    assert "snap length" in refused.value.hint and "30 bytes" in refused.value.hint


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_text_has_maximum_mean_rates_and_the_slowest_commands(
    language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    analysed = analyse([CAPTURE])
    text = printed(capsys, analysed, language)
    for word in {
        "en": ("Mean", "Maximum", "IOPS", "Slowest commands", "Longest phase", "place of capture"),
        "ja": ("平均", "最大", "IOPS", "最も遅いコマンド", "最長の区間", "採取位置"),
    }[language]:
        assert word in text
    slowest = only_session(analysed)["slowest"]
    assert len(slowest) == 10
    assert [c["latency_ns"] for c in slowest] == sorted((c["latency_ns"] for c in slowest), reverse=True)
    assert f"{slowest[0]['first_packet']}–{slowest[0]['last_packet']}" in text
    assert " 1 ns" not in text


def test_rates_are_left_out_if_some_commands_are_not_timed(capsys: pytest.CaptureFixture[str]) -> None:
    """The counts are those of timed commands only, so they give no rate of the session."""
    analysed = analyse([CAPTURE])
    (session,) = analysed["capture"]["sessions"]

    def rates() -> list[list[str]]:
        rows = [line.split() for line in printed(capsys, analysed).splitlines()]
        return [row[3:5] for row in rows if row[:1] in (["reads"], ["writes"])]

    assert len(rates()) == 2 and not any("–" in row for row in rates())
    session["commands_not_whole"] = 3
    assert rates() == [["–", "–"]] * 2
    assert any("IOPS and MB/s are left out" in sentence for sentence in findings(session, "en"))


def test_phases_are_in_the_order_of_the_protocol() -> None:
    session = only_session(analyse([CAPTURE]))
    assert list(session["writes"]["phases"]) == ["wait_r2t", "r2t_to_data", "data_transfer", "data_to_response"]
    assert list(session["reads"]["phases"]) == ["command_to_data", "data_transfer", "data_to_response"]


def test_csv_has_a_row_for_each_phase() -> None:
    titles, *rows = csv_rows(analyse([CAPTURE]))
    assert [(row[3], row[4]) for row in rows[:5]] == [
        ("reads", "all"),
        ("reads", "command_to_data"),
        ("reads", "data_transfer"),
        ("reads", "data_to_response"),
        ("writes", "all"),
    ]
    assert {len(row) for row in rows} == {len(titles)}


def side_by_side(initiator_ns: int, target_ns: int) -> dict[str, Any]:
    return {"initiator_side_rtt_ns": initiator_ns, "target_side_rtt_ns": target_ns}


def test_the_place_of_capture_is_estimated_from_the_halves_of_the_round_trip() -> None:
    assert place_of_capture(side_by_side(20_000, 2_000_000)) == "initiator"
    assert place_of_capture(side_by_side(2_000_000, 20_000)) == "target"
    assert place_of_capture(side_by_side(1_000_000, 1_000_000)) == "between"
    # Processing at the two ends takes as long.
    assert place_of_capture(side_by_side(10_000, 12_000)) == "unknown"


def test_phase_is_attributed_only_as_far_as_the_place_of_capture_allows() -> None:
    session = only_session(analyse([CAPTURE]))
    session["writes"]["phases"]["r2t_to_data"]["sum_ns"] = session["writes"]["latency_sum_ns"]

    def sentence(**halves: int) -> str:
        sentences = findings(session | side_by_side(**halves), "en")
        return next(text for text in sentences if "from R2T to data" in text)

    assert sentence(initiator_ns=20_000, target_ns=2_000_000).endswith('"from R2T to data", in the initiator.')
    assert sentence(initiator_ns=2_000_000, target_ns=20_000).endswith(", in the initiator and on the network.")
    assert sentence(initiator_ns=1_000_000, target_ns=1_000_000).endswith('"from R2T to data".')
