"""Defaults of the iSCSI login keys. Generated from the engine's contract by `make schema`; do not
edit.
"""

from __future__ import annotations

from typing import NamedTuple


class LoginDefaults(NamedTuple):
    """One side's login keys (RFC 7143 section 13), lengths in bytes."""

    data_digest: bool
    first_burst_length: int
    header_digest: bool
    immediate_data: bool
    initial_r2t: bool
    max_burst_length: int
    max_outstanding_r2t: int
    max_recv_data_segment_length: int


INITIATOR = LoginDefaults(
    data_digest=False,
    first_burst_length=262_144,
    header_digest=False,
    immediate_data=True,
    initial_r2t=False,
    max_burst_length=16_776_192,
    max_outstanding_r2t=1,
    max_recv_data_segment_length=262_144,
)
TARGET = LoginDefaults(
    data_digest=True,
    first_burst_length=65_536,
    header_digest=True,
    immediate_data=True,
    initial_r2t=False,
    max_burst_length=1_048_576,
    max_outstanding_r2t=8,
    max_recv_data_segment_length=262_144,
)
