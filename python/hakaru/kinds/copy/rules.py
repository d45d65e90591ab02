"""The possible bottlenecks of a copy, in the order in which they are evaluated."""

from __future__ import annotations

from hakaru.analysis.rules.cache import CACHE
from hakaru.analysis.rules.depth import BLOCKS
from hakaru.analysis.rules.device import DEVICES
from hakaru.analysis.rules.fabric import FABRIC
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.link import LINK
from hakaru.analysis.rules.losses import CONGESTION_MARKS, SWITCH_BUFFER
from hakaru.analysis.rules.processor import ARRAY_CPU, GENERATOR_CPU, MACHINE_CPU
from hakaru.analysis.rules.rate_limit import RATE_LIMIT
from hakaru.analysis.rules.tape import TAPE_DRIVE

STAGES: Stages = (
    (FABRIC,),
    (LINK,),
    (TAPE_DRIVE,),
    (RATE_LIMIT,),
    (CACHE,),
    DEVICES,
    # As for VMs: an end without CPU to spare stalls TCP.
    (GENERATOR_CPU, ARRAY_CPU),
    (CONGESTION_MARKS,),
    (SWITCH_BUFFER,),
    (MACHINE_CPU,),
    (BLOCKS,),
)
