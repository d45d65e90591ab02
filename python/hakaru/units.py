"""Quantities with units: parsed strictly, formatted as people write them.

`1 Gbit/s`, `117 MB/s`, `32 KiB`, `146 GB`, `3 min`. A quantity is a number and a unit, with or
without a space between them. A number without a unit is refused (except 0), because the wrong guess
makes a lab a thousand times too small. Binary prefixes (Ki, Mi, Gi, Ti) are powers of 1024, decimal
ones (k, M, G, T) powers of 1000. `b` for bit is refused because it is easily mistaken for byte.
Values are integers in bytes, bits per second or nanoseconds.

`Size`, `Rate`, `Duration` and `Percent` are types for pydantic models: text in a study file, a
number in Python, text again when dumped. `unit_in` finds the unit in the name of a metric, and
`value_of_metric` converts a quantity to it.
"""

from __future__ import annotations

import contextlib
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_SIZE = {"B": 1}
_SIZE |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), start=1)}
_SIZE |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), start=1)}
_RATE = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12}
_RATE |= {f"{unit}/s": 8 * factor for unit, factor in _SIZE.items()}
_DURATION = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

_USUAL = {"a size": ("B", "KiB", "MiB"), "a rate": ("Mbit/s", "Gbit/s"), "a duration": ("ms", "s")}
"""Quantity → the units that a number without a unit probably means."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+]?[0-9]{1,2})?)\s*([A-Za-zµ/]+)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
# Keeps every quantity inside a signed 64-bit integer of the engine. No lab needs more.
_MAX = 2**63 - 1


def _parse(text: object, units: dict[str, int], quantity: str, example: str) -> int:
    if text == 0 and not isinstance(text, bool):
        return 0
    if not isinstance(text, str):
        if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
            forms = [f"`{text:g} {unit}`" for unit in _USUAL[quantity]]
            raise ValueError(f"{quantity} needs a unit, such as {' or '.join(forms)}; got {text!r}")
        raise ValueError(f"{quantity} needs a unit, such as `{example}`; got {text!r}")
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        if text.strip().startswith("-"):
            raise ValueError(f"{quantity} cannot be negative; write it such as `{example}`; got {text!r}")
        raise ValueError(f"{quantity} is a number and a unit, such as `{example}`; got {text!r}")
    number, unit = match.groups()
    if unit not in units:
        similar = [f"`{number} {known}`" for known in _similar_units(unit, units)]
        hint = f"did you mean {' or '.join(similar)}?" if similar else f"use one of {', '.join(units)}"
        raise ValueError(f"{quantity} has no unit {unit!r}; {hint}")
    value = Fraction(number) * units[unit]
    if value.denominator != 1:
        raise ValueError(f"{quantity} {text!r} is not a whole number of {next(iter(units))}")
    if value > _MAX:
        raise ValueError(f"{quantity} {text!r} is too large; the maximum is 2^63 - 1 {next(iter(units))}")
    return int(value)


def _similar_units(unit: str, units: dict[str, int]) -> list[str]:
    """Units that differ from `unit` in case, in a binary prefix or in an abbreviation: `Gbps`, `K`,
    `KB`, `sec`.
    """
    equal_names = [known for known in units if known.casefold() == unit.casefold()]
    if equal_names:
        # `KB` means 1000 bytes to some and 1024 to others.
        binary = [known for known in units if known.casefold() == re.sub("b", "ib", unit.casefold(), count=1)]
        return [*equal_names, *binary]
    equivalent = [known for known in units if _folded(known) == _folded(unit)]
    # A lower-case b means bit and an upper-case B byte, if such a unit exists.
    same_kind = [known for known in equivalent if ("bit" in known) == ("B" not in unit)]
    return same_kind or equivalent


def _folded(unit: str) -> str:
    folded = re.sub(r"ps$", "/s", unit.casefold().replace("µ", "u"))
    folded = {"sec": "s", "secs": "s", "m": "min", "mins": "min", "hour": "h", "hours": "h"}.get(folded, folded)
    folded = re.sub(r"^([kmgt])i?(?=b|$)", r"\1", folded.replace("bits", "b").replace("bit", "b"))
    return f"{folded}b" if folded in {"k", "m", "g", "t"} else folded


def parse_size(text: object) -> int:
    """Bytes. `512 B`, `32 KiB`, `146 GB`. Raises ValueError with a valid example."""
    return _parse(text, _SIZE, "a size", "32 KiB")


def parse_rate(text: object) -> int:
    """Bits per second. `1 Gbit/s`, `100 Mbit/s`, `117 MB/s`. Raises ValueError with a valid
    example.
    """
    return _parse(text, _RATE, "a rate", "1 Gbit/s")


def parse_duration(text: object) -> int:
    """Nanoseconds. `500 ms`, `30 s`, `3 min`. Raises ValueError with a valid example."""
    return _parse(text, _DURATION, "a duration", "30 s")


def parse_percent(text: object) -> float:
    """Percent. `3 %`, `0.5 %`. Raises ValueError with a valid example."""
    match = _PERCENT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        hint = f"`{text:g} %`" if isinstance(text, int | float) and not isinstance(text, bool) else "`3 %`"
        raise ValueError(f"a percentage is a number and `%`, such as {hint}; got {text!r}")
    return float(match[1])


def format_percent(value: float) -> str:
    """`3.0` → `3 %`, without loss: `parse_percent` returns the same number."""
    return f"{Decimal(repr(value)).normalize():f} %"


def _format(value: int, units: dict[str, int]) -> str:
    """The largest unit that writes `value` exactly with at most three decimals; the smallest unit
    otherwise.
    """
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        thousandths = Fraction(1000 * value, factor)
        if abs(thousandths) >= 1000 and thousandths.denominator == 1:
            # In integers: a float would lose the last digits of large values.
            whole, rest = divmod(int(thousandths), 1000)
            return f"{whole}.{rest:03}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{value} {next(iter(units))}"


def format_size(value: int) -> str:
    """`32768` → `32 KiB`, `146000000000` → `146 GB`. Exact: `parse_size` returns the same
    number.
    """
    decimal = {u: f for u, f in _SIZE.items() if "i" not in u}
    binary = {"B": 1} | {u: f for u, f in _SIZE.items() if "i" in u}
    candidates = [_format(value, binary), _format(value, decimal)]
    return min(candidates, key=len)


def format_rate(value: int) -> str:
    """`1000000000` → `1 Gbit/s`. Exact."""
    return _format(value, {u: f for u, f in _RATE.items() if u.endswith("bit/s")})


def format_duration(value: int) -> str:
    """`180000000000` → `3 min`. Exact."""
    return _format(value, {u: f for u, f in _DURATION.items() if u != "µs"})


def format_as(written: str, value: int) -> str | None:
    """`value` formatted as the same kind of quantity as `written`: format_as("65 TiB", 1 << 46) is
    `64 TiB`. None if `written` is not a quantity.
    """
    for parse, show in (
        (parse_size, format_size),
        (parse_rate, format_rate),
        (parse_duration, format_duration),
    ):
        with contextlib.suppress(ValueError):
            parse(written)
            return show(value)
    return None


def approximate_duration(ns: float) -> str:
    """A measured duration to three significant digits, in the largest unit in which it is at least
    1.

    `1234567` → `1.23 ms`, `0` → `0 ns`, `754_000_000_000` → `754 s`.
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        # Compare the rounded value: 999.6 µs to three digits is 1 ms.
        if float(f"{ns / size:.3g}") >= 1:
            value = ns / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"


UNITS_IN_NAMES = (
    ("mib_per_s", "MiB/s"),
    ("mb_per_s", "MB/s"),
    ("gbit_per_s", "Gbit/s"),
    ("mbit_per_s", "Mbit/s"),
    ("per_s", "1/s"),
    ("percent", "percent"),
    ("ms", "ms"),
    ("us", "µs"),
    ("s", "s"),
)
"""Words in the name of a metric → its unit; the first that matches counts."""


def unit_in(metric: str) -> str:
    """The unit that the name of a metric contains (`latency_ms_mean`: ms); empty if there is
    none.
    """
    words = f"_{metric.partition('/')[0]}_"
    return next((unit_name for text, unit_name in UNITS_IN_NAMES if f"_{text}_" in words), "")


_METRIC_DURATIONS = {"ms": 1e6, "µs": 1e3, "s": 1e9}
_METRIC_RATES = {name: _RATE[name] for name in ("MiB/s", "MB/s", "Gbit/s", "Mbit/s")}


def value_of_metric(metric: str, text: object) -> float:
    """A quantity in the unit that the name of a metric contains: `20 ms` of `latency_ms_p99` is 20.
    Metrics without such a unit take a number. Raises ValueError with a valid example.
    """
    unit = unit_in(metric)
    if unit in _METRIC_DURATIONS:
        return parse_duration(text) / _METRIC_DURATIONS[unit]
    if unit in _METRIC_RATES:
        return parse_rate(text) / _METRIC_RATES[unit]
    if unit == "percent" and text != 0:
        return parse_percent(text)
    if isinstance(text, bool) or not isinstance(text, int | float) or text < 0:
        raise ValueError(f"{metric} is a number without a unit, such as `100`; got {text!r}")
    return float(text)


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["32 KiB", "146 GB"]}),
]
"""Bytes, written with a unit."""

Rate = Annotated[
    int,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["1 Gbit/s", "117 MB/s"]}),
]
"""Bits per second, written with a unit."""

Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30 s", "3 min"]}),
]
"""Nanoseconds, written with a unit."""

Percent = Annotated[
    float,
    BeforeValidator(parse_percent),
    PlainSerializer(format_percent, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["3 %"]}),
]
"""Percent, written with `%`."""
