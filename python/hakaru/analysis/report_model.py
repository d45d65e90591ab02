"""The model of summary.json, which `hakaru report RUN --format json` prints. Its JSON Schema is
generated from these classes.

`schema/report.schema.json` is a copy of that schema, which a test keeps up to date. Every summary
is validated before it is written. Within one `schema_version`, fields may be added but are never
removed, and keep their meaning and unit. A kind of study may add fields only to classes derived
from `WithParts`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hakaru.study.schema import unwrap_descriptions

SCHEMA_VERSION = 1

Origin = Literal["measured", "emulated", "simulated"]
Number = float | int
Levels = dict[str, Any]
"""Factor → level."""


class Reported(BaseModel):
    """A part of the report with exactly these fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True)


class WithParts(BaseModel):
    """A part of the report to which kinds of study may add fields."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, populate_by_name=True)


class Text(WithParts):
    """A text of the study in both languages."""

    en: str
    ja: str


class EstimateReport(Reported):
    """A mean over `n` repetitions with its 95 % interval; a value that does not exist is null."""

    mean: Number | None
    low: Number | None
    high: Number | None
    n: Annotated[int, Field(ge=0)]
    unit: str


class UseReport(EstimateReport):
    """Utilisation of a resource in percent. `member` is the busiest one if the resource stands for
    several.
    """

    member: str | None = None


class CaveatReport(Reported):
    """A condition that limits what a number means."""

    caveat: str
    severity: Literal["note", "warning", "invalid"]
    values: dict[str, Any]
    text: str
    text_ja: str


class BoundReport(WithParts):
    """A closed form with its terms."""

    bound: Literal["link", "window", "turns"]
    mb_per_s: Number


class PathReport(WithParts):
    """The data path. VMs add `rtt_ms`; copies add `payload_mib_per_s`, `narrowest` and
    `queue_bytes`.
    """

    source: Annotated[str | list[str] | None, Field(alias="from")]
    to: str
    rate_bits_per_s: Number | None


class RequestReport(Reported):
    """The request of a closed load with a single request size."""

    op: Literal["read", "write"]
    bytes: Annotated[int, Field(gt=0)]
    queue_depth: Annotated[int, Field(gt=0)]


class HopReport(Reported):
    """One direction of a link on the data path, with the counters of the emulated network."""

    leg: Literal["read", "write"]
    carries: Literal["data", "replies"]
    link: str
    direction: Literal["a-b", "b-a"]
    source: Annotated[str, Field(alias="from")]
    to: str
    rate_bits_per_s: Number | None
    held_bits_per_s: Number | None
    queue_bytes: int | None
    frames_in: EstimateReport
    frames_out: EstimateReport
    dropped: EstimateReport
    dropped_buffer: EstimateReport | None = None
    dropped_early: EstimateReport | None = None
    dropped_loss: EstimateReport | None = None
    dropped_mtu: EstimateReport | None = None
    dropped_down: EstimateReport | None = None
    duplicated: EstimateReport | None = None
    marked: EstimateReport | None = None
    pauses: EstimateReport | None = None
    paused_s: EstimateReport | None = None
    queue_peak_bytes: EstimateReport | None = None
    busy_percent: EstimateReport | None = None


class TcpReport(Reported):
    """TCP counters of the nodes on the path, and of the jobs' connections at either end."""

    nodes: dict[str, dict[str, EstimateReport]]
    connections: dict[str, dict[str, EstimateReport]]


class TcpSeriesReport(Reported):
    """Retransmission timeouts of all connections, from the recorded TCP series, over all
    repetitions.
    """

    repetitions: int
    connections: int
    timeouts: int
    traced: int
    silence_s_max: Number
    recovery_s: Number


class HostReport(Reported):
    """A host of the initiators: its VMs and sessions, and their rates, means over repetitions."""

    host: str
    vms: Number
    sessions: Number
    iops: Number
    mb_per_s: Number


class JudgementReport(Reported):
    """A rule of thumb applied to a point: the device with the highest value. `by`: the rule that
    overrides this one.
    """

    rule: str
    gauge: str
    device: str
    value: EstimateReport
    outcome: Literal["fine", "at_limit", "above", "overridden", "shown"]
    by: str | None
    limit: list[Number] | None
    published: list[Number] | None
    headroom: list[Number] | None
    source: str


class PointReport(WithParts):
    """One point. `limiter` and `resource`: its bottleneck (docs/methodology/limiter.md).
    `first_stage`: number of its first repetitions, if their spread chose how many it has.
    `accelerators`: how the processors of its guests ran; empty without guests.
    """

    point: str
    factors: Levels
    origin: Origin
    valid: bool
    metrics: dict[str, EstimateReport]
    utilisation: dict[str, UseReport]
    caveats: list[CaveatReport]
    repetitions: dict[str, list[Number | None]]
    first_stage: Annotated[int, Field(gt=0)] | None = None
    accelerators: list[Literal["kvm", "tcg"]] = Field(default_factory=list)
    limiter: str
    resource: str | None
    drive_service_ms: Number | None
    distribution: dict[Literal["all", "read", "write"], list[list[Number]]]
    over_time: dict[str, list[Number | None]]
    rule_book: list[JudgementReport] = Field(default_factory=list)
    path: PathReport | None = None
    request: RequestReport | None = None
    bounds: list[BoundReport] = Field(default_factory=list)
    hops: list[HopReport] = Field(default_factory=list)
    tcp: TcpReport | None = None
    tcp_series: TcpSeriesReport | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    fabric_late_us_p99: Number | None = None
    hosts: list[HostReport] = Field(default_factory=list)


class FindingReport(Reported):
    """A sentence with the numbers that support it. Only findings of the kind `limiter` have a
    `limiter`.
    """

    kind: str
    where: Levels
    text: Annotated[str, Field(min_length=1)]
    text_ja: Annotated[str, Field(min_length=1)]
    limiter: str | None
    evidence: dict[str, Any]


class ExpectationReport(Reported):
    """An expectation of the study. `held` is null if it cannot be judged."""

    kind: Literal["peak", "reference", "below_peak", "limiter", "bound", "ratio"]
    held: bool | None
    text: str
    text_ja: str
    found: str
    found_ja: str
    evidence: dict[str, Any]


class RowReport(Reported):
    """One level of a published table, with the measured value."""

    level: Number | str
    published: Number
    mean: Number | None
    low: Number | None
    high: Number | None
    error_percent: Number | None
    parts: list[Number] | None = None


class ReferenceReport(Reported):
    """Comparison of one metric with one published table."""

    table: str
    title: Text
    source: str
    metric: str
    over: str
    where: Levels
    rows: list[RowReport]


class PublicationReport(Reported):
    """A publication that the study cites."""

    id: str
    title: Text
    source: str


class ScorecardRow(Reported):
    """One published number with its measured counterpart.

    `published` and `mean` are numbers; for a peak, levels of `over`; for a ranking, its levels,
    highest first. `error_percent` is null if the number was not measured, or if the machine lacks
    what the comparison needs (`not_judged` has the reasons). `counted` is false for rows that were
    not measured, hold by definition, or come from an invalid point.
    """

    row: str
    kind: Literal["table", "value", "ratio", "difference", "peak", "extreme", "reaches", "ranking"]
    publication: str
    name: Text
    metric: str
    where: Levels
    over: str | None
    level: Number | str | None
    table: str | None
    unit: str
    published: Number | str | list[Number | str]
    mean: Number | str | list[Number | str] | None
    low: Number | None
    high: Number | None
    n: Annotated[int, Field(ge=0)]
    points: Annotated[int, Field(ge=0)]
    points_needed: Annotated[int, Field(ge=0)]
    valid: bool
    error_percent: Number | None
    mark: Literal["calibrated", "predicted", "by_definition"]
    counted: bool
    note: Text | None
    not_judged: Text | None


class ScorecardReport(Reported):
    """Every published number of the study. Median and worst error are those of the predicted rows
    that count.
    """

    publications: list[PublicationReport]
    rows: list[ScorecardRow]
    calibrated: int
    predicted: int
    by_definition: int
    measured: int
    predicted_measured: int
    median_error_percent: Number | None
    worst: ScorecardRow | None


class SweepReport(Reported):
    """Points that differ only in the factor `over`. `like_peak`: those whose intervals overlap with
    that of the peak; only the peak if a search chose the levels.
    """

    over: str
    where: Levels
    points: list[str]
    peak: str | None
    near_peak: list[str]
    like_peak: list[str] = Field(default_factory=list)
    limiter: str
    resource: str | None


class CurveReport(Reported):
    """Points that differ only in the distance, and the lowest closed form at more closely spaced
    distances. `plain_stream`: its points are TCP streams without iSCSI.
    """

    over: str
    where: Levels
    name: Levels
    group: dict[str, Any]
    points: list[str]
    rtt_ms: list[Number]
    plain_stream: bool = False
    bound: list[list[Number]]


class CellReport(Reported):
    """One point of a heat map."""

    point: str
    buffer_bytes: int
    streams: int
    mib_per_s: Number | None
    path_percent: Number | None
    collapsed: bool | None


class MapReport(Reported):
    """Heat map of the throughput over buffer size and number of streams."""

    where: Levels
    collapse_percent: Number
    cells: list[CellReport]
    least_buffer_bytes: dict[str, int | None]


class CaptureReport(Reported):
    """Captures of a node in a repetition; `files` are paths within the run directory."""

    point: str
    repetition: int
    node: str
    files: list[str]
    bytes: int
    packets: int
    dropped: int
    deleted_files: int
    cut_short: bool


class LimitReport(Reported):
    """A limit of a goal, in the unit of the metric."""

    metric: str
    side: Literal["most", "least"]
    value: Number


class GoalReport(Reported):
    """The answer of a search: the last level of `over` that meets all limits.

    `low` is the last level, up to the answer, that surely meets the goal (its intervals of
    `confidence` are within the limits), and `high` the last one that does not surely miss it.
    `missing` is the first level that misses the goal. With `find: lowest`, the search goes from
    high levels to low ones. Numbers that do not exist are null.
    """

    over: str
    where: Levels
    find: Literal["highest", "lowest"]
    limits: list[LimitReport]
    confidence: Number
    verdict: Literal["bracketed", "at_least", "tester_limit", "below_range", "unfinished"]
    answer: Number | None
    low: Number | None
    high: Number | None
    missing: Number | None
    point: str | None
    points: list[str]
    levels: list[Number]
    repetitions: int
    repetitions_most: int


class StudyReport(Reported):
    """The study's texts."""

    id: str
    title: Text
    question: Text | None
    expectation: Text | None
    origin: Origin | None


class RunReport(Reported):
    """The run."""

    kind: str
    run: str
    status: Literal["running", "done", "interrupted", "failed"]
    quick: bool | None
    seed: int | None
    origin: Origin | None
    started: str | None
    ended: str | None
    versions: dict[str, Any] | None
    command: list[Any] | str | None


class Summary(WithParts):
    """summary.json. No NaN: a number that does not exist is null."""

    schema_version: Literal[1]
    study: StudyReport
    run: RunReport
    points: list[PointReport]
    findings: list[FindingReport]
    expectations: list[ExpectationReport]
    references: list[ReferenceReport]
    scorecard: ScorecardReport
    sweeps: list[SweepReport]
    caveats: list[CaveatReport]
    links: list[dict[str, Any]]
    captures: list[CaptureReport]
    valid: bool
    curves: list[CurveReport] = Field(default_factory=list)
    maps: list[MapReport] = Field(default_factory=list)
    goals: list[GoalReport] = Field(default_factory=list)


def report_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of summary.json."""
    schema: dict[str, Any] = unwrap_descriptions(Summary.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "report.schema.json"} | schema
