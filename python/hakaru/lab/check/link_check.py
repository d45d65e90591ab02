"""The measurement of a path beside what was asked. Data; measured by `links`."""

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
# A lab link by link that carries this much less than asked is refused: it could not emulate what
# the study is about.
SHORT = 0.05
# A wake-up and TCP of this machine may add this to a round trip beside 1 % before it is a caveat.
RTT_SLACK_US = 1000.0


@dataclass(frozen=True)
class Direction:
    """One way of a path, bits per second on the wire. `needed`: by the load, at most `asked`.
    `links`: the slowest.

    `replies`: share of the rate that acknowledgements may take, where they pass the same link in
    the same direction.
    """

    way: str
    asked: int
    needed: int
    measured: float
    links: tuple[str, ...] = ()
    replies: float = 0.0

    @property
    def error(self) -> float:
        """Relative deviation from what was asked; 0 where only less was needed, and came."""
        error = self.measured / self.asked - 1
        return 0.0 if error < 0 and self.measured >= self.needed * (1 - self.replies) else error

    @property
    def as_asked(self) -> bool:
        """Within 1 % of what was asked, or of what is needed of it."""
        return (
            self.measured / self.asked - 1 <= TOLERANCE and self.measured / self.needed - 1 >= -TOLERANCE - self.replies
        )


@dataclass(frozen=True)
class LinkCheck:
    """A path from hosts to an array as measured. Rates are bits per second on the wire; `asked`
    None: unlimited.

    `asked_back_bits_per_s`: from the array, where that is another rate; `needed…`: what the load
    needs of it. `asked_rtt_us`: the delays of the links, there and back, where the lab says.
    `tagged`: frames carry 802.1Q tags where the way is slowest. `over`: the VLAN of the array's
    address. `limits`: the links that hold the way to what was asked. `replies`: see `Direction`;
    more than 0 where a routed way goes up and down one trunk.
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
        """Each direction that is limited."""
        back, needed_back = self.asked_back_bits_per_s, self.needed_back_bits_per_s
        if isinstance(back, EllipsisType):
            back, needed_back = self.asked_bits_per_s, self.needed_bits_per_s
        hosts = ", ".join(self.hosts)
        if self.asked_bits_per_s is not None:
            needed = self.needed_bits_per_s or self.asked_bits_per_s
            there = f"{hosts} → {self.array}"
            yield Direction(there, self.asked_bits_per_s, needed, self.to_array_bits_per_s, self.limits, self.replies)
        if back is not None:
            measured, links = self.from_array_bits_per_s, self.limits_back
            yield Direction(f"{self.array} → {hosts}", back, needed_back or back, measured, links, self.replies)

    @property
    def worst(self) -> Direction | None:
        """The direction that deviates most, relatively."""
        return max(self.directions, key=lambda one: abs(one.error), default=None)

    @property
    def error(self) -> float | None:
        """The larger relative deviation of the two directions from what was asked, signed; None if
        unlimited.
        """
        return None if self.worst is None else self.worst.error

    @property
    def as_asked(self) -> bool:
        """Within 1 %; short of the rate only where the load needs no more than was measured."""
        return all(direction.as_asked for direction in self.directions)

    @property
    def rtt_as_asked(self) -> bool:
        """Not below what the links delay, and not more than 1 % and 1 ms above."""
        asked = self.asked_rtt_us
        return asked is None or asked * 0.99 <= self.rtt_us_p50 <= asked * 1.01 + RTT_SLACK_US

    def caveats(self) -> list[Caveat]:
        """`link_off_rate` and `link_off_delay` for a path that is not as asked."""
        found = []
        if not self.as_asked and self.worst is not None:
            values = {
                "link": self.name,
                "measured": f"{self.worst.measured / 1e6:.1f} Mbit/s",
                "asked": format_rate(self.worst.asked),
            }
            found.append(Caveat("link_off_rate", values))
        if not self.rtt_as_asked and self.asked_rtt_us is not None:
            values = {
                "link": self.name,
                "measured": f"{self.rtt_us_p50 / 1e3:.3f} ms",
                "asked": f"{self.asked_rtt_us / 1e3:.3f} ms",
            }
            found.append(Caveat("link_off_delay", values))
        return found

    def refuse_if_short(self, backend: str) -> None:
        """Raise EnvironmentError_ with the measured limit if this machine carries much less than
        was asked.
        """
        for direction in self.directions:
            if direction.measured < direction.needed * (1 - SHORT - direction.replies):
                other = "" if backend == "kernel" or self.over else ", or try `backend: kernel`"
                links = f"link {', '.join(direction.links)}; " if direction.links else ""
                raise EnvironmentError_(
                    f"this machine carries {direction.measured / 1e6:.0f} Mbit/s of the "
                    f"{format_rate(direction.needed)} asked on the way {direction.way} "
                    f"({links}{backend} backend, best of {self.attempts})",
                    f"lower the rates on this way, or `sustained` to what the load needs of them{other}; something "
                    "else may keep this machine busy",
                )

    def describe(self) -> dict[str, Any]:
        """For `checks` in lab.json."""
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
