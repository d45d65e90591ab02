"""Repetitions of loads on trees of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hakaru.engine import contract
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.fileserver.samba_settings import FileServer
from hakaru.kinds.files import chain, on_site, place
from hakaru.kinds.files.events import disk_sizes, grown_bytes, timed
from hakaru.kinds.files.load import FilesLoad, approximate_bytes, load_at
from hakaru.kinds.files.names import COUNTERS, ENTITY, RATE
from hakaru.kinds.files.seats import Seat, seats
from hakaru.lab.plan import LabPlan
from hakaru.run.configure import port_of, seed_of
from hakaru.run.events import TimedEvent
from hakaru.run.kind import Cost, Engines, Finished, RunKind, times_in_words
from hakaru.run.meter import Meter, Rates
from hakaru.run.site_file import HOST, Site
from hakaru.study import Expanded, Point, Repetition, Study
from hakaru.units import format_size

MS_NS = 1_000_000
BUILD_FILES_PER_S, BUILD_BYTES_PER_S = 5_000, 100_000_000
"""Expected rates of building and copying on a local disk."""
SMB_FILES_PER_S = 500
"""Expected rate of building and copying small files over SMB on two processors."""
CHAIN_FILES_PER_S, CHAIN_BYTES_PER_S, CHAIN_S = 200, 10_000_000, 8.0
"""The same in a guest with an emulated processor, and the time in which the layers of a chain are
built and examined once the guest has booted and logged in.
"""
EMPTY_S = 300.0
"""Longest time in which the array below a chain writes its cache back before a cold load."""
DESCRIPTORS_PER_TOOL = 3
"""Socket, epoll instance and timer of a session, or handles of a file and folders."""
SLOW = 20.0
"""Factor by which a disk may be slower before the run is considered stuck."""


class FilesRun(RunKind):
    """The part of the kind `files` that runs use."""

    def servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The arrays below the chains of file servers in guests. Other file servers are no
        engines.
        """
        load = load_at(expanded.at(turn.point))
        if load.to.chain is None:
            return {}
        return {
            node: chain.array(
                load.to.chain,
                lab,
                node,
                seed=seed_of(expanded.seed, turn.name, node),
                intervals=expanded.measure.intervals,
            )
            for node in lab.array_names[: load.servers]
        }

    def chains(self, study: Study, lab: LabPlan) -> Sequence[ChainPlan]:
        """The chains below the trees."""
        return place.chain_plans(load_at(study), lab)

    def events(self, study: Study, lab: LabPlan) -> Sequence[TimedEvent]:
        """The growth of the pools below the chains, and the extension of the disks on them."""
        load = load_at(study)
        if load.to.chain is None:
            return ()
        return timed(load.events, load.to.chain, place.chain_plans(load, lab))

    def file_servers(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Mapping[str, FileServer]:
        """Samba in the nodes of arrays, unless the trees are in a directory or in a guest."""
        return place.file_servers(load_at(expanded.at(turn.point)), lab)

    def loads(self, expanded: Expanded, turn: Repetition, lab: LabPlan) -> Engines:
        """The tools, on the clients of the file servers; without one, on the first host, or in the
        guest in the place of the last one.
        """
        load = load_at(expanded.at(turn.point))
        if load.to.smb is None:
            host = lab.loading_names[-1 if load.to.chain is not None else 0]
            return {host: _tools(expanded, turn, host, place.directory(load))}
        return {
            seat.host: _tools(expanded, turn, seat.host, place.share(load, seat), seat) for seat in seats(load, lab)
        }

    def empties_caches(self, study: Study) -> bool:
        """Whether the load is to be cold. The engine itself drops a directory from the cache."""
        load = load_at(study)
        return load.cold and load.to.directory is None

    site_part = "share"

    def check_site(self, expanded: Expanded, site: Site) -> bool:
        """Check that every point has its trees on the share of the site."""
        on_site.check(expanded, site)
        return True

    def site_loads(self, expanded: Expanded, turn: Repetition, site: Site, *, allow_writes: bool) -> Engines:
        """The tools, on this host."""
        return {HOST: _tools(expanded, turn, HOST, on_site.destination(expanded.at(turn.point), site))}

    def ports(self, load: contract.EngineConfig) -> set[int]:
        """That of the file server."""
        if isinstance(load, contract.FilesLoad) and isinstance(load.destination, contract.FilesSmb):
            return {port_of(load.destination.address)}
        return set()

    def cost(self, expanded: Expanded, point: Point, lab: LabPlan | None) -> Cost:
        """Time for building the trees and using each file once; less if the study sets a time. The
        time itself if files are used again.
        """
        load, measure = load_at(expanded.at(point)), expanded.measure
        files_per_s, bytes_per_s = BUILD_FILES_PER_S, BUILD_BYTES_PER_S
        if load.to.chain is not None:
            files_per_s, bytes_per_s = CHAIN_FILES_PER_S, CHAIN_BYTES_PER_S
        elif load.to.smb is not None:
            files_per_s = SMB_FILES_PER_S
        # All file servers of a lab share this machine.
        build_s = load.servers * (load.tree.files / files_per_s + approximate_bytes(load) / bytes_per_s)
        chain_s, held_bytes = 0.0, 0
        if load.to.chain is not None:
            chain_s = load.servers * CHAIN_S
            extended = max(disk_sizes(load.events), default=load.to.chain.disk.size) - load.to.chain.disk.size
            held_bytes = load.servers * chain.held_bytes(load.to.chain, grown_bytes(load.events), extended)
        time_ns = measure.time or load.time_limit
        limit_s = (measure.warmup_most_ns + time_ns) / 1e9
        # Files that are used again never run out, and a limit of the load is no time that it takes.
        least_s = (measure.warmup_least_ns + time_ns) / 1e9
        load_s = least_s if load.repeat or load.users is not None else min(build_s, least_s)
        return Cost(
            seconds=build_s + load_s + chain_s,
            seconds_max=SLOW * build_s + 60.0 + limit_s + (EMPTY_S if load.cold and load.to.chain is not None else 0.0),
            held_bytes=held_bytes,
            actors=load.servers * load.clients,
            sockets=8 + DESCRIPTORS_PER_TOOL * load.tools // load.clients,
            guests=None if load.to.chain is None else load.servers,
            files_bytes=_files_bytes(load) if lab is not None else 0,
        )

    def files_folder(self) -> Path:
        """The folder of directories and of the shares of file servers."""
        return place.scratch_folder()

    def each(self, expanded: Expanded) -> str:
        """Number and size of the files, in words."""
        load, measure = load_at(expanded.study), expanded.measure
        where = "on disk" if load.to.smb is None else "on a file server"
        where = where if load.to.chain is None else "on a virtual disk"
        files = load.servers * load.tree.trees * load.tree.targets
        if load.servers > 1:
            where = f"on {load.servers} file servers"
        trees = f"{files} files, {format_size(load.servers * approximate_bytes(load))} {where}"
        if measure.time is None:
            return f"{trees}, each used once"
        return f"{trees}, {times_in_words(measure)}"

    def work(self, sample: contract.Sample) -> float | None:
        """Files that were copied, steps of the metadata profile, or operations of users."""
        counters = sample.counters.get(ENTITY)
        return None if counters is None else sum(counters[name] for name in COUNTERS[RATE] if name in counters)

    def meter(self, expanded: Expanded, turn: Repetition, hosts: int) -> Meter:
        """Files and bytes per second."""
        # `hakaru plan` needs no meters, and their module takes long to import.
        from hakaru.kinds.files.meter import FilesMeter

        return FilesMeter(hosts)

    def result(self, study: Study, finished: Finished) -> Rates:
        """Rates of the measuring phase."""
        from hakaru.kinds.files.meter import result_of

        return result_of(finished.window, finished.samples)


def _files_bytes(load: FilesLoad) -> int:
    """Size of the files that a point builds on this machine. Those of a chain are in the memory of
    its array, and those that are kept may be there already.
    """
    return 0 if load.to.chain is not None or load.keep else load.servers * approximate_bytes(load)


def _tools(
    expanded: Expanded, turn: Repetition, host: str, destination: contract.FilesDestination, seat: Seat | None = None
) -> contract.FilesLoad:
    """The engine of a host. `seat`: its place among the clients of a lab's file servers."""
    load, measure = load_at(expanded.at(turn.point)), expanded.measure
    time_ns = measure.time or load.time_limit
    tree = load.tree
    if seat is not None and load.servers * load.clients > 1:
        # The first client has the seed of the study, the others have seeds derived from it.
        seed = tree.seed if seat.place == 0 else seed_of(tree.seed, "client", seat.place)
        tree = tree.part(seat.number, load.clients, seed)
    return contract.FilesLoad(
        destination=destination,
        trees=tree.config(),
        build=True,
        # The disk is new each time, and its files are deleted once they were counted.
        remove=not load.keep and load.to.chain is None,
        profile=load.profile if load.users is None else "mix",
        mix=None if load.users is None else load.users.config(load.clients if seat is not None else 1),
        tools=load.tools // (load.clients if seat is not None else 1),
        read_percent=load.mix.read,
        block_bytes=load.block,
        flush=load.flush,
        verify=load.verify,
        cold=load.cold and load.to.directory is not None,
        repeat=load.repeat,
        # Trees that are built at once are complete at different times, and the caches of servers
        # are emptied only after that.
        second_start=load.servers * load.clients > 1 or (load.cold and load.to.directory is None),
        seed=seed_of(expanded.seed, turn.name, host),
        warmup_s=measure.warmup_most_ns / 1e9,
        measure_s=time_ns / 1e9,
        sample_interval_ms=measure.intervals.hosts // MS_NS,
    )


RUN = FilesRun()
