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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning", "invalid"]
"""`note`: keep it in mind when reading the number. `warning`: the number may mislead. `invalid`: do
not use the number (exit code 5).
"""

CAVEATS: dict[str, Severity] = {
    # attached by the runner
    "repetition_failed": "warning",  # {failed} of {planned} repetitions gave no result
    "io_errors": "warning",  # {errors} requests ended in an error
    "link_off_rate": "warning",  # link {link}: {measured} measured, {asked} requested
    "link_off_delay": "warning",  # link {link}: round trip of {measured} measured, {asked} requested
    "link_unchecked": "note",  # the link was not measured before the load
    "clock_stepped": "invalid",  # timestamps of samples run backwards
    "cpu_shared": "note",  # {engines} engines share the {cpus} CPUs of one machine
    "host_stolen": "warning",  # the hypervisor took {percent} % of this machine's CPU
    "not_expendable": "note",  # nothing was written: the site does not allow it
    "never_steady": "warning",  # after {seconds} s of warm-up, the rate was not steady
    "began_apart": "invalid",  # hosts began to measure {spread_ms} ms apart, {percent} % of the measuring time
    "warm_up_idle": "warning",  # after {seconds} s of warm-up, no request had been completed within a window
    "answers_gathered": "note",  # the initiator waited up to {longest} ({percent} % of a latency) for more responses
    "cpu_emulated": "warning",  # the guest's processor is emulated: {reason}
    "load_in_guest": "note",  # the load ran in a guest with Linux {kernel} on {nic}; initiator: {initiator}
    "guest_failed": "warning",  # the guest with the load could not be used or was lost: {error}
    "layers_disagree": "warning",  # {stage}: {upper} and {lower} differ by {bytes} bytes, {allowed_bytes} allowed
    "device_failed": "warning",  # the device of the point could not be built or was lost: {error}
    "not_finished": "warning",  # {jobs} of {total} copies had not ended after {limit}
    "fabric_limit": "invalid",  # the emulated network lost {lost} packets that a real network would not lose
    "fabric_lost": "warning",  # {lost} packets lost outside the model, {dropped} frames dropped by the model
    "tcp_series_incomplete": "note",  # {events} events and {records} records of the TCP series are missing
    "capture_incomplete": "note",  # captures lack {packets} packets; on {nodes} nodes they ended early
    "tcp_trace_deaf": "note",  # TCP's events of {cpus} CPUs are not delivered while those CPUs are idle
    # attached by analysis
    "no_data": "invalid",  # no repetition gave a value
    "few_repetitions": "note",  # {n} repetitions: the interval is wide or missing
    "noisy": "warning",  # repetitions differ by {percent} % (coefficient of variation)
    "not_steady": "warning",  # the rate drifted or swung while it was measured
    "too_short_to_judge": "note",  # {samples} samples: steadiness cannot be judged
    "warmup_short": "warning",  # {warmup_ms} ms of warm-up, but a request takes {latency_ms} ms
    "window_not_covered": "warning",  # samples cover {percent} % of the measuring time
    "littles_law": "warning",  # requests outstanding differ from rate times latency by {percent} %
    "bytes_not_conserved": "invalid",  # initiators counted {initiator} bytes, the array {array}
    "wire_bytes": "warning",  # bytes on the wire do not match the payload
    "total_not_sum": "invalid",  # the total differs from the sum over VMs
    "generator_saturated": "invalid",  # the load generator itself was the limit
    "machine_saturated": "warning",  # this machine's CPU was used up
    "issued_late": "warning",  # open-loop requests were issued {late_ms} ms late, {percent} % of their latency
    "issued_too_late": "invalid",  # the same, a quarter of the latency or more
    "rate_not_kept": "warning",  # {in_flight} requests in flight: the system serves fewer than are offered
    "frames_not_conserved": "invalid",  # {frames} frames of {link} are unaccounted for
    "fabric_late": "warning",  # the emulated network moved frames {late_us} µs late (99th percentile)
    "fabric_saturated": "invalid",  # a thread of the emulated network used {percent} % of a CPU, and frames were late
    "tester_limited": "warning",  # the device forwards all that the tester can send and count
    "search_unfinished": "warning",  # the search ended before its bounds were as close as the goal demands
    "search_below_range": "warning",  # the device loses frames even at the lowest rate that was tried
    "search_capped": "warning",  # the device forwards the highest rate that was tried, {rate} frames/s
    "goal_not_monotone": "warning",  # level {missed} misses the goal, and the harder level {met} meets it
    "goal_unfinished": "warning",  # the search for the goal ended before its answer was certain
    "goal_tester_limit": "warning",  # the points of level {level} could not be judged
    "precision_missed": "warning",  # after {n} repetitions, {metric} is known to {percent} %, not {asked} %
    "precision_unknown": "warning",  # {n} repetitions of {metric} have no interval, and {asked} % were requested
    "losses_unlocated": "note",  # of {lost} lost frames, {frames} are in no counter
    "cpu_not_sampled": "note",  # {trials} trials have fewer than {samples} samples of the CPU within them
    "trials_invalid": "note",  # {trials} trials that the tester could not send or count were left out
    "frames_lost": "warning",  # {frames} frames were dropped on {link}
    "published_differs": "note",  # the published table was made on other equipment
}


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
        return CAVEATS[self.name]

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
