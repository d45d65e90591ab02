"""The measurement of a path compared with the plan. Plain data; measured by `links`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from hakaru.caveats import Caveat
from hakaru.errors import EnvironmentError_
from hakaru.lab.plan.shape import tcp_payload_bits_per_s, untagged_share
from hakaru.units import format_rate

TOLERANCE = 0.01
# A lab link by link that falls short of its plan by this share is refused, because it cannot
# emulate what the study is about.
SHORT = 0.05
# Besides 1 %, wake-ups and TCP of this machine may add this to a round trip without a caveat.
RTT_SLACK_US = 1000.0


@dataclass(frozen=True)
class Direction:
    """One direction of a path; rates are bits per second on the wire. `needed`: rate that the load
    needs, at most `asked`. `links`: names of the slowest links.

    `replies`: share of the rate that acknowledgements may take if they pass the same link in the
    same direction.
    """

    label: str
    asked: int
    needed: int
    measured: float
    links: tuple[str, ...] = ()
    replies: float = 0.0

    @property
    def error(self) -> float:
        """Relative deviation from the rate asked; 0 if the measured rate is less but as much as
        needed.
        """
        error = self.measured / self.asked - 1
        return 0.0 if error < 0 and self.measured >= self.needed * (1 - self.replies) else error

    @property
    def as_asked(self) -> bool:
        """Whether the measured rate is at most 1 % above the rate asked, and at most 1 % below the
        rate needed, apart from the replies to the other direction.
        """
        return (
            self.measured / self.asked - 1 <= TOLERANCE and self.measured / self.needed - 1 >= -TOLERANCE - self.replies
        )


@dataclass(frozen=True)
class LinkCheck:
    """A path from hosts to an array as measured. Rates are bits per second on the wire; None for
    the rate asked: unlimited.

    `asked_back_bits_per_s`: rate asked from the array, if it may differ (else `...`). `needed…`:
    rate that the load needs. `asked_rtt_us`: sum of the delays of the links in both directions, if
    the lab defines them. `tagged`: frames carry 802.1Q tags on the slowest link. `over`: name of
    the VLAN of the array's address. `limits`: names of the slowest links, which limit the rate.
    `replies`: see `Direction`; more than 0 if a routed path passes one trunk up and down.
    """

    hosts: tuple[str, ...]
    array: str
    path: int
    mtu: int
    asked_bits_per_s: int | None
    to_array_payload_bits_per_s: float
    from_array_payload_bits_per_s: float
    rtt_us_p50: float
    rtt_us_p99: float
    attempts: int = 1
    asked_back_bits_per_s: int | EllipsisType | None = ...
    asked_rtt_us: float | None = None
    needed_bits_per_s: int | None = None
    needed_back_bits_per_s: int | None = None
    tagged: bool = False
    tagged_back: bool = False
    over: str | None = None
    limits: tuple[str, ...] = ()
    limits_back: tuple[str, ...] = ()
    replies: float = 0.0

    @property
    def to_array_bits_per_s(self) -> float:
        """Rate on the wire, hosts → array."""
        return self._on_wire(self.to_array_payload_bits_per_s, self.tagged)

    @property
    def from_array_bits_per_s(self) -> float:
        """Rate on the wire, array → hosts."""
        return self._on_wire(self.from_array_payload_bits_per_s, self.tagged_back)

    def _on_wire(self, payload: float, tagged: bool) -> float:
        return payload / tcp_payload_bits_per_s(1, self.mtu) / (untagged_share(self.mtu) if tagged else 1)

    @property
    def name(self) -> str:
        """The name as printed."""
        if self.over is not None:
            return f"{', '.join(self.hosts)} – {self.array} ({self.over})"
        return f"{', '.join(self.hosts)} – {self.array}.{self.path}"

    @property
    def directions(self) -> Iterator[Direction]:
        """Each direction whose rate is limited."""
        back, needed_back = self.asked_back_bits_per_s, self.needed_back_bits_per_s
        if isinstance(back, EllipsisType):
            back, needed_back = self.asked_bits_per_s, self.needed_bits_per_s
        hosts = ", ".join(self.hosts)
        if self.asked_bits_per_s is not None:
            needed = self.needed_bits_per_s or self.asked_bits_per_s
            label = f"{hosts} → {self.array}"
            yield Direction(label, self.asked_bits_per_s, needed, self.to_array_bits_per_s, self.limits, self.replies)
        if back is not None:
            measured, links = self.from_array_bits_per_s, self.limits_back
            yield Direction(f"{self.array} → {hosts}", back, needed_back or back, measured, links, self.replies)

    @property
    def worst(self) -> Direction | None:
        """The direction that deviates most, relatively."""
        return max(self.directions, key=lambda direction: abs(direction.error), default=None)

    @property
    def error(self) -> float | None:
        """The larger relative deviation of the two directions from the rate asked, signed; None if
        unlimited.
        """
        return None if self.worst is None else self.worst.error

    @property
    def as_asked(self) -> bool:
        """Whether every direction is within 1 %, or carries less but as much as the load needs."""
        return all(direction.as_asked for direction in self.directions)

    @property
    def rtt_as_asked(self) -> bool:
        """Whether the round-trip time is at most 1 % below the delays of the links, and at most 1 %
        and 1 ms above.
        """
        asked = self.asked_rtt_us
        return asked is None or asked * 0.99 <= self.rtt_us_p50 <= asked * 1.01 + RTT_SLACK_US

    def caveats(self) -> list[Caveat]:
        """`link_off_rate` and `link_off_delay` for a path that is not as asked."""
        caveats = []
        if not self.as_asked and self.worst is not None:
            values = {
                "link": self.name,
                "measured": f"{self.worst.measured / 1e6:.1f} Mbit/s",
                "asked": format_rate(self.worst.asked),
                "percent": 100 * abs(self.worst.error),
            }
            caveats.append(Caveat("link_off_rate", values))
        if not self.rtt_as_asked and self.asked_rtt_us is not None:
            values = {
                "link": self.name,
                "measured": f"{self.rtt_us_p50 / 1e3:.3f} ms",
                "asked": f"{self.asked_rtt_us / 1e3:.3f} ms",
                "percent": 100 * abs(self.rtt_us_p50 / self.asked_rtt_us - 1) if self.asked_rtt_us else 100.0,
            }
            caveats.append(Caveat("link_off_delay", values))
        return caveats

    def refuse_if_short(self, backend: str) -> None:
        """Raise EnvironmentError_ with the measured rate if this machine carries over 5 % less than
        the load needs, apart from the replies to the other direction.
        """
        for direction in self.directions:
            if direction.measured < direction.needed * (1 - SHORT - direction.replies):
                alternative = "" if backend == "kernel" or self.over else ", or try `backend: kernel`"
                links = f"link {', '.join(direction.links)}; " if direction.links else ""
                raise EnvironmentError_(
                    f"this machine carries {direction.measured / 1e6:.0f} Mbit/s of the "
                    f"{format_rate(direction.needed)} needed on the path {direction.label} "
                    f"({links}{backend} backend, best of {self.attempts})",
                    f"lower the rates on this path, or set `sustained` to the rate that the load needs{alternative}; "
                    "other programs may keep this machine busy",
                )

    def describe(self) -> dict[str, Any]:
        """Return the entry of `checks` in lab.json."""
        expected = None if self.asked_bits_per_s is None else tcp_payload_bits_per_s(self.asked_bits_per_s, self.mtu)
        described = {
            "from": ", ".join(self.hosts),
            "to": self.array,
            "path": self.path,
            "asked_bits_per_s": self.asked_bits_per_s,
            "measured_bits_per_s": self.to_array_bits_per_s,
            "reverse_bits_per_s": self.from_array_bits_per_s,
            "expected_payload_bits_per_s": expected,
            "measured_payload_bits_per_s": self.to_array_payload_bits_per_s,
            "reverse_payload_bits_per_s": self.from_array_payload_bits_per_s,
            "error_percent": None if self.error is None else 100 * self.error,
            "as_asked": self.as_asked,
            "rtt_us_p50": self.rtt_us_p50,
            "rtt_us_p99": self.rtt_us_p99,
            "attempts": self.attempts,
        }
        if self.over is not None:
            described["vlan"] = self.over
        if self.replies:
            described["replies_percent_max"] = 100 * self.replies
        if not isinstance(self.asked_back_bits_per_s, EllipsisType):
            described |= {
                "reverse_asked_bits_per_s": self.asked_back_bits_per_s,
                "needed_bits_per_s": self.needed_bits_per_s,
                "reverse_needed_bits_per_s": self.needed_back_bits_per_s,
            }
        if self.asked_rtt_us is not None:
            described |= {"asked_rtt_us": self.asked_rtt_us, "rtt_as_asked": self.rtt_as_asked}
        return described
