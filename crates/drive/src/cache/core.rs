//! State shared by the read and write paths of the cache: its segments, the groups behind it,
//! accesses in flight and requests that wait for them. Used by `mod.rs` and `write.rs`.
use std::collections::VecDeque;
use std::ops::Range;

use hakaru_contract::drive as config;
use hakaru_units::Time;
use slab::Slab;

use super::segments::{SECTOR_BYTES, Segments};
use crate::request::Op;

/// An action that the cache requests from the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Access a group, then call [`super::Cache::handle_access_done`] with this token.
    Access {
        token: usize,
        group: u32,
        op: Op,
        offset_bytes: u64,
        length_bytes: u64,
    },
    /// The request has been served. `hit` is whether the cache's memory served it, which takes the
    /// access time of the memory.
    Ready { request: usize, hit: bool },
}

/// Purpose of accesses to a group.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// Fetch sectors for a read, or ahead of one.
    Fetch { range: Range<u64>, group: u32 },
    /// Write dirty segments, listed by slot, to the drives.
    Destage { group: u32, slots: Vec<u32> },
    /// Pass a write or unmap on to the drives. It completes when they have completed it.
    Through {
        request: usize,
        group: u32,
        /// Sectors to keep in the cache afterwards.
        keep: Range<u64>,
    },
}

/// The accesses to a group for one purpose.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Number of accesses that have not ended.
    pub(super) left: u32,
    pub(super) purpose: Purpose,
}

/// Counters of the cache. Bytes are multiples of the sector.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) read_hits: u64,
    pub(super) read_misses: u64,
    pub(super) readahead_hits: u64,
    pub(super) readahead_bytes: u64,
    pub(super) rewritten_bytes: u64,
    pub(super) discarded_bytes: u64,
    pub(super) destaged_bytes: u64,
    pub(super) destages: u64,
    pub(super) stalls: u64,
    pub(super) stall_ns: u64,
    pub(super) emptied: u64,
    pub(super) emptied_bytes: u64,
    pub(super) dirty_bytes: u64,
}

/// Segments, groups, and the accesses in flight between them.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) config: config::Cache,
    pub(super) segments: Segments,
    pub(super) groups: Vec<Group>,
    pub(super) counts: Counts,
    jobs: Slab<Job>,
    /// Number of accesses or segments that each request waits for.
    waits: Vec<u32>,
    actions: VecDeque<Action>,
}

/// The cache's view of a group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) capacity_sectors: u64,
    /// Number of sectors of a row, if a complete row can be written without reading.
    pub(super) row_sectors: Option<u64>,
    pub(super) last_request: Time,
    /// Number of destages in flight.
    pub(super) destages: u32,
    /// Number of writes that wait for room.
    pub(super) stalled: u32,
    /// Number of the segment from which the search for the next destage begins.
    pub(super) cursor: u64,
}

impl Core {
    /// Creates an empty cache in front of groups. Each group is given by its capacity and, if it
    /// has parity, the length of its rows, bytes.
    pub(super) fn new(
        config: &config::Cache,
        groups: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> Core {
        Core {
            segments: Segments::new(config.size_bytes, config.segment_bytes),
            groups: groups
                .map(|(capacity, row)| Group {
                    capacity_sectors: capacity / SECTOR_BYTES,
                    row_sectors: row.map(|bytes| bytes / SECTOR_BYTES),
                    last_request: Time::ZERO,
                    destages: 0,
                    stalled: 0,
                    cursor: 0,
                })
                .collect(),
            config: config.clone(),
            counts: Counts::default(),
            jobs: Slab::default(),
            waits: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// Returns the next action, oldest first.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Ends one access of a job. Returns the job's purpose if it was the last one.
    pub(super) fn end_access(&mut self, token: usize) -> Option<Purpose> {
        let job = &mut self.jobs[token];
        job.left -= 1;
        (job.left == 0).then(|| self.jobs.remove(token).purpose)
    }

    /// Marks sectors as held, if their segments find room. `ahead` is whether they were read ahead.
    pub(super) fn hold(&mut self, group: u32, range: Range<u64>, ahead: bool) {
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

    /// Starts an access to each of `ranges` (sectors).
    pub(super) fn start_job(
        &mut self,
        group: u32,
        op: Op,
        ranges: &[Range<u64>],
        purpose: Purpose,
    ) {
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

    /// Sets the number of accesses or segments that a request waits for.
    pub(super) fn set_waits(&mut self, request: usize, waits: u32) {
        if self.waits.len() <= request {
            self.waits.resize(request + 1, 0);
        }
        self.waits[request] = waits;
    }

    /// Ends one wait of a request, and completes the request after the last one.
    pub(super) fn end_wait(&mut self, request: usize) {
        let waits_left = &mut self.waits[request];
        *waits_left -= 1;
        if *waits_left == 0 {
            self.complete(request, false);
        }
    }

    /// Completes a request.
    pub(super) fn complete(&mut self, request: usize, hit: bool) {
        self.actions.push_back(Action::Ready { request, hit });
    }

    /// Returns the instant from which a group counts as idle if no further request arrives.
    pub(super) fn idle_from(&self, group: &Group) -> Time {
        Time(group.last_request.0 + (self.config.destage_idle_ms * 1e6) as u64)
    }
}
