"""Quantities with units."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hakaru import units
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

Parse = Callable[[object], int]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_size, "32 KiB", 32 * 1024),
        (units.parse_size, "146 GB", 146_000_000_000),
        (units.parse_size, "512B", 512),
        (units.parse_size, "1.5 MiB", 1_572_864),
        (units.parse_size, 0, 0),
        (units.parse_rate, "1 Gbit/s", 10**9),
        (units.parse_rate, "2.5 Gbit/s", 2_500_000_000),
        (units.parse_rate, "117 MB/s", 936_000_000),
        (units.parse_rate, "1 MiB/s", 8_388_608),
        (units.parse_duration, "3 min", 180 * 10**9),
        (units.parse_duration, "500 ms", 500_000_000),
        (units.parse_duration, "20 µs", 20_000),
        (units.parse_duration, "20 us", 20_000),
    ],
)
def test_quantities_are_parsed_exactly(parse: Parse, text: object, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_size, 32, "needs a unit"),
        (units.parse_size, True, "needs a unit"),
        (units.parse_size, "32", "a number and a unit"),
        (units.parse_size, "-1 KiB", "cannot be negative"),
        (units.parse_size, "KiB", "a number and a unit"),
        (units.parse_size, "32 kib", "no unit 'kib'"),
        (units.parse_size, "1 Gb", "no unit 'Gb'"),
        (units.parse_size, "1 Gbit/s", "no unit 'Gbit/s'"),
        (units.parse_size, "0.3 B", "not a whole number of B"),
        (units.parse_size, "9e99 TiB", "too large"),
        (units.parse_size, "१ KiB", "a number and a unit"),
        (units.parse_rate, "1 Gbps", "no unit 'Gbps'"),
        (units.parse_duration, "3 minutes", "no unit 'minutes'"),
        (units.parse_duration, None, "needs a unit"),
    ],
)
def test_invalid_quantity_is_refused_with_a_correction(parse: Parse, text: object, message: str) -> None:
    with pytest.raises(ValueError, match=r"such as|use one of|did you mean|whole number|the maximum is") as refused:
        parse(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.format_size(32 * 1024), "32 KiB"),
        (units.format_size(146_000_000_000), "146 GB"),
        (units.format_size(1000), "1 kB"),
        (units.format_size(513), "513 B"),
        (units.format_rate(10**9), "1 Gbit/s"),
        (units.format_rate(2_500_000_000), "2.5 Gbit/s"),
        (units.format_duration(180 * 10**9), "3 min"),
        (units.format_duration(90 * 10**9), "1.5 min"),
        (units.format_duration(1500), "1.5 us"),
    ],
)
def test_quantities_are_formatted_in_usual_units(shown: str, text: str) -> None:
    assert shown == text


@given(st.integers(0, 2**62))
def test_formatted_quantity_parses_to_the_same_value(value: int) -> None:
    assert units.parse_size(units.format_size(value)) == value
    assert units.parse_rate(units.format_rate(value)) == value
    assert units.parse_duration(units.format_duration(value)) == value


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (units.parse_size, units.parse_rate, units.parse_duration):
        try:
            assert parse(text) >= 0
        except ValueError:
            continue


def test_a_model_keeps_integers_and_dumps_text() -> None:
    class Volume(BaseModel):
        size: units.Size

    assert Volume.model_validate({"size": "32 KiB"}).size == 32_768
    assert Volume.model_validate({"size": "32 KiB"}).model_dump() == {"size": "32 KiB"}
    with pytest.raises(ValidationError, match="needs a unit"):
        Volume.model_validate({"size": 32_768})


@pytest.mark.parametrize(
    ("parse", "text", "meant"),
    [
        (units.parse_rate, "1 Gbps", "`1 Gbit/s`"),
        (units.parse_rate, "100 mbps", "`100 Mbit/s`"),
        (units.parse_rate, "100 MBps", "`100 MB/s` or `100 MiB/s`"),
        (units.parse_size, "8k", "`8 kB` or `8 KiB`"),
        (units.parse_size, "8 KB", "`8 kB` or `8 KiB`"),
        (units.parse_size, "32 kib", "`32 KiB`"),
        (units.parse_size, "1 G", "`1 GB` or `1 GiB`"),
        (units.parse_duration, "3 sec", "`3 s`"),
        (units.parse_duration, "3 m", "`3 min`"),
    ],
)
def test_misspelt_unit_is_refused_with_the_right_one(parse: Parse, text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"did you mean {meant}\?$"):
        parse(text)


@pytest.mark.parametrize(
    ("written", "value", "shown"),
    [("65 TiB", 1 << 46, "64 TiB"), ("500 ms", 10**9, "1 s"), ("1 Gbit/s", 10**7, "10 Mbit/s"), ("abc", 1, None)],
)
def test_bound_is_shown_in_the_kind_of_unit_of_the_input(written: str, value: int, shown: str | None) -> None:
    assert units.format_as(written, value) == shown


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (999.6, "1 µs"),
        (1_234_567, "1.23 ms"),
        (999_600_000, "1 s"),
        (754_321_000_000, "754 s"),
        (5_260_000_000, "5.26 s"),
    ],
)
def test_measured_durations_have_three_digits_and_the_largest_unit(ns: float, text: str) -> None:
    assert units.approximate_duration(ns) == text


@pytest.mark.parametrize("value", [3.0, 0.1, 100.0, 1e-6, 100 / 3])
def test_percentages_are_written_without_loss(value: float) -> None:
    assert units.parse_percent(units.format_percent(value)) == value
