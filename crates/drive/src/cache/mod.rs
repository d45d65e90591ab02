//! A cache between the controller and the groups: which requests it answers, what it asks of the groups, and when.
//!
//! Timing only: which sectors it holds, not what is in them. A state machine like the others: [`Cache::handle_request`] takes what
//! comes from the controller, [`Cache::poll_action`] says what to do about it, [`Cache::handle_access_done`] hears that a group
//! did what was asked. `array.rs` calls it. Reads are here, writes, flushes and destaging in `write.rs`; what it holds is in
//! `segments.rs`, who reads sequentially in `streams.rs`.
mod segments;
mod streams;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use hakaru_units::Time;

use crate::raid::Op;
use crate::usage::Usage;
use hakaru_contract::drive as config;
use segments::{Place, SECTOR_BYTES, Segments};
use slab::Slab;
use streams::Streams;
use write::StalledWrite;

/// What the cache has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Access a group, and tell [`Cache::handle_access_done`] with this token.
    Access {
        token: usize,
        group: u32,
        op: Op,
        offset_bytes: u64,
        length_bytes: u64,
    },
    /// The request has been served; `hit`: by the cache's memory, which takes its time.
    Ready { request: usize, hit: bool },
}

/// What a group's accesses are for.
#[derive(Clone, Debug)]
enum Purpose {
    /// To bring in what a read needs, or will need.
    Fetch { range: Range<u64>, group: u32 },
    /// To put dirty segments, by slot, on drives.
    Destage { group: u32, slots: Vec<u32> },
    /// A write or unmap that the drives must have done before it is answered.
    Through {
        request: usize,
        group: u32,
        /// What the cache holds afterwards.
        keep: Range<u64>,
    },
}

/// Accesses to a group that belong together.
#[derive(Clone, Debug)]
struct Job {
    left: u32,
    purpose: Purpose,
}

/// Sectors on their way into the cache.
#[derive(Clone, Debug)]
struct Fetch {
    end: u64,
    ahead: bool,
    waiters: Vec<usize>,
}

/// What it has counted. Bytes of sectors.
#[derive(Clone, Debug, Default)]
struct Counts {
    read_hits: u64,
    read_misses: u64,
    readahead_hits: u64,
    readahead_bytes: u64,
    rewritten_bytes: u64,
    discarded_bytes: u64,
    destaged_bytes: u64,
    destages: u64,
    stalls: u64,
    stall_ns: u64,
    dirty_bytes: u64,
}

/// A cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    config: config::Cache,
    /// Segments that may be write-pending.
    pending_max: usize,
    segments: Segments,
    streams: Streams,
    groups: Vec<Group>,
    jobs: Slab<Job>,
    /// By group and first sector; they do not overlap.
    fetches: BTreeMap<(u32, u64), Fetch>,
    /// By request: what it still waits for.
    waits: Vec<u32>,
    /// Segments that are dirty or being destaged.
    pending: BTreeSet<Place>,
    /// Of those, the ones that a destage can take: dirty, and not being destaged already.
    ready: BTreeSet<Place>,
    /// Of those, the ones that someone waits for.
    urgent: BTreeSet<Place>,
    /// Writes that wait for room, in order of arrival.
    stalled: VecDeque<StalledWrite>,
    /// The high mark has been passed and the low one not yet reached.
    above_mark: bool,
    actions: VecDeque<Action>,
    counts: Counts,
    usage: Usage,
}

/// What it knows of a group.
#[derive(Clone, Debug)]
struct Group {
    capacity_sectors: u64,
    /// Sectors of a row, if a whole one can be written without reading.
    row_sectors: Option<u64>,
    last_request: Time,
    /// Destages under way.
    destages: u32,
    /// Segment from which the next destage is looked for.
    cursor: u64,
}

impl Cache {
    /// An empty cache; each group's capacity, and the length of its rows if they have parity.
    pub(crate) fn new(
        config: &config::Cache,
        groups: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> Cache {
        let segments = Segments::new(config.size_bytes, config.segment_bytes);
        let share = config.write_pending_limit_percent / 100.0;
        let chunk = u64::from(config.read_ahead_bytes) / SECTOR_BYTES;
        Cache {
            pending_max: ((segments.capacity() as f64 * share) as usize).max(1),
            segments,
            streams: Streams::new(chunk, config.read_ahead_after),
            groups: groups
                .map(|(capacity, row)| Group {
                    capacity_sectors: capacity / SECTOR_BYTES,
                    row_sectors: row.map(|bytes| bytes / SECTOR_BYTES),
                    last_request: Time::ZERO,
                    destages: 0,
                    cursor: 0,
                })
                .collect(),
            config: config.clone(),
            jobs: Slab::default(),
            fetches: BTreeMap::new(),
            waits: Vec::new(),
            pending: BTreeSet::new(),
            ready: BTreeSet::new(),
            urgent: BTreeSet::new(),
            stalled: VecDeque::new(),
            above_mark: false,
            actions: VecDeque::new(),
            counts: Counts::default(),
            usage: Usage::default(),
        }
    }

    /// Takes a request from the controller. `request` is answered by [`Action::Ready`], once.
    pub(crate) fn handle_request(&mut self, now: Time, request: usize, asked: &crate::Request) {
        self.usage.arrive(now);
        let group = asked.group;
        let end = asked.offset_bytes + asked.length_bytes;
        let sectors = asked.offset_bytes / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        if asked.length_bytes == 0 {
            return self.ready_now(request, false);
        }
        if asked.op != Op::Flush {
            self.groups[group as usize].last_request = now;
        }
        match asked.op {
            Op::Read => self.read(request, group, sectors),
            Op::Write if self.config.write == config::WritePolicy::Through => {
                self.write_through(request, group, Op::Write, sectors);
            }
            Op::Write => self.write(now, request, group, sectors, asked.fua),
            Op::Unmap => {
                self.drop_range(group, &sectors);
                self.write_through(request, group, Op::Unmap, sectors);
            }
            Op::Flush if self.config.nonvolatile => self.ready_now(request, false),
            Op::Flush => self.wait_for_destages(request, group, &sectors, false),
        }
        self.destage(now);
    }

    /// A group has done what an action asked of it.
    pub(crate) fn handle_access_done(&mut self, now: Time, token: usize) {
        let job = &mut self.jobs[token];
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        match self.jobs.remove(token).purpose {
            Purpose::Fetch { range, group } => self.end_fetch(group, range),
            Purpose::Destage { group, slots } => self.end_destage(group, slots),
            Purpose::Through {
                request,
                group,
                keep,
            } => {
                self.hold(group, keep, false);
                self.ready_now(request, false);
            }
        }
        self.destage(now);
    }

    /// Called at an instant that [`Cache::poll_timeout`] gave, or earlier.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.destage(now);
    }

    /// When a group will have been idle long enough to destage, if nothing is asked of it until then.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.groups
            .iter()
            .enumerate()
            .filter(|(g, group)| group.destages == 0 && self.next_ready(*g as u32, 0).is_some())
            .map(|(_, group)| self.idle_from(group))
            .min()
    }

    /// What to do next.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A request has left the cache, its time in memory included.
    pub(crate) fn handle_left(&mut self, now: Time, op: Op, length_bytes: u64) {
        self.usage.leave(now, op, length_bytes, 0);
    }

    /// Its counters, as of `now`.
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.usage.advance(now);
        let counts = &self.counts;
        let segment_bytes = u64::from(self.config.segment_bytes);
        let waiting: u64 = self.stalled.iter().map(|w| now.ns_since(w.since)).sum();
        for (name, value) in [
            ("reads", self.usage.reads),
            ("writes", self.usage.writes),
            ("read_bytes", self.usage.read_bytes),
            ("write_bytes", self.usage.write_bytes),
            ("queue_ns", self.usage.queue_ns),
            ("read_hits", counts.read_hits),
            ("read_misses", counts.read_misses),
            ("readahead_hits", counts.readahead_hits),
            ("readahead_bytes", counts.readahead_bytes),
            ("rewritten_bytes", counts.rewritten_bytes),
            ("discarded_bytes", counts.discarded_bytes),
            ("destages", counts.destages),
            ("destaged_bytes", counts.destaged_bytes),
            ("stalls", counts.stalls),
            ("stall_ns", counts.stall_ns + waiting),
            ("dirty_bytes_now", counts.dirty_bytes),
            (
                "write_pending_bytes_now",
                self.pending.len() as u64 * segment_bytes,
            ),
            (
                "write_pending_limit_bytes_now",
                self.pending_max as u64 * segment_bytes,
            ),
        ] {
            visit("cache", name, value as f64);
        }
    }

    fn read(&mut self, request: usize, group: u32, sectors: Range<u64>) {
        let mut missing = Vec::new();
        let mut used_ahead = false;
        for part in self.segments.parts(group, sectors.clone()) {
            let mut valid = 0;
            if let Some(slot) = self.segments.find(part.place) {
                let segment = self.segments.get_mut(slot);
                valid = segment.valid;
                used_ahead |= segment.ahead & part.mask != 0;
                segment.ahead &= !part.mask;
                if !segment.is_pending() {
                    self.segments.touch(slot);
                }
            }
            self.segments
                .push_runs(&mut missing, part.place.1, part.mask & !valid);
        }
        let mut waits = 0;
        let mut to_fetch = Vec::new();
        let mut is_hit = true;
        for range in missing {
            let on_the_way = self.on_the_way(group, &range, &mut to_fetch);
            for key in on_the_way {
                let fetch = self.fetches.get_mut(&key).expect("just found");
                fetch.waiters.push(request);
                waits += 1;
                is_hit &= fetch.ahead;
                used_ahead |= fetch.ahead;
            }
        }
        is_hit &= to_fetch.is_empty();
        for range in to_fetch {
            self.fetch(group, range, Some(request));
            waits += 1;
        }
        if is_hit {
            self.counts.read_hits += 1;
            self.counts.readahead_hits += u64::from(used_ahead);
        } else {
            self.counts.read_misses += 1;
        }
        self.set_waits(request, waits);
        if waits == 0 {
            self.ready_now(request, true);
        }
        if let Some(ahead) = self.streams.observe(group, &sectors) {
            self.read_ahead(group, ahead);
        }
    }

    /// Fetches of which `range` needs something. What is left of it, no fetch brings: it is appended to `rest`.
    fn on_the_way(
        &self,
        group: u32,
        range: &Range<u64>,
        rest: &mut Vec<Range<u64>>,
    ) -> Vec<(u32, u64)> {
        let mut found: Vec<((u32, u64), u64)> = self
            .fetches
            .range((group, 0)..(group, range.end))
            .rev()
            .take_while(|(_, fetch)| fetch.end > range.start)
            .map(|(key, fetch)| (*key, fetch.end))
            .collect();
        found.reverse();
        let mut at = range.start;
        for &((_, start), end) in &found {
            if at < start {
                rest.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            rest.push(at..range.end);
        }
        found.into_iter().map(|(key, _)| key).collect()
    }

    fn read_ahead(&mut self, group: u32, mut range: Range<u64>) {
        range.end = range.end.min(self.groups[group as usize].capacity_sectors);
        if range.is_empty() {
            return;
        }
        let mut missing = Vec::new();
        for part in self.segments.parts(group, range) {
            let valid = self
                .segments
                .find(part.place)
                .map_or(0, |slot| self.segments.get(slot).valid);
            self.segments
                .push_runs(&mut missing, part.place.1, part.mask & !valid);
        }
        let mut to_fetch = Vec::new();
        for range in missing {
            self.on_the_way(group, &range, &mut to_fetch);
        }
        for range in to_fetch {
            self.counts.readahead_bytes += (range.end - range.start) * SECTOR_BYTES;
            self.fetch(group, range, None);
        }
    }

    /// Reads sectors for a request, or ahead of one.
    fn fetch(&mut self, group: u32, range: Range<u64>, request: Option<usize>) {
        let fetch = Fetch {
            end: range.end,
            ahead: request.is_none(),
            waiters: request.into_iter().collect(),
        };
        self.fetches.insert((group, range.start), fetch);
        let ranges = [range.clone()];
        self.start_job(group, Op::Read, &ranges, Purpose::Fetch { range, group });
    }

    fn end_fetch(&mut self, group: u32, range: Range<u64>) {
        let fetch = self
            .fetches
            .remove(&(group, range.start))
            .expect("a fetch ends once");
        self.hold(group, range, fetch.ahead);
        for request in fetch.waiters {
            self.end_wait(request);
        }
    }

    /// The cache holds these sectors from now on, as far as there is room.
    fn hold(&mut self, group: u32, range: Range<u64>, ahead: bool) {
        for part in self.segments.parts(group, range) {
            let Some(slot) = self.segments.find_or_make(part.place) else {
                continue;
            };
            let segment = self.segments.get_mut(slot);
            if ahead {
                segment.ahead |= part.mask & !segment.valid;
            }
            segment.valid |= part.mask;
            if !segment.is_pending() {
                self.segments.touch(slot);
            }
        }
    }

    fn start_job(&mut self, group: u32, op: Op, ranges: &[Range<u64>], purpose: Purpose) {
        let token = self.jobs.insert(Job {
            left: ranges.len() as u32,
            purpose,
        });
        self.actions
            .extend(ranges.iter().map(|range| Action::Access {
                token,
                group,
                op,
                offset_bytes: range.start * SECTOR_BYTES,
                length_bytes: (range.end - range.start) * SECTOR_BYTES,
            }));
    }

    fn set_waits(&mut self, request: usize, waits: u32) {
        if self.waits.len() <= request {
            self.waits.resize(request + 1, 0);
        }
        self.waits[request] = waits;
    }

    fn end_wait(&mut self, request: usize) {
        let left = &mut self.waits[request];
        *left -= 1;
        if *left == 0 {
            self.ready_now(request, false);
        }
    }

    fn ready_now(&mut self, request: usize, hit: bool) {
        self.actions.push_back(Action::Ready { request, hit });
    }
}
