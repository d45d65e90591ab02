"""Repetitions of a search for the highest rate that a device forwards."""

from __future__ import annotations

from typing import cast

from hakaru.errors import UsageError
from hakaru.kinds.packets.dialogue import LATENCY_ATTEMPTS, TESTER_TRIAL_S, TESTER_TRIALS, PacketsDialogue
from hakaru.kinds.packets.load import load_at
from hakaru.kinds.packets.meter import PacketsMeter, rates_of
from hakaru.kinds.packets.streams import packets_config
from hakaru.lab.model.device import DeviceSpec
from hakaru.lab.plan import Device, LabPlan
from hakaru.lab.plan.device import DevicePort
from hakaru.run.dialogue import Dialogue
from hakaru.run.kind import Cost, Engines, Finished, RunKind
from hakaru.run.meter import Meter, Rates
from hakaru.run.site_file import HOST, Site
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.units import format_duration

MS_NS = 1_000_000
UNLIMITED_S = 600.0
"""Expected time of a search without a budget."""
TRIAL_OVERHEAD_S = 0.3
PORTS = 4
"""Ports of the tester, each of which sends and receives: two at the device, two of the loop."""
RECEIVE_BYTES = 64 << 20
"""Receive ring of a port (crates/engine/src/packets/methods.rs), or its slots of AF_XDP."""
XDP_SLOT_FRAME_BYTES = 1796
"""Longest frame that a slot of 2048 bytes receives; longer ones need slots of twice the length."""
TRANSMIT_BYTES = 4 << 20
"""Frames and rings of AF_XDP of a port (docs/reference/packets.md)."""


class PacketsRun(RunKind):
    """The part of the kind `packets` that runs use."""

    notes_shared_cpus = False
    """A search begins with the tester's own limit, with and without the device at work."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """None: the device is a part of the lab."""
        return {}

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The tester."""
        device = device_of(lab)
        interval_ms = expanded.measure.intervals.hosts // MS_NS
        return {device.tester: packets_config(load_at(expanded.at(turn.point)), device, interval_ms)}

    def dialogue(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Dialogue:
        """The trials of a repetition."""
        device = device_of(lab)
        return PacketsDialogue(load_at(expanded.at(turn.point)), device.tester, ways=device.ways)

    site_part = "ports"

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Refuse points whose device is not the site's. There are no LUs to protect."""
        assert site.ports is not None, "checked before"
        for point in expanded.points:
            _check_device(point, device_at(expanded, point), has_functions=bool(site.ports.functions))
        return True

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """The tester, on this host. It sends on the interfaces of the site's `ports` alone."""
        interval_ms = expanded.measure.intervals.hosts // MS_NS
        device = device_of_site(site, device_at(expanded, turn.point))
        return {HOST: packets_config(load_at(expanded.at(turn.point)), device, interval_ms)}

    def site_dialogue(self, expanded: Expanded, turn: Repetition, site: Site) -> Dialogue:
        """The trials of a repetition."""
        has_loop = device_of_site(site, device_at(expanded, turn.point)).loop is not None
        return PacketsDialogue(load_at(expanded.at(turn.point)), HOST, has_loop=has_loop)

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """The budget of the search, and the trials before and after it."""
        load = load_at(expanded.at(point))
        overhead_s = TRIAL_OVERHEAD_S + load.settle / 1e9
        shares = load.latency.percent if load.latency else ()
        latency_s = len(shares) * (load.latency.time / 1e9 + overhead_s) if load.latency else 0.0
        other = (TESTER_TRIALS + 1) * (TESTER_TRIAL_S + overhead_s) + latency_s
        budget = load.search.budget / 1e9 if load.search.budget else UNLIMITED_S
        most = budget
        if load.search.budget is None:
            # A goal takes about ten times its deciding trials and some tens of others.
            goals_s = sum(10 * goal.time + 100 * goal.trial for goal in load.search.goals) / 1e9
            most = max(10 * UNLIMITED_S, load.search.repeats * goals_s)
        has_long_slots = load.loads_program and load.longest_bytes > XDP_SLOT_FRAME_BYTES
        held = PORTS * ((2 if has_long_slots else 1) * RECEIVE_BYTES + TRANSMIT_BYTES)
        device = device_at(expanded, point)
        if device.forwards == "guest":
            held += device.guest.memory_bytes
        longest_s = other + (LATENCY_ATTEMPTS - 1) * latency_s + most
        return Cost(other + budget, 2 * longest_s, held_bytes=held, actors=4, sockets=8)

    def each(self, expanded: Expanded) -> str:
        """The longest budget of a search, in words."""
        budgets = [load_at(expanded.at(point)).search.budget for point in expanded.points]
        known = [budget for budget in budgets if budget is not None]
        if not known or len(known) < len(budgets):
            return "one search each, without a time limit"
        return f"one search each, at most {format_duration(max(known))}"

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Frames sent and received per second."""
        return PacketsMeter()

    def result(self, study: Study, finished: Finished) -> Rates:
        """The rate found, and how far the search came."""
        trials = finished.trials or {}
        goals = trials.get("goals") or [{"throughput": None}]
        return rates_of(cast("float | None", goals[0]["throughput"]), str(trials.get("verdict")))


def device_at(expanded: Expanded, point: Point) -> DeviceSpec:
    """The device of a point, which every study of this kind has."""
    device = expanded.at(point).lab.device
    assert device is not None, "checked when the study was loaded"
    return device


def _check_device(point: Point, device: DeviceSpec, *, has_functions: bool) -> None:
    """Refuse a point with another device than that of a site: existing equipment, or a guest that
    gets functions of adapters.
    """
    takes_functions = device.forwards == "guest" and device.guest.nic.traits.backend == "function"
    if takes_functions and not has_functions:
        raise UsageError(
            f"nothing was sent: the guest of point {point.id} needs functions of adapters "
            f"(`{device.guest.nic.model}`), and the site names none",
            "add `function` to both `ports` of the site file",
        )
    if has_functions and not takes_functions:
        raise UsageError(
            f"nothing was sent: the ports of the site have functions of adapters for a guest, and point {point.id} "
            "has another device",
            "choose points with `lab.device.guest.nic.model: sr-iov` or `vfio` (--only), or remove `function`",
        )
    if not has_functions and device.forwards != "equipment":
        raise UsageError(
            f"nothing was sent: point {point.id} has the device `{device.forwards}`, which is built in a lab",
            "choose points with `lab.device.forwards: equipment` (--only), or leave out --site",
        )


def device_of_site(site: Site, spec: DeviceSpec) -> Device:
    """The device between the interfaces of a site. `site`: with the addresses of the guest's NICs,
    once it has booted.
    """
    assert site.ports is not None, "checked before the run"
    ends = (site.ports.left, site.ports.right)
    ports = [DevicePort(e.interface, "", e.device_mac or "", str(e.address), "", 0, "") for e in ends]
    loop = (site.ports.loop[0], site.ports.loop[1]) if site.ports.loop else None
    guest = spec.guest if spec.forwards == "guest" else None
    return Device(site.name, HOST, spec.forwards, own_thread=False, ports=tuple(ports), loop=loop, guest=guest)


def device_of(lab: LabPlan) -> Device:
    """The device of a lab, which every study of this kind has."""
    assert lab.device is not None, "checked when the study was loaded"
    return lab.device


RUN = PacketsRun()
