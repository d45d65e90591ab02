"""The verdicts that an expectation may name. Generated from the rules by tools/rules.py: do not edit."""

from __future__ import annotations

from typing import Literal

Verdict = Literal[
    "array_cpu",
    "cache",
    "congestion_marks",
    "congestion_window",
    "controller",
    "depth",
    "drives",
    "fabric",
    "generator_cpu",
    "link",
    "machine_cpu",
    "port",
    "r2t_turns",
    "rate_limit",
    "receive_window",
    "send_buffer",
    "slow_start",
    "switch_buffer",
    "undetermined",
]
