"""Repetitions of loads on trees of files."""

from __future__ import annotations

from collections.abc import Mapping

from hakaru.engine import contract
from hakaru.files.tree import PUBLISHED_BYTES, PUBLISHED_FILES
from hakaru.fileserver.samba import PORT
from hakaru.fileserver.samba_settings import FileServer
from hakaru.kinds.files import place
from hakaru.kinds.files.load import FilesLoad, load_at
from hakaru.kinds.files.meter import FilesMeter, result_of
from hakaru.lab.plan import LabPlan
from hakaru.run.configure import seed_of
from hakaru.run.kind import Cost, Engines, Finished, RunKind
from hakaru.run.meter import Meter, Rates
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.units import format_duration, format_size

MS_NS = 1_000_000
BUILD_FILES_PER_S, BUILD_BYTES_PER_S = 5_000, 100_000_000
"""Expected rates of building and copying on a local disk."""
SMB_FILES_PER_S = 500
"""Expected rate of building and copying small files over SMB on two processors."""
DESCRIPTORS_PER_TOOL = 3
"""Socket, epoll instance and timer of a session, or handles of a file and folders."""
SLOW = 20.0
"""Factor by which a disk may be slower before the run is considered stuck."""


class FilesRun(RunKind):
    """The part of the kind `files` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """None: file servers are no engines."""
        return {}

    def file_servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Mapping[str, FileServer]:
        """Samba in the node of the array, unless the trees are in a directory."""
        return place.file_servers(load_at(expanded.at(turn.point)), lab)

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The tools, on the only host."""
        load, measure = load_at(expanded.at(turn.point)), expanded.measure
        host = lab.loading_names[0]
        time_ns = measure.time or load.time_limit
        return {
            host: contract.FilesLoad(
                destination=place.destination(load, lab),
                trees=load.tree.config(),
                build=True,
                remove=not load.keep,
                profile=load.profile,
                tools=load.tools,
                read_percent=load.mix.read,
                block_bytes=load.block,
                flush=load.flush,
                verify=load.verify,
                cold=load.cold,
                seed=seed_of(expanded.seed, turn.name, host),
                warmup_s=measure.warmup_ns / 1e9,
                measure_s=time_ns / 1e9,
                sample_interval_ms=measure.sample_interval // MS_NS,
            )
        }

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """That of the file server."""
        served = isinstance(load, contract.FilesLoad) and isinstance(load.destination, contract.FilesSmb)
        return {PORT} if served else set()

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Time for building the trees and using each file once; less if the study sets a time."""
        load, measure = load_at(expanded.at(point)), expanded.measure
        files_per_s = BUILD_FILES_PER_S if load.to.smb is None else SMB_FILES_PER_S
        build_s = load.tree.files / files_per_s + approximate_bytes(load) / BUILD_BYTES_PER_S
        limit_s = (measure.warmup_ns + (measure.time or load.time_limit)) / 1e9
        return Cost(
            seconds=build_s + min(build_s, limit_s),
            seconds_max=SLOW * build_s + 60.0 + limit_s,
            held_bytes=0,
            actors=1,
            sockets=8 + DESCRIPTORS_PER_TOOL * load.tools,
        )

    def each(self, expanded: Expanded) -> str:
        """Number and size of the files, in words."""
        load, measure = load_at(expanded.study), expanded.measure
        where = "on disk" if load.to.smb is None else "on a file server"
        trees = f"{load.tree.trees * load.tree.targets} files, {format_size(approximate_bytes(load))} {where}"
        if measure.time is None:
            return f"{trees}, each used once"
        return f"{trees}, {format_duration(measure.time)} measured each"

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Files and bytes per second."""
        return FilesMeter(hosts)

    def result(self, study: Study, finished: Finished) -> Rates:
        """Rates of the measuring phase."""
        return result_of(finished.window, finished.samples)


def approximate_bytes(load: FilesLoad) -> int:
    """Bytes of the trees, to a whole KiB; sizes as drawn count with the published mean."""
    tree = load.tree
    total = tree.total_bytes
    mean = PUBLISHED_BYTES // PUBLISHED_FILES
    targets = mean * tree.trees * tree.targets if total is None else total
    dummies = (0 if tree.dummies == 0 else mean) * tree.trees * tree.dummies
    return ((targets + dummies) // tree.divisor) >> 10 << 10


RUN = FilesRun()
