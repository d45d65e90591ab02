"""Caveats: what a reader must know before trusting a number. A closed list; each is data and ends in something to do.

The runner puts those it sees into a repetition (`at="run"`), analysis those it computes into a point
(`at="analysis"`). A caveat that `invalidates` marks the point so that it counts as invalid (exit code 5).

    caveat("clock_step", step_ms=12.5)  →  {"code", "text": {"en", "ja"}, "invalidates", "values": {"step_ms": 12.5}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Caveat:
    """One kind of caveat. Texts take the caveat's values by name."""

    code: str
    at: Literal["run", "analysis"]
    invalidates: bool
    values: tuple[str, ...]
    en: str
    ja: str


_ALL = (
    Caveat(
        "cpu_shared",
        "run",
        False,
        ("cpus", "engines"),
        "Array, initiators and switch share the {cpus:.0f} CPUs of one machine ({engines:.0f} engines); "
        "a figure near the machine's own limit belongs to the machine. Check the CPU of the load generator.",
        "アレイ、イニシエータ、スイッチは 1 台のマシンの CPU {cpus:.0f} 個を共有しています(エンジン {engines:.0f} 個)。"
        "マシン自体の限界に近い値はマシンの値です。負荷生成側の CPU を確認してください。",
    ),
    Caveat(
        "tcg",
        "run",
        False,
        (),
        "Guests ran without hardware virtualisation (TCG), about ten times slower. Use a machine on which KVM works.",
        "ゲストはハードウェア仮想化なし(TCG)で動作し、約 10 倍遅くなります。KVM が動作するマシンを使ってください。",
    ),
    Caveat(
        "link_not_as_asked",
        "run",
        True,
        ("asked_mbit_per_s", "measured_mbit_per_s"),
        "A link was asked to carry {asked_mbit_per_s:.0f} Mbit/s and carried {measured_mbit_per_s:.0f}. "
        "Ask for a lower rate or quieten the machine.",
        "リンクは {asked_mbit_per_s:.0f} Mbit/s の指定に対し実測 {measured_mbit_per_s:.0f} Mbit/s でした。"
        "速度を下げるか、マシンの負荷を減らしてください。",
    ),
    Caveat(
        "link_not_checked",
        "run",
        False,
        (),
        "The path was not measured before the load, since it is not hakaru's own. Measure it with iperf3.",
        "経路は hakaru のものではないため、負荷の前に測定していません。iperf3 などで測定してください。",
    ),
    Caveat(
        "clock_step",
        "run",
        True,
        ("step_ms",),
        "The wall clock moved {step_ms:.1f} ms against the steady clock during the repetition "
        "(suspend, or a virtual machine that was paused). Run again with the machine left alone.",
        "測定中に壁時計が単調時計に対して {step_ms:.1f} ms ずれました(サスペンドや VM の一時停止)。再実行してください。",
    ),
    Caveat(
        "late_start",
        "run",
        True,
        ("late_ms",),
        "The engine that was told last to start was told {late_ms:.1f} ms after the common start. Quieten the machine and run again.",
        "最後のエンジンへの開始指示が共通の開始時刻より {late_ms:.1f} ms 遅れました。マシンの負荷を減らして再実行してください。",
    ),
    Caveat(
        "samples_missing",
        "run",
        False,
        ("got", "wanted"),
        "{got:.0f} of {wanted:.0f} samples arrived; curves over time have gaps. Quieten the machine.",
        "サンプルは {wanted:.0f} 個中 {got:.0f} 個でした。時系列に欠けがあります。マシンの負荷を減らしてください。",
    ),
    Caveat(
        "requests_failed",
        "run",
        True,
        ("errors",),
        "{errors:.0f} requests failed in the measuring time. See what the array says before using the figure.",
        "測定時間中に {errors:.0f} 個の要求が失敗しました。値を使う前にアレイ側を確認してください。",
    ),
    Caveat(
        "generator_saturated",
        "analysis",
        True,
        ("cpu_percent",),
        "The load generator used {cpu_percent:.0f} % of a CPU: it may be the limit. Spread the VMs over more hosts.",
        "負荷生成側が CPU の {cpu_percent:.0f} % を使用しており、限界になっている可能性があります。VM をより多くのホストに分けてください。",
    ),
    Caveat(
        "open_load_late",
        "analysis",
        True,
        ("late_percent",),
        "{late_percent:.1f} % of requests were issued over 1 ms late: the offered rate was not reached.",
        "要求の {late_percent:.1f} % が 1 ms 以上遅れて発行され、指定した要求率に達していません。",
    ),
    Caveat(
        "not_steady",
        "analysis",
        False,
        ("range_percent", "slope_percent"),
        "Throughput was not steady: it ranged over {range_percent:.0f} % and drifted {slope_percent:.0f} % of its mean "
        "in the measuring time. Measure longer or warm up longer.",
        "スループットが定常ではありません(平均に対し変動幅 {range_percent:.0f} %、傾き {slope_percent:.0f} %)。"
        "測定時間またはウォームアップを長くしてください。",
    ),
    Caveat(
        "few_repetitions",
        "analysis",
        False,
        ("repetitions",),
        "{repetitions:.0f} repetitions give a wide interval. Ask for at least 5 with --repetitions.",
        "反復が {repetitions:.0f} 回のため信頼区間が広くなります。--repetitions で 5 回以上を指定してください。",
    ),
    Caveat(
        "littles_law",
        "analysis",
        True,
        ("difference_percent",),
        "Requests in flight and rate × latency differ by {difference_percent:.1f} %: the counters do not agree. Do not use the figure.",
        "処理中の要求数と(要求率×応答時間)が {difference_percent:.1f} % 異なり、計測値が整合していません。値を使わないでください。",
    ),
    Caveat(
        "bytes_not_conserved",
        "analysis",
        True,
        ("difference_percent",),
        "Initiators and array counted bytes that differ by {difference_percent:.2f} %. Do not use the figure.",
        "イニシエータとアレイのバイト数が {difference_percent:.2f} % 異なります。値を使わないでください。",
    ),
)

CAVEATS = {c.code: c for c in _ALL}
"""Code → caveat."""


def caveat(code: str, **values: float) -> dict[str, Any]:
    """The caveat `code` with its values, as it is stored. A code or value that is not in the list is a defect of ours."""
    kind = CAVEATS[code]
    assert set(values) == set(kind.values), f"{code} takes {kind.values}"
    text = {"en": kind.en.format(**values), "ja": kind.ja.format(**values)}
    return {"code": code, "text": text, "invalidates": kind.invalidates, "values": dict(values)}
