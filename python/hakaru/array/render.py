"""Tables and sentences of `hakaru array`, made from the JSON that the control socket returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from hakaru.output import print_text
from hakaru.terminal import new_console
from hakaru.translation import shown
from hakaru.units import format_size
from hakaru.wording import number

Json = dict[str, Any]

# Parts of a modelled array, in the order in which a request passes them.
STATIONS = ("port", "controller", "cache", "group", "drive")


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON on stdout, and flush."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def printable(text: str) -> str:
    """Return `text` with unprintable characters escaped, so that it cannot control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def serving(about: Json) -> list[str]:
    """Lines for the operator who starts an array."""
    lines = [f"target {about['target_name']} on {', '.join(about['portals'])}, process {about['pid']}"]
    lines += [f"LU {lu['lun']}: {lu_summary(lu)}" for lu in about["lus"]]
    lines.append(f"state in {about['state']}")
    if about["metrics"]:
        lines.append(f"metrics at {about['metrics']}")
    lines.append("Ctrl-C stops it")
    first, *inner, last = (printable(shown(line)) for line in lines)
    return [first, *(f"  {line}" for line in inner), last]


def lu_summary(lu: Json) -> str:
    """Size, store and properties of an LU: `64 GiB, fast/db, read-only`."""
    words = [format_size(lu["size_bytes"]), lu["store"]]
    if lu["read_only"]:
        words.append("read-only")
    if not lu["declared"]:
        words.append("created online")
    return ", ".join(words)


def print_status(status: Json) -> None:
    """Print the state of the array: sessions, LUs, pools, and the utilisation of modelled parts."""
    console = new_console()
    sessions = status["counters"].get("sessions", {})
    print_text(f"target {status['target_name']} on {', '.join(_portal(port) for port in status['ports'])}")
    counts = f"{sessions.get('sessions_now', 0):.0f} sessions on {sessions.get('connections_now', 0):.0f} connections"
    print_text(f"up {span(status['uptime_s'])}, {counts}, process {status['pid']}")
    if status["metrics"]:
        print_text(f"metrics at {status['metrics']}")
    console.print(_lus(status))
    if status["pools"]:
        console.print(_pools(status["pools"]))
        console.print(_volumes(status["pools"]))
        for pool in status["pools"]:
            for sentence in complaints(pool):
                print(printable(shown(sentence)))
    if "cache" in status["rates"]:
        print_text(cache_summary(status["rates"]["cache"], status["counters"]["cache"]))
    busy = [entity for entity in status["rates"] if entity.partition("/")[0] in STATIONS]
    busy = [entity for entity in busy if "busy_percent" in status["rates"][entity]]
    if busy:
        console.print(_stations(status, sorted(busy, key=_order)))


def complaints(pool: Json) -> list[str]:
    """Conditions that need an operator's attention."""
    lines = []
    if pool["read_only"]:
        lines.append(
            f"pool {pool['name']} is read-only, because its storage failed: look at the output of `serve`, then restart"
        )
    if not pool["free_bytes"]:
        lines.append(f"pool {pool['name']} is full: grow it, or delete what is not needed")
    elif pool["used_bytes"] >= pool["threshold_bytes"]:
        lines.append(f"pool {pool['name']} is past its threshold of {rounded(pool['threshold_bytes'])}")
    if pool["metadata_is_low"]:
        lines.append(f"pool {pool['name']} has little room for metadata left: delete what is not needed")
    if pool["lost_bytes"]:
        lines.append(f"pool {pool['name']} could not reclaim {rounded(pool['lost_bytes'])}; a restart reclaims them")
    return lines


def cache_summary(rates: Json, counters: Json) -> str:
    """Hits since the last sample, and the dirty data as a share of the write-pending limit."""
    reads = rates["read_hits_per_s"] + rates["read_misses_per_s"]
    hits = "no reads" if not reads else f"{rates['read_hits_per_s'] / reads:.0%} of reads hit"
    limit = counters["write_pending_limit_bytes_now"]
    pending = f"{counters['write_pending_bytes_now'] / limit:.0%} write-pending" if limit else "write-through"
    return f"cache: {hits}, {pending}, {number(rates['stalls_per_s'])} stalls/s"


def _portal(port: Json) -> str:
    optimized = port["state"] == "optimized"
    return str(port["address"]) if optimized else f"{port['address']} ({port['state']})"


def _lus(status: Json) -> Table:
    rows = []
    for lu in status["lus"]:
        entity = f"lu/{lu['lun']}"
        now, mapped = status["rates"].get(entity, {}), status["counters"].get(entity, {}).get("mapped_bytes_now")
        rows.append(
            (
                str(lu["lun"]),
                format_size(lu["size_bytes"]),
                "–" if mapped is None else rounded(mapped),
                lu["store"] + (" (read-only)" if lu["read_only"] else ""),
                *(number(now.get(f"{name}_per_s")) for name in ("reads", "writes")),
                *(_megabytes(now.get(f"{name}_bytes_per_s")) for name in ("read", "write")),
            )
        )
    return table(("LUN", "size", "mapped", "store", "reads/s", "writes/s", "MB/s rd", "MB/s wr"), rows, left=(3,))


def _pools(pools: Sequence[Json]) -> Table:
    rows = []
    for pool in pools:
        share = pool["used_bytes"] / pool["capacity_bytes"] if pool["capacity_bytes"] else 0.0
        sizes = [rounded(pool[f"{name}_bytes"]) for name in ("capacity", "used", "free")]
        promised = f"{number(pool['overcommit'])} x"
        rows.append((pool["name"], *sizes, f"{share:.0%}", promised, str(len(pool["groups"]))))
    return table(("pool", "capacity", "used", "free", "filled", "promised", "groups"), rows, left=(0,))


def _volumes(pools: Sequence[Json]) -> Table:
    rows = []
    for pool in pools:
        for volume in pool["volumes"]:
            rows.append(
                (
                    f"{pool['name']}/{volume['name']}",
                    format_size(volume["size_bytes"]),
                    rounded(volume["mapped_bytes"]),
                    rounded(volume["exclusive_bytes"]),
                    "–" if volume["quota_bytes"] is None else format_size(volume["quota_bytes"]),
                    ", ".join(map(str, volume["luns"])) or "–",
                    volume["origin"] or "",
                )
            )
    return table(("volume", "size", "mapped", "own", "quota", "LUN", "copy of"), rows, left=(0, 6))


def rounded(size_bytes: float) -> str:
    """Format a size with three digits: `11.7 GiB`. `--json` has the exact bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{number(size_bytes)} {unit}"
        size_bytes /= 1024
    return f"{number(size_bytes)} TiB"


def _stations(status: Json, entities: Sequence[str]) -> Table:
    rows = []
    for entity in entities:
        now = status["rates"][entity]
        rows.append(
            (
                entity,
                f"{now['busy_percent']:.0f} %",
                number(now["queue"]),
                number(now["service_ms"]),
                *(number(now.get(f"{name}_per_s")) for name in ("reads", "writes")),
            )
        )
    return table(("part", "busy", "queue", "service ms", "reads/s", "writes/s"), rows, left=(0,))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> Table:
    """Return a table in the style of every command. Columns in `left` are text, the others
    numbers.
    """
    new_table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, title in enumerate(titles):
        new_table.add_column(shown(title), justify="left" if i in left else "right", overflow="fold")
    for row in rows:
        new_table.add_row(*(printable(cell) for cell in row))
    return new_table


def span(seconds: float) -> str:
    """Format a duration with at most two units: `3 h 12 min`."""
    for unit, size, below, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit} {rest // part} {below}"
    return f"{int(seconds)} s"


def _megabytes(bytes_per_s: float | None) -> str:
    return number(None if bytes_per_s is None else bytes_per_s / 1e6)


def _order(entity: str) -> tuple[int, list[int]]:
    kind, _, instance = entity.partition("/")
    return STATIONS.index(kind), [int(part) for part in instance.split(".") if part.isdigit()]
