"""Merging histograms and reading percentiles."""

from __future__ import annotations

import math

import pytest
from hakaru.analysis.latency import curve, empty, merge, percentiles_ms, total_ns
from hakaru.errors import UsageError
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

latencies = st.lists(st.integers(1, 10**11), min_size=1, max_size=40)


def encoded(values: list[int]) -> str:
    return encoded_in(empty(), values)


def encoded_in(hdr: HdrHistogram, values: list[int]) -> str:
    for value in values:
        hdr.record_value(value)
    return str(hdr.encode().decode())


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(latencies, min_size=1, max_size=4))
def test_merge_of_tightly_sized_histograms_equals_hdrhistogram_add(parts: list[list[int]]) -> None:
    texts = [encoded_in(HdrHistogram(1, max(2, *values), 3), values) for values in parts]
    expected = empty()
    for text in texts:
        expected.add(HdrHistogram.decode(text))
    merged = merge(texts)
    assert list(merged.counts) == list(expected.counts)
    for method in ("get_total_count", "get_min_value", "get_max_value"):
        assert getattr(merged, method)() == getattr(expected, method)()


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(latencies, min_size=1, max_size=4), st.randoms())
def test_order_of_merging_does_not_matter(parts: list[list[int]], random: object) -> None:
    texts = [encoded(p) for p in parts]
    shuffled = list(texts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    percents = [50.0, 99.0, 100.0]
    assert percentiles_ms(merge(texts), percents) == percentiles_ms(merge(shuffled), percents)
    assert merge(texts).get_total_count() == sum(map(len, parts))


@settings(max_examples=settings().max_examples // 3)
@given(latencies, st.lists(st.floats(0.001, 99.999), min_size=1, max_size=5))
def test_percentiles_equal_those_of_hdrhistogram(values: list[int], percents: list[float]) -> None:
    hdr = merge([encoded(values)])
    assert percentiles_ms(hdr, percents) == [
        min(hdr.get_value_at_percentile(p), hdr.get_max_value()) / 1e6 for p in percents
    ]


@settings(max_examples=settings().max_examples // 3)
@given(latencies)
def test_total_equals_that_of_hdrhistogram(values: list[int]) -> None:
    hdr = merge([encoded(values)])
    assert total_ns(hdr) == pytest.approx(hdr.get_mean_value() * len(values))
    assert total_ns(empty()) == 0


def test_histograms_of_different_ranges_merge() -> None:
    other = HdrHistogram(1, 60_000_000, 2)
    other.record_value(5_000_000, 10)
    merged = merge([str(other.encode().decode()), encoded([5_000_000] * 10)])
    assert merged.get_total_count() == 20
    assert percentiles_ms(merged, [50.0])[0] == pytest.approx(5, rel=0.02)


def test_empty_histogram_has_no_percentile() -> None:
    assert all(math.isnan(v) for v in percentiles_ms(empty(), [50.0, 100.0]))
    assert curve(empty()) == []


@pytest.mark.parametrize("text", ["", "%%%", "SGVsbG8=", "HISTFAAAAB542pNpmSzMwMDAxAABzFCaEUzW2AAAbgoDGA=="[:20]])
def test_invalid_histogram_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="histogram"):
        merge([text])
