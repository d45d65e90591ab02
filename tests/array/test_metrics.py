"""`/metrics`: every counter of a sample, named, typed and documented by Prometheus conventions."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hakaru.array.metrics import documented, families, prometheus_name
from hakaru.array.rates import rates
from hakaru.engine.contract import Sample
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.array.serving import TARGET_NAME, array_file, json_of, served
from tests.peers.array import need, run

MODELLED = """\
model: {kind: preset, name: jdsf-2011}
lus:
  - {lun: 0, size: 64 MiB, store: {kind: memory}, placement: {group: 0}}
"""

THIN = """\
pools:
  - {name: main, groups: [{name: g0, size: 8 MiB}]}
lus:
  - {lun: 0, size: 64 MiB, store: {kind: thin, pool: main}}
"""
EXPECTED = [
    (
        MODELLED,
        "hakaru_array_drive_busy_seconds",
        [{"group": str(g), "drive": str(d)} for g in (0, 1) for d in range(5)],
    ),
    (THIN, "hakaru_array_pool_capacity_bytes", [{"pool": "main"}]),
    (THIN, "hakaru_array_lu_mapped_bytes", [{"lun": "0"}]),
]


def scrape(url: str) -> dict[str, Metric]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def scrape_counted(url: str) -> dict[str, Metric]:
    """Scrape until the first sample has arrived."""
    deadline = time.monotonic() + 60
    while "hakaru_array_logins" not in (scraped := scrape(url)):
        assert time.monotonic() < deadline, "no sample came"
        time.sleep(0.05)
    return scraped


@pytest.mark.parametrize(
    ("entity", "name", "metric", "labels", "gauge", "scale"),
    [
        ("lu/12", "read_bytes", "lu_read_bytes", {"lun": "12"}, False, 1),
        ("drive/0.13", "busy_ns", "drive_busy_seconds", {"group": "0", "drive": "13"}, False, 1e-9),
        ("sessions", "sessions_now", "sessions", {}, True, 1),
        ("process", "rss_bytes_now", "process_rss_bytes", {}, True, 1),
        ("pool/main", "used_bytes_now", "pool_used_bytes", {"pool": "main"}, True, 1),
        ("cache", "write_pending_percent_now", "cache_write_pending_ratio", {}, True, 0.01),
        ("vms", "read_latency_ns_sum", "vms_read_latency_seconds_sum", {}, False, 1e-9),
    ],
)
def test_counter_names_follow_prometheus_conventions(
    entity: str, name: str, metric: str, labels: dict[str, str], gauge: bool, scale: float
) -> None:
    named = prometheus_name(entity, name)
    assert named.metric == f"hakaru_array_{metric}"
    assert dict(named.labels) == labels
    assert (named.gauge, named.scale) == (gauge, scale)


def test_one_family_has_all_entities_of_a_kind() -> None:
    sample = Sample(at_ns=1, counters={"lu/0": {"reads": 1.0}, "lu/1": {"reads": 2.0}, "lu/2": {"busy_ns": 3e9}})
    by_name = {family.name: family for family in families(sample)}
    reads = by_name["hakaru_array_lu_reads"]
    assert [(s.name, s.labels, s.value) for s in reads.samples] == [
        ("hakaru_array_lu_reads_total", {"lun": "0"}, 1.0),
        ("hakaru_array_lu_reads_total", {"lun": "1"}, 2.0),
    ]
    assert by_name["hakaru_array_lu_busy_seconds"].samples[0].value == pytest.approx(3.0)


@pytest.mark.parametrize(("rest", "metric", "labels"), EXPECTED, ids=[metric for _, metric, _ in EXPECTED])
def test_metrics_of_a_real_array_are_parsed_typed_and_documented(
    tmp_path: Path, rest: str, metric: str, labels: list[dict[str, str]]
) -> None:
    with served(array_file(tmp_path, rest), "--metrics", "127.0.0.1:0") as array:
        scraped = scrape_counted(array.ready["metrics"])
        assert scraped["hakaru_array_info"].samples[0].labels["target_name"] == TARGET_NAME
        assert scraped["hakaru_array_sample_age_seconds"].samples[0].value < 60
        meanings = set(documented().values())
        for name, family in scraped.items():
            assert family.type in ("counter", "gauge"), name
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
            if name not in ("hakaru_array_info", "hakaru_array_sample_age_seconds"):
                assert family.documentation in meanings, f"{name} is not explained by docs/reference/metrics.md"
        assert [sample.labels for sample in scraped[metric].samples] == labels


def test_metrics_equal_the_counters_of_status(tmp_path: Path) -> None:
    iscsi_inq = need("iscsi-inq", "libiscsi-bin")
    with served(array_file(tmp_path, sample_interval="100 ms"), "--metrics", "127.0.0.1:0") as array:
        run(iscsi_inq, array.url())
        deadline = time.monotonic() + 60
        # A sample between the two has the login only.
        while scrape_counted(array.ready["metrics"])["hakaru_array_logouts"].samples[0].value < 1:
            assert time.monotonic() < deadline, "the logout was not counted"
            time.sleep(0.05)
        status = json_of("array", "status", array.file)
        scraped = scrape(array.ready["metrics"])
        for name in ("logins", "logouts"):
            assert scraped[f"hakaru_array_{name}"].samples[0].value == status["counters"]["sessions"][name] == 1


def test_server_offers_only_metrics_and_only_reads(tmp_path: Path) -> None:
    with served(array_file(tmp_path, metrics='"[::1]:0"')) as array:
        url = array.ready["metrics"]
        assert url.startswith("http://[::1]:")
        for address, data, code in ((url + "/x", None, 404), (url[: -len("metrics")], None, 404), (url, b"x", 405)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address, data, timeout=60)
            assert refused.value.code == code
            refused.value.close()


def test_silent_client_does_not_block_others(tmp_path: Path) -> None:
    with served(array_file(tmp_path), "--metrics", "127.0.0.1:0") as array:
        host, port = re.findall(r"//(.*):(\d+)/", array.ready["metrics"])[0]
        silent = http.client.HTTPConnection(host, int(port), timeout=60)
        silent.connect()
        assert scrape(array.ready["metrics"])
        assert silent.sock.recv(1) == b"", "the server closes the connection"
        silent.close()


def test_rates_follow_from_two_samples() -> None:
    before = Sample(at_ns=0, counters={"drive/0.0": {"ops": 10.0, "busy_ns": 0.0, "queue_ns": 0.0, "service_ns": 0.0}})
    now = Sample(
        at_ns=2_000_000_000,
        counters={
            "drive/0.0": {"ops": 210.0, "busy_ns": 1e9, "queue_ns": 8e9, "service_ns": 1e9},
            "lu/0": {"reads": 6.0, "mapped_bytes_now": 5.0},
        },
    )
    assert rates(before, now) == {
        "drive/0.0": {"ops_per_s": 100.0, "busy_percent": 50.0, "queue": 4.0, "service_ms": 5.0},
        "lu/0": {"reads_per_s": 3.0},
    }
    assert rates(None, now) == rates(now, now) == {}


def test_part_of_a_device_that_is_the_busiest_is_its_busy_time() -> None:
    busy = {"busy_ns": 1e9, "receive_busy_ns": 0.0, "send_busy_ns": 2e8}
    before, now = (
        Sample(at_ns=at, counters={"port/0": {name: factor * value for name, value in busy.items()}})
        for at, factor in ((0, 0.0), (1_000_000_000, 1.0))
    )
    assert rates(before, now)["port/0"]["busy_percent"] == pytest.approx(20)
