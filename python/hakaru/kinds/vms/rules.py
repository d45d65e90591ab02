"""The possible bottlenecks of a load of VMs, in the order in which they are evaluated.

The CPUs of the load generator and of the array come before TCP's stalls, because an end without CPU
time for its sockets closes its window and fills its buffer. The CPU of the machine comes after
them, because unrelated processes may use it without slowing the load. The queues in hosts and
guests come last but one, because whatever slows the commands behind them fills them.
"""

from __future__ import annotations

from hakaru.analysis.rules.cache import CACHE
from hakaru.analysis.rules.depth import LOW_USE
from hakaru.analysis.rules.device import DEVICES
from hakaru.analysis.rules.fabric import FABRIC
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.link import LINK
from hakaru.analysis.rules.losses import CONGESTION_MARKS, CONGESTION_WINDOW, SWITCH_BUFFER
from hakaru.analysis.rules.processor import ARRAY_CPU, GENERATOR_CPU, MACHINE_CPU
from hakaru.analysis.rules.queue import GUEST_QUEUE, HOST_QUEUE
from hakaru.analysis.rules.rate_limit import RATE_LIMIT
from hakaru.analysis.rules.slow_start import SLOW_START
from hakaru.analysis.rules.tcp_stall import RECEIVE_WINDOW, SEND_BUFFER, SEND_BUFFER_IN_FLIGHT
from hakaru.analysis.rules.turns import FEW_TURNS, R2T_TURNS

STAGES: Stages = (
    (FABRIC,),
    (CACHE,),
    (LINK, *DEVICES),
    (RATE_LIMIT,),
    (R2T_TURNS, FEW_TURNS),
    (GENERATOR_CPU, ARRAY_CPU),
    (CONGESTION_MARKS,),
    (SWITCH_BUFFER, CONGESTION_WINDOW),
    (RECEIVE_WINDOW, SEND_BUFFER),
    (SEND_BUFFER_IN_FLIGHT,),
    (SLOW_START,),
    (MACHINE_CPU,),
    (HOST_QUEUE,),
    (GUEST_QUEUE,),
    (LOW_USE,),
)
