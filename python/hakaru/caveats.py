"""The closed list of caveats: conditions that limit what a number means.

A caveat is data. It is stored with the number it applies to and printed beside it (invariant 8 of
ARCHITECTURE.md). The runner attaches the caveats that it detects during the run (in
`repetitions/*.json`, or in `run.json` if they apply to the whole run). Analysis attaches those that
it computes. The texts are the messages `caveat.NAME` in `hakaru/locale/*.po`; `{names}` in them are
keys of `values`. Each text says what to do.

    caveat = Caveat("io_errors", {"errors": 3})
    repetition["caveats"].append(caveat.to_json())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning", "invalid"]
"""`note`: keep it in mind when reading the number. `warning`: the number may mislead. `invalid`: do
not use the number (exit code 5).
"""

Values = Mapping[str, Any]
Size = Callable[[Values], tuple[float, ...]]
"""Values of a caveat → how bad it is, compared with others of its name."""


def most(*names: str) -> Size:
    """The larger a value, the worse, in either direction; further values decide between equals."""
    return lambda values: tuple(abs(_number(values, name)) for name in names)


def least(name: str) -> Size:
    """The smaller a value, the worse."""
    return lambda values: (-_number(values, name),)


def apart(one: str, other: str) -> Size:
    """The more two values differ, the worse."""
    return lambda values: (abs(_number(values, one) - _number(values, other)),)


ALIKE: Size = most()
"""No value decides: the first one is kept."""


def _number(values: Values, name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


@dataclass(frozen=True)
class Kind:
    """A condition on the list."""

    severity: Severity
    size: Size = ALIKE
    """How bad a caveat is."""
    place: str | None = None
    """Value that names the place of the condition. Caveats of several places are all kept."""


CAVEATS: dict[str, Kind] = {
    # --- attached by the runner
    # {failed} of {planned} repetitions gave no result
    "repetition_failed": Kind("warning", most("failed")),
    # {errors} requests ended in an error
    "io_errors": Kind("warning", most("errors")),
    # link {link}: {measured} measured, {asked} requested
    "link_off_rate": Kind("warning", most("percent"), "link"),
    # link {link}: round trip of {measured} measured, {asked} requested
    "link_off_delay": Kind("warning", most("percent"), "link"),
    # the link was not measured before the load
    "link_unchecked": Kind("note"),
    # timestamps of samples run backwards
    "clock_stepped": Kind("invalid"),
    # {engines} engines share the {cpus} CPUs of one machine
    "cpu_shared": Kind("note"),
    # the hypervisor took {percent} % of this machine's CPU
    "host_stolen": Kind("warning", most("percent")),
    # nothing was written: the site does not allow it
    "not_expendable": Kind("note"),
    # instants of {host} may be off by {error_ms} ms
    "clock_uncertain": Kind("warning", most("error_ms"), "host"),
    # after {seconds} s of warm-up, the rate was not steady
    "never_steady": Kind("warning", most("range_percent")),
    # hosts began to measure {spread_ms} ms apart, {percent} % of the measuring time
    "began_apart": Kind("invalid", most("percent")),
    # after {seconds} s of warm-up, no request had been completed within a window
    "warm_up_idle": Kind("warning"),
    # in {seconds} s of warm-up, no window could be judged: {hosts} sent no sample at which one ends
    "warm_up_unjudged": Kind("warning"),
    # the initiator waited up to {longest} ({percent} % of a latency) for more responses
    "answers_gathered": Kind("note", most("percent")),
    # the guest's processor is emulated: {reason}
    "cpu_emulated": Kind("warning"),
    # the load ran in a guest with Linux {kernel} on {nic}; initiator: {initiator}
    "load_in_guest": Kind("note", most("bound_us")),
    # the guest with the load could not be used or was lost: {error}
    "guest_failed": Kind("warning"),
    # a repetition has no result, because the storage did not answer: {error}
    "load_unanswered": Kind("warning"),
    # {stage}: {upper} and {lower} differ by {bytes} bytes, {allowed_bytes} allowed
    "layers_disagree": Kind("warning", most("bytes")),
    # the device of the point could not be built or was lost: {error}
    "device_failed": Kind("warning"),
    # {jobs} of {total} copies had not ended after {limit}
    "not_finished": Kind("warning", most("jobs")),
    # the emulated network lost {lost} packets that a real network would not lose
    "fabric_limit": Kind("invalid", most("lost")),
    # {lost} packets lost outside the model, {dropped} frames dropped by the model
    "fabric_lost": Kind("warning", most("lost")),
    # {events} events and {records} records of the TCP series are missing
    "tcp_series_incomplete": Kind("note", most("records", "events")),
    # captures lack {packets} packets; on {nodes} nodes they ended early
    "capture_incomplete": Kind("note", most("packets", "nodes")),
    # TCP's events of {cpus} CPUs are not delivered while those CPUs are idle
    "tcp_trace_deaf": Kind("note", most("cpus")),
    # {event} of {object} was carried out {late_ms} ms late; samples are {interval_ms} ms apart
    "event_late": Kind("warning", most("late_ms")),
    # the load ended before {event} of {object} was carried out
    "event_missed": Kind("invalid"),
    # --- attached by analysis
    # {event} of {object}: gap {gap_ms} ms, failover after {failover_ms} ms, timers {timers_ms} ms
    "gap_unexplained": Kind("warning", most("gap_ms", "failover_ms"), "object"),
    # no repetition gave a value
    "no_data": Kind("invalid"),
    # {n} repetitions: the interval is wide or missing
    "few_repetitions": Kind("note", least("n")),
    # repetitions differ by {percent} % (coefficient of variation)
    "noisy": Kind("warning", most("percent")),
    # the rate drifted or swung while it was measured
    "not_steady": Kind("warning", most("range_percent")),
    # {samples} samples: steadiness cannot be judged
    "too_short_to_judge": Kind("note", least("samples")),
    # {node} was sampled every {interval_s} s, and {window_s} s were measured
    "sampled_rarely": Kind("note", most("interval_s")),
    # {warmup_ms} ms of warm-up, but a request takes {latency_ms} ms
    "warmup_short": Kind("warning", least("warmup_ms")),
    # {taken_s} s of warm-up instead of {asked_s} s: a host had copied its images after {done_s} s
    "warmup_cut": Kind("warning", least("taken_s")),
    # samples cover {percent} % of the measuring time
    "window_not_covered": Kind("warning", least("percent")),
    # requests outstanding differ from rate times latency by {percent} %
    "littles_law": Kind("warning", most("percent")),
    # initiators counted {initiator} bytes, the array {array}
    "bytes_not_conserved": Kind("invalid", apart("initiator", "array")),
    # bytes on the wire do not match the payload
    "wire_bytes": Kind("warning", apart("wire_mb_per_s", "payload_mb_per_s")),
    # {percent} % of the bytes read came from the layer below the caches, not {asked} %
    "cache_not_cold": Kind("warning", least("percent")),
    # the total differs from the sum over VMs
    "total_not_sum": Kind("invalid", apart("total", "sum")),
    # the load generator itself was the limit
    "generator_saturated": Kind("invalid", most("percent")),
    # this machine's CPU was used up
    "machine_saturated": Kind("warning", most("percent")),
    # the CPU of the load host {host} was used up
    "load_host_saturated": Kind("warning", most("percent"), "host"),
    # open-loop requests were issued {late_ms} ms late, {percent} % of their latency
    "issued_late": Kind("warning", most("percent")),
    # the same, a quarter of the latency or more
    "issued_too_late": Kind("invalid", most("percent")),
    # {in_flight} requests in flight: the system serves fewer than are offered
    "rate_not_kept": Kind("warning", most("percent")),
    # {requests} open-loop requests were due and never issued, {percent} % of all due
    "not_issued": Kind("warning", most("percent")),
    # {frames} frames of {link} are unaccounted for
    "frames_not_conserved": Kind("invalid", most("frames")),
    # the emulated network moved frames {late_us} µs late (99th percentile)
    "fabric_late": Kind("warning", most("late_us")),
    # a thread of the emulated network used {percent} % of a CPU, and frames were late
    "fabric_saturated": Kind("invalid", most("percent")),
    # in {trials} trials, {frames} more frames arrived than were sent
    "frames_surplus": Kind("invalid", most("frames")),
    # at {missing} of {loads} loads, every trial for the latency had a fault of the tester
    "latency_missing": Kind("note", most("missing")),
    # in {searches} of {total} searches, the device forwards all that the tester can send and count
    "tester_limited": Kind("warning", most("searches")),
    # {searches} of {total} searches ended before their bounds were as close as the goal demands
    "search_unfinished": Kind("warning", most("searches")),
    # in {searches} of {total} searches, the device loses frames even at the lowest rate
    "search_below_range": Kind("warning", most("searches")),
    # in {searches} of {total} searches, the device forwards the highest rate tried, {rate} frames/s
    "search_capped": Kind("warning", most("searches")),
    # level {missed} misses the goal, and the harder level {met} meets it
    "goal_not_monotone": Kind("warning"),
    # the search for the goal ended before its answer was certain
    "goal_unfinished": Kind("warning"),
    # the points of level {level} could not be judged
    "goal_tester_limit": Kind("warning"),
    # after {n} repetitions, {metric} is known to {percent} %, not {asked} %
    "precision_missed": Kind("warning", most("percent")),
    # {n} repetitions of {metric} have no interval, and {asked} % were requested
    "precision_unknown": Kind("warning"),
    # of {lost} lost frames, {frames} are in no counter
    "losses_unlocated": Kind("note", most("frames")),
    # {trials} trials have fewer than {samples} samples of the CPU within them
    "cpu_not_sampled": Kind("note", most("trials")),
    # {trials} trials that the tester could not send or count were left out
    "trials_invalid": Kind("note", most("trials")),
    # processors stopped for up to {ms} ms; {percent} % of the time of the trials was not judged
    "processors_stopped": Kind("note", most("percent")),
    # {frames} frames were dropped on {link}
    "frames_lost": Kind("warning", most("frames")),
    # the published table was made on other equipment
    "published_differs": Kind("note"),
}

"""Name → severity, the value that decides which of several is the worst, and the value that names
its place.
"""


@dataclass(frozen=True)
class Caveat:
    """One caveat with its numbers. Raises ValueError for a name that is not on the list, which is a
    programming error.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in CAVEATS:
            raise ValueError(f"{self.name!r} is not on the list of caveats")

    @property
    def severity(self) -> Severity:
        """Severity of the caveat."""
        return CAVEATS[self.name].severity

    @property
    def size(self) -> tuple[float, ...]:
        """How bad it is, compared with others of its name."""
        return CAVEATS[self.name].size(self.values)

    @property
    def place(self) -> str:
        """Place of the condition; empty if the condition has none."""
        name = CAVEATS[self.name].place
        return "" if name is None else str(self.values.get(name, ""))

    def to_json(self) -> dict[str, Any]:
        """`{caveat, severity, values}`."""
        return {"caveat": self.name, "severity": self.severity, "values": dict(self.values)}

    @classmethod
    def from_json(cls, value: object) -> Caveat | None:
        """The caveat from the output of `to_json` or from a bare name; None for any other value."""
        if isinstance(value, str):
            return cls(value) if value in CAVEATS else None
        if not isinstance(value, dict) or value.get("caveat") not in CAVEATS:
            return None
        values = value.get("values")
        return cls(value["caveat"], values if isinstance(values, dict) else {})


def worst_of_each(caveats: Iterable[Caveat]) -> list[Caveat]:
    """The worst caveat of each name, and of each place if the caveat has one."""
    chosen: dict[tuple[str, str], Caveat] = {}
    for caveat in caveats:
        worst = chosen.setdefault((caveat.name, caveat.place), caveat)
        if caveat.size > worst.size:
            chosen[caveat.name, caveat.place] = caveat
    return list(chosen.values())
