//! A cache between the controller and the groups: the requests that it serves, and its accesses to
//! the groups.
//!
//! It models timing only: it knows which sectors it holds, not their data. It is a state machine
//! that `array.rs` calls. [`Cache::handle_request`] takes a request from the controller,
//! [`Cache::poll_action`] returns the next action, and [`Cache::handle_access_done`] reports that a
//! group has finished an access.
//!
//! This file serves reads. `write.rs` serves writes and flushes and destages. `core.rs` has the
//! state that both share, `segments.rs` the sectors held, and `streams.rs` detects sequential
//! reads.
mod core;
mod segments;
mod streams;
mod write;

use std::collections::BTreeMap;
use std::ops::Range;

use hakaru_units::Time;

pub(crate) use self::core::Action;
use self::core::{Core, Purpose};
use crate::request::{Emptied, Op, Request};
use crate::usage::Usage;
use hakaru_contract::drive as config;
use segments::SECTOR_BYTES;
use streams::Streams;
use write::WriteBack;

/// Sectors that are being read into the cache.
#[derive(Clone, Debug)]
struct Fetch {
    /// First sector after the range.
    end: u64,
    /// Whether the sectors are read ahead of any request.
    ahead: bool,
    /// Requests that wait for the fetch.
    waiters: Vec<usize>,
}

/// The cache of an array.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    core: Core,
    write_back: WriteBack,
    streams: Streams,
    /// Fetches in flight, by group and first sector. They do not overlap.
    fetches: BTreeMap<(u32, u64), Fetch>,
    usage: Usage,
}

impl Cache {
    /// Creates an empty cache in front of groups. Each group is given by its capacity and, if it
    /// has parity, the length of its rows, bytes.
    pub(crate) fn new(
        config: &config::Cache,
        groups: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> Cache {
        let core = Core::new(config, groups);
        let chunk = u64::from(config.read_ahead_bytes) / SECTOR_BYTES;
        Cache {
            write_back: WriteBack::new(&core),
            streams: Streams::new(chunk, config.read_ahead_after),
            core,
            fetches: BTreeMap::new(),
            usage: Usage::default(),
        }
    }

    /// Handles the request with the key `request`. Exactly one [`Action::Ready`] follows.
    pub(crate) fn handle_request(&mut self, now: Time, request: usize, access: &Request) {
        self.usage.arrive(now);
        let group = access.group;
        let end = access.offset_bytes + access.length_bytes;
        let sectors = access.offset_bytes / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        if access.length_bytes == 0 {
            return self.core.complete(request, false);
        }
        if access.op != Op::Flush {
            self.core.groups[group as usize].last_request = now;
        }
        match access.op {
            Op::Read => self.read(request, group, sectors),
            Op::Write if self.core.config.write == config::WritePolicy::Through => {
                write::write_through(&mut self.core, request, group, Op::Write, sectors);
            }
            Op::Write => {
                self.write_back
                    .write(&mut self.core, now, request, group, sectors, access.fua)
            }
            Op::Unmap => {
                self.write_back.drop_range(&mut self.core, group, &sectors);
                write::write_through(&mut self.core, request, group, Op::Unmap, sectors);
            }
            Op::Flush if self.core.config.nonvolatile => self.core.complete(request, false),
            Op::Flush => {
                self.write_back
                    .wait_for_destages(&mut self.core, request, group, &sectors, false)
            }
        }
        self.write_back.destage(&mut self.core, now);
    }

    /// Handles the end of an access that an action requested.
    pub(crate) fn handle_access_done(&mut self, now: Time, token: usize) {
        let Some(purpose) = self.core.end_access(token) else {
            return;
        };
        match purpose {
            Purpose::Fetch { range, group } => self.end_fetch(group, range),
            Purpose::Destage { group, slots } => {
                self.write_back.end_destage(&mut self.core, group, slots)
            }
            Purpose::Through {
                request,
                group,
                keep,
            } => {
                self.core.hold(group, keep, false);
                self.core.complete(request, false);
            }
        }
        self.write_back.destage(&mut self.core, now);
    }

    /// Handles an instant returned by [`Cache::poll_timeout`], or an earlier one.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.write_back.destage(&mut self.core, now);
    }

    /// Returns the earliest instant at which a group will have been idle long enough to destage.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.write_back.idle_destage_at(&self.core)
    }

    /// Returns the next action.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.core.poll_action()
    }

    /// Drops all data that is on the drives.
    pub(crate) fn empty(&mut self) -> Emptied {
        let dropped_bytes = self.core.segments.remove_clean();
        self.core.counts.emptied += 1;
        self.core.counts.emptied_bytes += dropped_bytes;
        let pending = self.write_back.pending_segments() as u64;
        Emptied {
            dropped_bytes,
            write_pending_bytes: pending * u64::from(self.core.config.segment_bytes),
        }
    }

    /// Records that a request has left the cache.
    pub(crate) fn handle_left(&mut self, now: Time, op: Op, length_bytes: u64) {
        self.usage.leave(now, op, length_bytes, 0);
    }

    /// Calls `visit` for every counter as of `now`.
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.usage.advance(now);
        let counts = &self.core.counts;
        let segment_bytes = u64::from(self.core.config.segment_bytes);
        let waiting = self.write_back.stalled_ns(now);
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
            ("emptied", counts.emptied),
            ("emptied_bytes", counts.emptied_bytes),
            ("stalls", counts.stalls),
            ("stall_ns", counts.stall_ns + waiting),
            ("dirty_bytes_now", counts.dirty_bytes),
            (
                "write_pending_bytes_now",
                self.write_back.pending_segments() as u64 * segment_bytes,
            ),
            (
                "write_pending_limit_bytes_now",
                self.write_back.pending_segments_max() as u64 * segment_bytes,
            ),
        ] {
            visit("cache", name, value as f64);
        }
    }

    fn read(&mut self, request: usize, group: u32, sectors: Range<u64>) {
        let (missing, mut used_ahead) = self.touch_held(group, sectors.clone());
        let mut waits = 0;
        let mut to_fetch = Vec::new();
        let mut is_hit = true;
        for range in missing {
            for key in self.overlapping_fetches(group, &range, &mut to_fetch) {
                let fetch = self
                    .fetches
                    .get_mut(&key)
                    .expect("overlapping_fetches returns keys of fetches");
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
            self.core.counts.read_hits += 1;
            self.core.counts.readahead_hits += u64::from(used_ahead);
        } else {
            self.core.counts.read_misses += 1;
        }
        self.core.set_waits(request, waits);
        if waits == 0 {
            self.core.complete(request, true);
        }
        if let Some(ahead) = self.streams.observe(group, &sectors) {
            self.read_ahead(group, ahead);
        }
    }

    /// Records that a read uses the sectors that the cache holds. Returns the sectors that it
    /// lacks, and whether any of the sectors used was read ahead.
    fn touch_held(&mut self, group: u32, sectors: Range<u64>) -> (Vec<Range<u64>>, bool) {
        let mut missing = Vec::new();
        let mut used_ahead = false;
        for part in self.core.segments.parts(group, sectors) {
            let mut valid = 0;
            if let Some(slot) = self.core.segments.find(part.place) {
                let segment = self.core.segments.get_mut(slot);
                valid = segment.valid;
                used_ahead |= segment.ahead & part.mask != 0;
                segment.ahead &= !part.mask;
                if !segment.is_pending() {
                    self.core.segments.touch(slot);
                }
            }
            self.core
                .segments
                .push_runs(&mut missing, part.place.1, part.mask & !valid);
        }
        (missing, used_ahead)
    }

    /// Returns the keys of the fetches that overlap `range`. Appends the parts of the range that no
    /// fetch covers to `rest`.
    fn overlapping_fetches(
        &self,
        group: u32,
        range: &Range<u64>,
        rest: &mut Vec<Range<u64>>,
    ) -> Vec<(u32, u64)> {
        let mut overlapping: Vec<((u32, u64), u64)> = self
            .fetches
            .range((group, 0)..(group, range.end))
            .rev()
            .take_while(|(_, fetch)| fetch.end > range.start)
            .map(|(key, fetch)| (*key, fetch.end))
            .collect();
        overlapping.reverse();
        let mut at = range.start;
        for &((_, start), end) in &overlapping {
            if at < start {
                rest.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            rest.push(at..range.end);
        }
        overlapping.into_iter().map(|(key, _)| key).collect()
    }

    /// Fetches the sectors of a range that are neither held nor being fetched.
    fn read_ahead(&mut self, group: u32, mut range: Range<u64>) {
        range.end = range
            .end
            .min(self.core.groups[group as usize].capacity_sectors);
        if range.is_empty() {
            return;
        }
        let mut missing = Vec::new();
        for part in self.core.segments.parts(group, range) {
            let valid = self
                .core
                .segments
                .find(part.place)
                .map_or(0, |slot| self.core.segments.get(slot).valid);
            self.core
                .segments
                .push_runs(&mut missing, part.place.1, part.mask & !valid);
        }
        let mut to_fetch = Vec::new();
        for range in missing {
            self.overlapping_fetches(group, &range, &mut to_fetch);
        }
        for range in to_fetch {
            self.core.counts.readahead_bytes += (range.end - range.start) * SECTOR_BYTES;
            self.fetch(group, range, None);
        }
    }

    /// Starts to fetch sectors for a request, or ahead of any if `request` is `None`.
    fn fetch(&mut self, group: u32, range: Range<u64>, request: Option<usize>) {
        let fetch = Fetch {
            end: range.end,
            ahead: request.is_none(),
            waiters: request.into_iter().collect(),
        };
        self.fetches.insert((group, range.start), fetch);
        let ranges = [range.clone()];
        self.core
            .start_job(group, Op::Read, &ranges, Purpose::Fetch { range, group });
    }

    fn end_fetch(&mut self, group: u32, range: Range<u64>) {
        let fetch = self
            .fetches
            .remove(&(group, range.start))
            .expect("a fetch ends once");
        self.core.hold(group, range, fetch.ahead);
        for request in fetch.waiters {
            self.core.end_wait(request);
        }
    }
}
