"""The report of loads on files: table for the terminal, figures, tables, method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hakaru.kinds.files import figures, names, tables
from hakaru.kinds.files.load import FilesLoad, approximate_bytes, load_at
from hakaru.kinds.files.mixes import UsersSpec
from hakaru.lab.plan import LabPlan
from hakaru.report import intervals
from hakaru.report.blocks import Group, Table
from hakaru.report.kind import ReportKind, TerminalTable
from hakaru.study import Study
from hakaru.study.model import Measure
from hakaru.units import format_duration, format_size
from hakaru.wording import number, percent, say, tenths

Json = dict[str, Any]
COLUMNS = ("files/s", "±", "MB/s", "read MB/s", "write MB/s", "p99 ms", "CPU", "bottleneck")


class FilesReport(ReportKind):
    """The part of the kind `files` that reports use."""

    def table(self, summary: Json) -> TerminalTable:
        """Rates, the time of the slowest kind of whole file, CPU, bottleneck."""
        return TerminalTable(COLUMNS, [_cells(point) for point in summary["points"]])

    def chief_findings(self, summary: Json) -> list[Json]:
        """Differences between chains and between file servers, the peaks, and the bottleneck there;
        all findings without a sweep.
        """
        peaks = [finding for finding in summary["findings"] if finding["kind"] == "peak"]
        at_peak = _peaks(summary)
        limits = [f for f in summary["findings"] if f["kind"] == "limiter" and f["where"] in at_peak]
        differences = [finding for finding in summary["findings"] if finding["kind"] in ("difference", "servers")]
        return [*differences, *peaks, *limits] if peaks else list(summary["findings"])

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The fastest point: files and bytes per second, and its bottleneck."""
        measured = [p for p in summary["points"] if p["metrics"][names.RATE]["mean"] is not None]
        if not measured:
            return []
        best = max(measured, key=lambda p: p["metrics"][names.RATE]["mean"])
        rates = [
            {
                "title": say(language, f"tile.files.{metric}"),
                "value": say(
                    language, f"tile.files.{metric}.value", {"rate": number(best["metrics"][metric]["mean"], language)}
                ),
                "small": figures.label(best, language),
            }
            for metric in (names.RATE, "mb_per_s")
        ]
        limit = {
            "title": say(language, "tile.files.limits"),
            "value": say(language, f"limiter.{best['limiter']}"),
            "small": "",
        }
        return [*rates, limit]

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """The trees, the tools and the destination."""
        load = load_at(study)
        values = {
            "trees": load.tree.trees,
            "targets": load.tree.targets,
            "folders": load.tree.folders,
            "depth": load.tree.depth,
            "size": format_size(approximate_bytes(load)),
            "read": load.mix.read,
        }
        texts = [say(language, "method.files", values)]
        texts += [say(language, f"method.files.{load.profile}", values)] if load.users is None else []
        # The points may differ in the mix and in the times.
        every = [load_at(study.at(point["factors"])) for point in summary["points"]] or [load]
        texts += dict.fromkeys(
            text for each in every if each.users is not None for text in _users(each.users, language)
        )
        if study.measure.time is not None:
            texts.append(_times(study.measure, language))
        if any(each.repeat for each in every):
            texts.append(say(language, "method.files.repeat"))
        texts.append(
            say(language, "method.files.sampled", {"interval": intervals.in_words(study.measure.intervals, language)})
        )
        # A study may have points of both kinds.
        loads = every
        if chains := [load for load in loads if load.to.chain is not None]:
            texts.append(say(language, "method.files.chain"))
            served = dict.fromkeys("guest" if load.to.smb is None else "smb" for load in chains)
            texts += [say(language, f"method.files.chain.{where}") for where in served]
            texts.append(say(language, "method.files.chain.layers"))
        if directories := [load for load in loads if load.to.directory is not None]:
            texts.append(say(language, "method.files.directory"))
            texts += [
                say(language, f"method.files.{state}")
                for state in dict.fromkeys("cold" if load.cold else "warm" for load in directories)
            ]
        # Without a plan, the server is that of a site.
        texts += _sessions([load for load in loads if load.to.smb is not None], language, is_site=plan is None)
        shared = [load for load in loads if load.servers * load.clients > 1]
        for count in dict.fromkeys((load.servers, load.clients) for load in shared):
            texts.append(say(language, "method.files.servers", {"servers": count[0], "clients": count[1]}))
        if any(load.cold and load.to.directory is None for load in loads):
            texts.append(say(language, "method.files.cold.server"))
        if any(load.cold and load.repeat for load in loads):
            texts.append(say(language, "method.files.cold.repeat"))
        return texts

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Rates against the number of tools, and the shares of the operations."""
        return [Group(figures.of_run(summary, language))]

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Tables of rates and of times."""
        return tables.of_run(summary, letters, language)

    def about_tables(self, summary: Json, language: str) -> str:
        """Meaning of the columns."""
        return say(language, "table.files")


def _users(users: UsersSpec, language: str) -> list[str]:
    """The operations of users, and the times between them."""
    weights, total = users.weights, sum(users.weights.values())
    listed = say(language, "list.separator").join(
        say(language, "method.files.users.share", {"operation": say(language, f"operation.{name}"), "percent": share})
        for name, share in ((name, tenths(100 * weight / total, language)) for name, weight in weights.items())
    )
    texts = [say(language, "method.files.users", {"mix": listed})]
    if users.rate is not None:
        texts.append(say(language, "method.files.users.rate", {"rate": number(users.rate, language)}))
    else:
        texts.append(say(language, "method.files.users.think", {"think": format_duration(users.think)}))
    if isinstance(users.mix, str):
        texts.append(say(language, f"method.files.users.{users.mix}"))
    return texts


def _times(measure: Measure, language: str) -> str:
    """How a load with a measuring time is measured."""
    times: dict[str, Any] = {
        "warmup": format_duration(measure.warmup_least_ns),
        "warmup_most": format_duration(measure.warmup_most_ns),
        "time": format_duration(measure.time_ns),
    }
    if (steady := measure.steady) is not None:
        times |= {"range": steady.range, "drift": steady.drift}
        return say(language, "method.files.time.steady", times)
    return say(language, "method.files.time.warmed" if measure.warmup_ns else "method.files.time", times)


def _sessions(loads: Sequence[FilesLoad], language: str, *, is_site: bool) -> list[str]:
    """The sessions of loads over SMB, and the size of requests if it is less than a block. The
    limits of a site's server are not known here.
    """
    sessions = [smb for load in loads if (smb := load.to.smb) is not None]
    if not sessions:
        return []

    def listed(values: Iterable[str]) -> str:
        return say(language, "list.separator").join(dict.fromkeys(values))

    values = {
        "dialect": listed(smb.dialect for smb in sessions),
        "credits": listed(str(smb.credits) for smb in sessions),
    }
    texts = [say(language, "method.files.smb.site" if is_site else "method.files.smb", values)]
    signing, ciphers = {smb.signing for smb in sessions}, {smb.encryption for smb in sessions}
    # Otherwise they are factors, which each point names.
    if len(ciphers) == 1 and (cipher := sessions[0].encryption) is not None:
        texts.append(say(language, "method.files.smb.encrypted", {"cipher": cipher.replace("_", "-").upper()}))
    elif len(signing) == len(ciphers) == 1:
        texts.append(say(language, "method.files.smb.signed" if True in signing else "method.files.smb.unsigned"))
    if any(smb.compound == "file" for smb in sessions):
        texts.append(say(language, "method.files.smb.compound_file"))
    if any(smb.folder_cache for smb in sessions):
        texts.append(say(language, "method.files.smb.folder_cache"))
    requests = [smb.request_bytes(load.block) for load in loads if (smb := load.to.smb) is not None]
    is_cut = any(min(sizes) < load.block for load, sizes in zip(loads, requests, strict=True))
    if is_cut and not is_site and loads[0].profile == "whole_files":
        sizes = {
            "block": listed(format_size(load.block) for load in loads),
            "read": listed(format_size(read) for read, _ in requests),
            "write": listed(format_size(write) for _, write in requests),
        }
        texts.append(say(language, "method.files.smb.requests", sizes))
    return texts


def _peaks(summary: Json) -> list[Json]:
    """Levels of the points with the highest rate of each sweep."""
    peaks = [finding for finding in summary["findings"] if finding["kind"] == "peak"]
    levels = [(finding["where"], finding["evidence"]["over"], finding["evidence"]["level"]) for finding in peaks]
    return [
        point["factors"]
        for point in summary["points"]
        if any(
            point["factors"] == {**where, over: point["factors"].get(over)} and point["factors"].get(over) == level
            for where, over, level in levels
        )
    ]


def _cells(point: Json) -> list[str]:
    metrics = point["metrics"]

    def mean(name: str) -> float | None:
        value: float | None = (metrics.get(name) or {}).get("mean")
        return value

    rate = metrics.get(names.RATE) or {}
    half = None if rate.get("high") is None else (rate["high"] - rate["low"]) / 2
    whole = [value for name in names.WHOLE if (value := mean(names.latency(name, "p99"))) is not None]
    return [
        number(rate.get("mean")),
        number(half),
        number(mean("mb_per_s")),
        number(mean("read_mb_per_s")),
        number(mean("write_mb_per_s")),
        number(max(whole, default=None)),
        percent(mean("machine_percent")),
        say("en", f"limiter.{point['limiter']}"),
    ]


REPORT = FilesReport()
