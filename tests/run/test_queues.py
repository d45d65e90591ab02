"""Live lengths of queues, from samples of engines."""

from __future__ import annotations

from hakaru.engine.contract import Sample
from hakaru.run.queues import QueueMeter


def sample(at_s: float, **counters: dict[str, float]) -> Sample:
    named = {entity.replace("__", "/"): values for entity, values in counters.items()}
    return Sample(at_ns=int(at_s * 1e9), counters=named)


def test_growth_of_an_integral_is_the_mean_number_present_summed_over_nodes_and_drives() -> None:
    meter = QueueMeter()
    for node, drives in (("array-1", 2), ("array-2", 3)):
        at_start = {f"drive__0.{n}": {"queue_ns": 5e9} for n in range(drives)}
        # Each drive has 4 requests present for half of the two seconds.
        at_end = {f"drive__0.{n}": {"queue_ns": 9e9} for n in range(drives)}
        meter.add(node, sample(1, **at_start))
        meter.add(node, sample(3, **at_end))
    assert meter.lengths() == {"drives": 10.0}


def test_queues_follow_the_path_of_a_request_and_vms_count_once() -> None:
    meter = QueueMeter()
    for at_s, ns in ((0, 0.0), (1, 2e9)):
        vms = {"in_flight_now": 7.0, "guest_queued_ns": ns, "host_queued_ns": ns / 2}
        meter.add("host-1", sample(at_s, vms=vms, vm__a=vms))
        meter.add("array", sample(at_s, port__0={"queue_ns": ns}, controller={"queue_ns": ns}))
    assert list(meter.lengths().items()) == [
        ("in_flight", 7.0),
        ("guests", 2.0),
        ("hosts", 1.0),
        ("port", 2.0),
        ("controller", 2.0),
    ]


def test_the_longest_queue_of_a_link_counts() -> None:
    meter = QueueMeter()
    links = {"link__a__x": {"queue_bytes_now": 9000.0}, "link__b__x": {"queue_bytes_now": 1500.0}}
    meter.add("switch", sample(1, **links))
    assert meter.lengths() == {"link_bytes": 9000.0}


def test_drives_that_are_sampled_more_often_than_their_array_have_a_newer_length() -> None:
    meter = QueueMeter()
    meter.add("array", sample(0, drive__0={"queue_ns": 0.0}, controller={"queue_ns": 0.0}))
    meter.add("array", sample(10, drive__0={"queue_ns": 20e9}, controller={"queue_ns": 10e9}))
    assert meter.lengths() == {"controller": 1.0, "drives": 2.0}
    for at_s, ns in ((10.2, 21e9), (10.4, 22e9)):
        meter.add("array", sample(at_s, drive__0={"queue_ns": ns}))
    assert meter.lengths() == {"controller": 1.0, "drives": 5.0}
