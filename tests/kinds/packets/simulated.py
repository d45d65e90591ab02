"""A device and a tester in virtual time, which answer the orders of a dialogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hakaru.engine import contract
from hakaru.engine.contract import packets
from hakaru.kinds.packets.dialogue import PacketsDialogue
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.kinds.packets.streams import BACKWARD, FORWARD, LOOP_BACKWARD, LOOP_FORWARD
from hakaru.run.dialogue import Order
from hdrh.histogram import HdrHistogram

STREAMS = (FORWARD, BACKWARD, LOOP_FORWARD, LOOP_BACKWARD)
PORTS = ("left", "right", "loop-a", "loop-b")
NODE = "generator"
DELAY_NS = 40_000
OVERHEAD_NS = 200_000_000


@dataclass
class Bench:
    """`capacity`: frames per second that the device forwards in all directions together. `tester`:
    what the tester sends and counts in one direction.

    The device's input queue drops the excess. `ring_drops`: frames that the receiver's own ring
    drops in each trial through the device. `unseen`: share of the lost frames that no counter has.
    `late`: frames of each trial through the device that arrive in the next one.
    """

    capacity: float
    tester: float = 500_000.0
    ring_drops: int = 0
    unseen: float = 0.0
    late: int = 0
    reordered: int = 0
    """Frames of each trial in the forward direction that arrive behind a later one."""
    duplicated: int = 0
    """Further copies of frames in the forward direction, in each trial."""
    corrupted: int = 0
    """Damaged frames of each trial in the forward direction."""
    flood_capacity: float | None = None
    """Capacity for frames without a rate; None: the same."""
    losses: dict[str, int] = field(default_factory=dict)
    """Frames that the counters of the device have in each trial."""
    is_late: Callable[[contract.Trial], bool] = lambda trial: False
    """Whether a frame of a trial is sent too late."""
    stopped_ms: int = 0
    """Time of each trial in which processors stop and frames in the forward direction are lost."""
    surplus: int = 0
    """Frames of each trial in the forward direction that arrive beyond those sent."""
    generator_percent: float = 0.0
    """CPU use of the thread that sends from the left port."""
    now_ns: int = 10**9
    orders: list[contract.Trial] = field(default_factory=list)

    def answer(self, order: Order) -> contract.TrialOutcome:
        """The result of a trial; the time passes."""
        trial = order.trial
        self.orders.append(trial)
        start_ns = self.now_ns
        self.now_ns += trial.duration_ns + OVERHEAD_NS
        seconds = trial.duration_ns / 1e9
        through = sum(self.tester if rate is None else rate for rate in trial.rates[:2])
        is_flood = self.flood_capacity is not None and None in trial.rates[:2]
        capacity = self.flood_capacity if is_flood and self.flood_capacity else self.capacity
        share = min(1.0, capacity / through) if through else 1.0
        streams = list(self._streams(trial, seconds, share))
        dropped = sum(s.lost for s in streams[:2])
        faults = []
        if self.ring_drops and through:
            message = f"{self.ring_drops} frames found the ring full"
            faults = [packets.TesterFault(kind="receive_ring", entity="port/right", message=message)]
        if self.is_late(trial):
            faults.append(packets.TesterFault(kind="late", entity=f"stream/{FORWARD}", message="a frame was sent late"))
        if self.surplus:
            faults.append(packets.TesterFault(kind="surplus", entity=f"stream/{FORWARD}", message="too many arrived"))
        return contract.TrialOutcome(
            id=trial.id,
            start_ns=start_ns,
            end_ns=start_ns + trial.duration_ns + trial.settle_ns,
            tester_faults=faults,
            streams=streams,
            ports=[
                self._port(name, self._counted(dropped) if name == "left" else 0, through, trial.duration_ns)
                for name in PORTS
            ],
            stops=self._stops(),
            histograms=[_latencies(s.name, s.received) for s in streams if s.received],
        )

    def _counted(self, dropped: int) -> int:
        return dropped - round(dropped * self.unseen)

    def _streams(self, trial: contract.Trial, seconds: float, share: float) -> Iterator[packets.StreamOutcome]:
        for name, rate in zip(STREAMS, trial.rates, strict=True):
            intended = None if rate is None else int(rate * seconds)
            possible = int(self.tester * seconds)
            sent = possible if intended is None else min(intended, possible)
            stopped = min(sent, int((rate or 0.0) * self.stopped_ms / 1e3)) if name == FORWARD else 0
            received = int((sent - stopped) * share) if name in (FORWARD, BACKWARD) else sent
            yield packets.StreamOutcome(
                name=name,
                intended=intended,
                sent=sent,
                unsent=0 if intended is None else intended - sent,
                received=received + (self.surplus if name == FORWARD and received == sent else 0),
                lost=sent - received,
                duplicated=self.duplicated if name == FORWARD and received else 0,
                reordered=self.reordered if name == FORWARD and received else 0,
                corrupted=self.corrupted if name == FORWARD and received else 0,
                sent_bytes=64 * sent,
                received_bytes=64 * received,
                first_sent_ns=None,
                last_sent_ns=None,
                first_received_ns=None,
                last_received_ns=None,
                lateness_ns_max=0,
                excluded=stopped,
                excluded_unsent=0,
                excluded_lost=stopped,
            )

    def _stops(self) -> packets.ProcessorStops | None:
        ns = self.stopped_ms * 1_000_000
        return packets.ProcessorStops(count=1, longest_ns=ns, excluded_ns=ns) if ns else None

    def _port(self, name: str, dropped: int, through: float, duration_ns: int) -> packets.PortOutcome:
        return packets.PortOutcome(
            name=name,
            tx_dropped=dropped,
            refused=0,
            rx_dropped=0,
            ring_dropped=self.ring_drops if name == "right" and through else 0,
            foreign=0,
            late=self.late if name == "right" and self.orders[:-1] and any(self.orders[-2].rates[:2]) else 0,
            transmit_cpu_ns=round(duration_ns * self.generator_percent / 100) if name == "left" else 0,
            receive_cpu_ns=0,
        )


def _latencies(stream: str, count: int) -> contract.NamedHistogram:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    histogram.record_value(DELAY_NS, count)
    return contract.NamedHistogram(entity=f"stream/{stream}", name="latency_ns", hdr=histogram.encode().decode())


def run(bench: Bench, load: PacketsLoad) -> PacketsDialogue:
    """Run a dialogue to its end."""
    dialogue = PacketsDialogue(load, NODE)
    while (order := dialogue.next_order(bench.now_ns / 1e9)) is not None:
        dialogue.record(order, bench.answer(order), bench.losses)
    return dialogue
