"""Study whose points are the trials of a tuning: one host with one VM, and one array behind a link
that has the round trip. Pure.

It is an ordinary study with a variable for each knob, so the code that configures, runs, stores and
analyses a study also handles trials. `base(setup)` is stored as the run's study.yaml; its factors
vary one knob at a time.
"""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML

from hakaru.study import Loaded, Point, Study
from hakaru.study.document import parse_document
from hakaru.study.load import validate
from hakaru.tune.kind import tunable
from hakaru.tune.knobs import (
    AUTO,
    BUFFER_MAX_BYTES,
    BUFFER_MIN_BYTES,
    Knob,
    Settings,
    Value,
    changed,
    defaults_of,
    path_bytes,
    settle,
    sizes,
)
from hakaru.tune.setup import Setup
from hakaru.units import format_duration, format_rate, format_size

QUEUE_MIN_BYTES, QUEUE_MAX_BYTES = 8 << 20, 256 << 20
SECOND_NS = 10**9
WARMUP_ROUND_TRIPS = 50
"""Slow start reaches a thousand segments in ten round trips; recovery from its overshoot takes some
more.
"""
WARMUP_FILLS = 1.5
RATE_ASSUMED = 10**9
"""Rate assumed for a path whose rate is unknown, in bits per second."""
REGION_BLOCKS = 64
ID = "tune"


def base(setup: Setup) -> dict[str, Any]:
    """Return the study document, as written to study.yaml."""
    c = setup.conditions
    region = format_size(REGION_BLOCKS * max(c.block_bytes, 1 << 20))
    return {
        "format": 1,
        "id": ID,
        "title": {"en": "Tuning of iSCSI and TCP", "ja": "iSCSI と TCP のチューニング"},
        "question": {
            "en": f"Which settings carry {_load(setup)} best over {_path(setup)}?",
            "ja": f"{_path_ja(setup)}で、{_load_ja(setup)}に最適な設定は何か。",
        },
        "expectation": {
            "en": "Buffers of twice rate x round trip, bursts of a block and no R2T before the first data come near "
            "what the link carries.",
            "ja": "帯域 x 往復時間の 2 倍のバッファ、ブロック以上のバースト、最初のデータに R2T "
            "を待たない設定で、リンクの上限に近づく。",
        },
        "origin": "emulated",
        "lab": _lab(setup),
        "array": {
            "target_name": "iqn.2012-12.example.hakaru:tune",
            "model": {"kind": "none"},
            "lus": [{"lun": 0, "size": region}],
        },
        "load": tunable().load(setup, region),
        "variables": {knob.name: _variable(knob, setup) for knob in setup.space if knob.places},
        "factors": _factors(setup),
        "measure": {
            "warmup": format_duration(_warmup_ns(setup)),
            "time": format_duration(setup.trial_ns),
            "repetitions": 1,
            "sample_interval": "200 ms",
        },
        "seed": setup.seed,
    }


def _warmup_ns(setup: Setup) -> int:
    """Return a warm-up in which slow start ends and every initial request completes.

    The initial requests are all sent at once and queue behind each other, so their response times
    are not those of the steady state.
    """
    c = setup.conditions
    depth = c.depth or max(int(v) for k in setup.space if k.name == "queue_depth" for v in k.levels)
    seconds = depth * c.block_bytes * 8 / (c.rate_bits_per_s or RATE_ASSUMED)
    filled_ns = round(WARMUP_FILLS * seconds * SECOND_NS)
    step = SECOND_NS // 10
    return max(SECOND_NS, WARMUP_ROUND_TRIPS * (c.rtt_ns or 0), -(-filled_ns // step) * step)


def load_base(setup: Setup) -> Loaded:
    """Return the validated study with its text."""
    from pathlib import Path

    yaml, text = YAML(typ="safe", pure=True), io.BytesIO()
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode, yaml.width = True, 160
    yaml.dump(base(setup), text)
    source = text.getvalue()
    return Loaded(validate(parse_document(source, "tune/study.yaml"), Study), Path("tune/study.yaml"), source, {})


def factors_of(setup: Setup, settings: Settings) -> dict[str, Any]:
    """Return the factors of a setting: those of the load, and every knob not at its default."""
    levels = {k.name: level(k, settings[k.name]) for k in changed(setup.space, settings) if k.places}
    return {**tunable().factors(setup, settings), **levels}


def point_of(study: Study, setup: Setup, settings: Settings, name: str, label: str = "") -> Point:
    """Return the point of a setting."""
    factors = factors_of(setup, settings)
    return Point(name, factors, study.at(factors), label)


def level(knob: Knob, value: Value) -> Value:
    """Return a value as a level of the knob's variable."""
    written = knob.written(value)
    return AUTO if written is None else written


def _variable(knob: Knob, setup: Setup) -> dict[str, Any]:
    if AUTO not in knob.levels:
        return {"sets": list(knob.places)}
    # The first trial may measure a round trip for which larger buffers are worth a trial.
    later = sizes(BUFFER_MIN_BYTES, BUFFER_MAX_BYTES) if setup.conditions.rtt_ns is None else ()
    peer = setup.peer
    values = dict.fromkeys([*knob.levels, *later, *([peer.settings[knob.name]] if peer else [])])
    return {str(level(knob, v)): {place: knob.written(v) for place in knob.places} for v in values}


def _factors(setup: Setup) -> list[dict[str, Any]]:
    """Return one factor block for the defaults, then one for the other levels of each knob."""
    default = defaults_of(setup.space)
    plain = {name: [value] for name, value in factors_of(setup, default).items()}
    blocks = [plain]
    for knob in setup.space:
        one_at_a_time = [v for v in knob.levels if v != knob.default and _is_settled(setup, {**default, knob.name: v})]
        if one_at_a_time:
            blocks.append({**plain, knob.name: [level(knob, v) for v in one_at_a_time]})
    return blocks


def _is_settled(setup: Setup, settings: Settings) -> bool:
    return settle(setup.space, settings) == dict(settings)


def _lab(setup: Setup) -> dict[str, Any]:
    c = setup.conditions
    queue = format_size(min(QUEUE_MAX_BYTES, max(QUEUE_MIN_BYTES, 4 * path_bytes(c))))
    link: dict[str, Any] = {"queue": queue}
    if c.rate_bits_per_s is not None:
        link["rate"] = format_rate(c.rate_bits_per_s)
    far = dict(link)
    if c.rtt_ns:
        far["delay"] = format_duration(c.rtt_ns // 2)
    if c.loss_percent:
        far["loss"] = {"percent": c.loss_percent}
    return {
        "hosts": ["host"],
        "arrays": ["array"],
        "switches": {"switch": {}},
        "mtu": c.mtu,
        "links": {"host": {"between": ["host", "switch"], **link}, "array": {"between": ["array", "switch"], **far}},
        "tcp": {
            **({} if setup.defaults.tcp_stack == "today" else {"stack": setup.defaults.tcp_stack}),
            **({} if setup.defaults.buffer_max is None else {"buffer_max": format_size(setup.defaults.buffer_max)}),
            "congestion_control": setup.defaults.congestion_control,
            "slow_start_after_idle": setup.defaults.slow_start_after_idle,
        },
    }


def _load(setup: Setup) -> str:
    """The load in English: "writes of 4 MiB at depth 1"."""
    c = setup.conditions
    depth = "" if c.depth is None else f" at depth {c.depth}"
    return f"{c.op}s of {format_size(c.block_bytes)}{depth}"


def _load_ja(setup: Setup) -> str:
    c = setup.conditions
    depth = "" if c.depth is None else f"（未完了要求数 {c.depth}）"
    return f"{format_size(c.block_bytes)} の{'書き込み' if c.op == 'write' else '読み出し'}{depth}"


def _path(setup: Setup) -> str:
    """The path in English: "1 Gbit/s, RTT 20 ms, loss 0.1 %"."""
    loss = setup.conditions.loss_percent
    return ", ".join([*_rate_and_rtt(setup), *([f"loss {loss:g} %"] if loss else [])]) or "a real path"


def _path_ja(setup: Setup) -> str:
    loss = setup.conditions.loss_percent
    parts = [*_rate_and_rtt(setup), *([f"片道の損失 {loss:g} %"] if loss else [])]
    return f"{'、'.join(parts)} のパス" if parts else "実機のパス"


def _rate_and_rtt(setup: Setup) -> list[str]:
    c = setup.conditions
    rate = [] if c.rate_bits_per_s is None else [format_rate(c.rate_bits_per_s)]
    return rate + ([] if c.rtt_ns is None else [f"RTT {format_duration(c.rtt_ns)}"])
