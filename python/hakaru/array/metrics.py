"""The engine's counters in the form of Prometheus.

A counter of `docs/reference/metrics.md` becomes one metric by these rules, and its meaning there
becomes HELP:

- `hakaru_array_` + entity + name. The numbers of an entity become labels: `drive/0.3` →
  `{group="0",drive="3"}`. The entity `sessions` does not appear in the name
  (`hakaru_array_logins_total`).
- a name that ends in `_now` is a gauge without that ending; any other is a counter in `_total`
- nanoseconds become seconds and per cent become ratios, because Prometheus uses base units

Served by `Exporter` on a thread of its own, from the last sample: a scrape costs the engine
nothing.
"""

from __future__ import annotations

import contextlib
import functools
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer

from hakaru.array.consistency import split_address
from hakaru.engine import clock
from hakaru.engine.contract import Sample
from hakaru.errors import EnvironmentError_
from hakaru.study.load import shipped

PREFIX = "hakaru_array_"
# A scraper that sends no request within this time is cut off.
SCRAPE_S = 10.0

_LABELS = {
    "lu": "lun",
    "port": "port",
    "group": "group",
    "pool": "pool",
    "cap": "cap",
    "share": "share",
    "cpu": "cpu",
    "tape": "drive",
}
_NAMELESS = ("sessions",)


@dataclass(frozen=True)
class Name:
    """The name of a counter in Prometheus."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    gauge: bool
    scale: float


@functools.cache
def prometheus_name(entity: str, name: str) -> Name:
    """Name of a counter: `lu/0`, `read_bytes` → `hakaru_array_lu_read_bytes`, `lun="0"`. The
    library adds `_total` to counters.
    """
    kind, _, instance = entity.partition("/")
    base, scale = name.removesuffix("_now"), 1.0
    if base.endswith("_ns") or base.endswith("_ns_sum"):
        base, scale = re.sub(r"_ns(_sum)?$", r"_seconds\1", base), 1e-9
    elif base.endswith("_percent"):
        base, scale = base.removesuffix("_percent") + "_ratio", 1e-2
    words = [base] if kind in _NAMELESS else [kind, base]
    metric = PREFIX + re.sub(r"[^a-zA-Z0-9_]", "_", "_".join(words))
    return Name(metric, _labels(kind, instance), name.endswith("_now"), scale)


def _labels(kind: str, instance: str) -> tuple[tuple[str, str], ...]:
    if kind == "drive":
        group, _, drive = instance.partition(".")
        return ("group", group), ("drive", drive)
    return ((_LABELS.get(kind, "name"), instance),) if instance else ()


def families(sample: Sample) -> list[Metric]:
    """Every counter of a sample, one family per name, in the order of their names."""
    meanings = documented()
    by_metric: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for entity, names in sample.counters.items():
        for name, value in names.items():
            named = prometheus_name(entity, name)
            family = by_metric.get(named.metric)
            if family is None:
                text = meanings.get((entity.partition("/")[0], name), f"{name} of {entity.partition('/')[0]}")
                family_type = GaugeMetricFamily if named.gauge else CounterMetricFamily
                family = family_type(named.metric, text, labels=[label for label, _ in named.labels])
                by_metric[named.metric] = family
            family.add_metric([label_value for _, label_value in named.labels], value * named.scale)
    return [by_metric[metric] for metric in sorted(by_metric)]


@functools.cache
def documented() -> dict[tuple[str, str], str]:
    """(Kind of entity, name) → meaning in `docs/reference/metrics.md`, without markup."""
    page = (shipped("docs") / "reference" / "metrics.md").read_text()
    meanings: dict[tuple[str, str], str] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 4:
            continue
        for entity in re.findall(r"`([^`]+)`", cells[0]):
            meaning = cells[3].replace("`", "").replace(r"\|", "|")
            meanings[entity.partition("/")[0], cells[1].strip("`")] = meaning
    return meanings


class Exporter:
    """A collector for a Prometheus registry that exports the newest sample."""

    def __init__(self, target_name: str, version: str, newest: Callable[[], Sample | None]) -> None:
        self._about = {"target_name": target_name, "version": version}
        self._newest = newest

    def collect(self) -> Iterable[Metric]:
        """The metrics of one scrape."""
        yield InfoMetricFamily("hakaru_array", "The array that is served", value=self._about)
        sample = self._newest()
        if sample is not None:
            age_s = (clock.now_ns() - sample.at_ns) / 1e9
            help_ = "Time since the counters were read; it grows beyond the sample interval if the engine is stuck"
            yield GaugeMetricFamily(f"{PREFIX}sample_age_seconds", help_, value=age_s)
            yield from families(sample)


@contextlib.contextmanager
def exporting(address: str, exporter: Exporter) -> Iterator[str]:
    """Serve `/metrics` on `address` while the block runs. Yields the URL, with the bound port."""
    host, port = split_address(address)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    try:
        server = _Server((str(host), port), host.version, _only_metrics(make_wsgi_app(registry)))
    except OSError as e:
        raise EnvironmentError_(
            f"cannot serve metrics on {address}: {e.strerror or e}", "choose an address of this machine and a free port"
        ) from e
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    host_text = f"[{host}]" if host.version == 6 else str(host)
    try:
        yield f"http://{host_text}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _only_metrics(app: Callable[..., Any]) -> Callable[..., Any]:
    """Return an application that serves `app` under /metrics, and 404 for other paths."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("PATH_INFO") == "/metrics":
            return app(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"metrics are at /metrics\n"]

    return answer


class _Handler(WSGIRequestHandler):
    """Logs nothing, and disconnects silent clients."""

    timeout = SCRAPE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because scrapes are routine."""


class _Server(ThreadingWSGIServer):
    """The library's server for IPv4 and IPv6, without a look-up of this host's name."""

    def __init__(self, address: tuple[str, int], version: int, app: Callable[..., Any]) -> None:
        self.address_family = socket.AF_INET6 if version == 6 else socket.AF_INET
        super().__init__(address, _Handler)
        self.set_app(app)

    def server_bind(self) -> None:
        """Bind the socket without the name look-up of `HTTPServer`."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()
