"""TCP of a given year: the settings of Linux's TCP in a lab's namespaces, the reason for each, and
the later features that no setting can switch off. Pure.

`tcp.stack: today` sets nothing and leaves TCP as this machine's kernel implements it. `tcp.stack:
2009` switches off the features that Linux gained after 2.6.32 (2009-12; the kernel of CentOS 6), as
far as they have a switch. Each switch names the release and the commit that introduced the feature.
For names and meanings see Documentation/networking/ip-sysctl.rst of the kernel, and ip-route(8) for
routes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hakaru.lab.model import TcpSpec
from hakaru.lab.plan.limits import BUFFER_MAX_BYTES, BUFFER_MIN_BYTES
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.units import format_size


@dataclass(frozen=True)
class Switch:
    """A sysctl (below net/ipv4) with the value that restores the behaviour of Linux 2.6.32.

    `since`, `commit`: the release and commit that introduced or changed it. Empty `since`: the
    default has not changed, and is set to be sure.
    """

    name: str
    value: str
    since: str
    commit: str
    why: str


SACK = "net/ipv4/tcp_sack"
# Linux 1c120191dcec: "RACK is the only supported loss detection algorithm" (ip-sysctl.rst,
# tcp_recovery).
SACK_RACK = (
    "RACK (4.4) still detects the losses of connections with SACK, because Linux has no other method from 6.17 on"
)

SWITCHES_2009 = (
    Switch(
        "tcp_early_retrans",
        "0",
        "3.10",
        "6ba8a3b19e76",
        "no tail-loss probe: a lost tail waits for the timeout (RFC 8985, 7)",
    ),
    Switch(
        "tcp_recovery",
        "0",
        "4.4",
        "4f41b1c58a32",
        "no RACK: losses are found by three duplicate ACKs; no effect from 6.17 on",
    ),
    Switch(
        "tcp_limit_output_bytes",
        "1073741824",
        "3.6",
        "46d3ceabd8d9",
        "no TCP small queues: as much in the queue as cwnd allows",
    ),
    Switch(
        "tcp_min_tso_segs",
        "44",
        "3.12",
        "95bd09eb2750",
        "super-frames of 64 KiB at any rate, not sized for 1 ms of pacing",
    ),
    Switch("tcp_tso_rtt_log", "0", "5.18", "65466904b015", "no super-frames sized by round-trip time"),
    Switch("tcp_autocorking", "0", "3.14", "f54b311142a9", "small writes do not wait for queued data"),
    Switch("tcp_comp_sack_nr", "0", "4.18", "9c21d2fc41c0", "every duplicate ACK is sent, none is delayed"),
    Switch("tcp_backlog_ack_defer", "0", "6.7", "133c4c0d3717", "no ACK is deferred while a backlog is processed"),
    Switch("tcp_max_reordering", "127", "3.19", "dca145ffaa8d", "largest reordering, in segments; later 300"),
    Switch("tcp_syn_linear_timeouts", "0", "6.5", "ccce324dabfe", "SYNs back off at once"),
    Switch("tcp_fastopen", "0", "3.6", "", "no data in SYNs"),
    Switch(
        "tcp_adv_win_scale",
        "2",
        "3.4",
        "b49960a05e32",
        "a quarter of the receive buffer is overhead, not a half; obsolete from 6.6 on",
    ),
    Switch(
        "tcp_rmem",
        "4096 87380 4194304",
        "3.4",
        "b49960a05e32",
        "receive buffers grow to 4 MiB; later 6 MiB, recently more",
    ),
    Switch("tcp_wmem", "4096 16384 4194304", "", "", "send buffers grow to 4 MiB"),
)

REMAINS_2009 = (
    "proportional rate reduction in recovery (3.2, RFC 6937) instead of rate halving",
    "F-RTO as rewritten in 3.10 (RFC 5682)",
    "the first timeout of a connection is 1 s (3.1, RFC 6298), not 3 s; later ones are 200 ms and more in both",
    "slow start counts bytes that are acknowledged, not ACKs",
    "a sender keeps at most about 1 ms of its own rate in the queue below it, "
    "which tcp_limit_output_bytes can only lower",
    "CUBIC and its HyStart with later corrections (bugs of the idle restart and of the delay threshold)",
    "round-trip times are taken in microseconds (3.15), not in ticks",
)


@dataclass(frozen=True)
class TcpPlan:
    """Settings of TCP. `congestion_control`: the first of these that the kernel has; empty: Linux's
    default.
    """

    stack: str = "today"
    sysctls: tuple[tuple[str, str], ...] = ()
    congestion_control: tuple[str, ...] = ()
    initial_window: int | None = None
    initial_receive_window: int | None = None
    remains: tuple[str, ...] = ()


TCP_TODAY = TcpPlan()


def plan_tcp(spec: TcpSpec, mtu: int, *, star: bool) -> TcpPlan:
    """Return the settings of a lab. A star without a `tcp` block keeps the congestion control of
    its namespaces.
    """
    sysctls: dict[str, str] = {}
    windows: tuple[int | None, int | None] = (None, None)
    remains: tuple[str, ...] = ()
    if spec.stack == "2009":
        sysctls = {switch.name: switch.value for switch in SWITCHES_2009}
        windows, remains = _windows_2009(mtu - 40), REMAINS_2009
    if spec.buffer_max is not None:
        _check_buffer(spec.buffer_max)
        sysctls["tcp_rmem"] = f"4096 {min(131_072, spec.buffer_max)} {spec.buffer_max}"
        sysctls["tcp_wmem"] = f"4096 {min(16_384, spec.buffer_max)} {spec.buffer_max}"
    # 2 is Linux's default: accept ECN from a peer that asks, do not ask for it.
    sysctls |= {"tcp_ecn": "1"} if spec.ecn else {}
    sysctls |= {} if spec.sack else {"tcp_sack": "0"}
    if spec.slow_start_after_idle is not None:
        sysctls["tcp_slow_start_after_idle"] = str(int(spec.slow_start_after_idle))
    if spec.initial_window is not None:
        windows = (spec.initial_window, windows[1])
    wanted: tuple[str, ...] = (spec.congestion_control,) if spec.congestion_control else ("cubic", "reno")
    if star and spec == TcpSpec():
        wanted = ()
    named = tuple((f"net/ipv4/{name}", value) for name, value in sorted(sysctls.items()))
    return TcpPlan(spec.stack, named, wanted, *windows, remains)


def _windows_2009(segment_bytes: int) -> tuple[int, int]:
    """Initial windows of Linux 2.6.32 in segments: to send by RFC 3390 (10 from 2.6.39 on), and to
    receive.

    They are those of `tcp_init_cwnd` and `tcp_select_initial_window` in 2.6.32. Set on a route,
    they apply to every connection over it.
    """
    send = 2 if segment_bytes > 1460 else 3 if segment_bytes > 1095 else 4
    receive = 2 if segment_bytes > 3 * 1460 else 3 if segment_bytes > 1460 else 4
    return send, receive


def _check_buffer(size: int) -> None:
    if not BUFFER_MIN_BYTES <= size <= BUFFER_MAX_BYTES:
        raise ImpossibleLabError(
            f"tcp.buffer_max is {format_size(size)}; it can be {format_size(BUFFER_MIN_BYTES)} to "
            f"{format_size(BUFFER_MAX_BYTES)}",
            "rate x RTT of the longest path is enough",
            ("tcp", "buffer_max"),
        )


def kernel_finds_losses_by_rack_only(release: str) -> bool:
    """Whether `tcp_recovery` has no effect, as from Linux 6.17 on (its ip-sysctl.rst)."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (6, 17)
