//! Recycling of a page: dropped, committed, untouched by accesses in flight, discarded, synced,
//! free.

use std::collections::{BTreeSet, VecDeque};

use crate::action::{ActionFailure, ActionKind};
use crate::actions::{Actions, Pending};
use crate::alloc::epoch::Epochs;
use crate::alloc::group::{Group, References, Run};
use crate::map::PageId;
use crate::place::{GroupId, Place};

/// Maximum number of concurrent discards: enough to keep a device busy, few enough to leave
/// capacity to other operations.
const DISCARDS_MAX: usize = 16;
/// Longest discard, bytes, so that other operations proceed in between.
const DISCARD_BYTES_MAX: u64 = 1 << 30;
/// Pages in the first batch after opening. Small, so that the first writes need not wait for the
/// whole pool.
const FIRST_BATCH_PAGES: u32 = 4096;

/// Pages being recycled.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    /// References whose removal is durable, with the epoch in which they were dropped.
    committed: VecDeque<(u64, Vec<PageId>)>,
    /// Pages without references.
    ready: Vec<Run>,
    running: Option<Batch>,
    /// Whether a batch has completed since the pool was opened.
    is_warm: bool,
}

#[derive(Debug)]
struct Batch {
    runs: Vec<Run>,
    /// Number of `runs` that were started.
    started: usize,
    in_flight: usize,
    failed: BTreeSet<usize>,
}

impl Recycler {
    pub(crate) fn add_committed(&mut self, epoch: u64, dropped: Vec<PageId>) {
        self.committed.push_back((epoch, dropped));
    }

    /// Adds pages that no map references, of a pool that is being opened or of a new group.
    pub(crate) fn add_ready(&mut self, runs: impl IntoIterator<Item = Run>) {
        self.ready.extend(runs);
    }

    /// Removes and returns the next runs to discard, sorted and merged. The first batch after
    /// opening has at most [`FIRST_BATCH_PAGES`] pages.
    fn take_batch(&mut self, page_bytes: u32) -> Vec<Run> {
        self.ready.sort_unstable();
        let longest = (DISCARD_BYTES_MAX / u64::from(page_bytes)) as u32;
        let mut budget = if self.is_warm {
            u32::MAX
        } else {
            FIRST_BATCH_PAGES
        };
        let mut runs: Vec<Run> = Vec::new();
        let mut later = Vec::new();
        for mut run in self.ready.drain(..) {
            while run.pages > 0 {
                let pages = run.pages.min(longest).min(budget);
                if pages == 0 {
                    later.push(run);
                    break;
                }
                budget -= if self.is_warm { 0 } else { pages };
                match runs.last_mut() {
                    Some(last)
                        if last.group == run.group
                            && last.first + last.pages == run.first
                            && last.pages + pages <= longest =>
                    {
                        last.pages += pages;
                    }
                    _ => runs.push(Run { pages, ..run }),
                }
                run.first += pages;
                run.pages -= pages;
            }
        }
        self.ready = later;
        runs
    }

    /// Collects pages that no access in flight can touch, and discards a batch of them if none is
    /// in progress. Returns whether a page has exactly one reference left.
    pub(super) fn run(
        &mut self,
        groups: &mut [Group],
        epochs: &Epochs,
        page_bytes: u32,
        actions: &mut Actions,
    ) -> bool {
        let mut is_exclusive = false;
        while let Some((epoch, _)) = self.committed.front()
            && epochs.is_over(*epoch)
        {
            let (_, dropped) = self.committed.pop_front().expect("checked above");
            for page in dropped {
                let left = groups[page.group.index()].settle(page.page);
                is_exclusive |= (left.live, left.dropping) == (1, 0);
                if left == References::default() {
                    self.ready.push(Run {
                        group: page.group,
                        first: page.page,
                        pages: 1,
                    });
                }
            }
        }
        if self.running.is_none() && !self.ready.is_empty() {
            self.running = Some(Batch {
                runs: self.take_batch(page_bytes),
                started: 0,
                in_flight: 0,
                failed: BTreeSet::new(),
            });
        }
        self.begin_discards(page_bytes, actions);
        is_exclusive
    }

    fn begin_discards(&mut self, page_bytes: u32, actions: &mut Actions) {
        while let Some(batch) = &mut self.running
            && batch.started < batch.runs.len()
            && batch.in_flight < DISCARDS_MAX
        {
            let index = batch.started;
            let run = batch.runs[index];
            batch.started += 1;
            batch.in_flight += 1;
            let action = ActionKind::Discard {
                place: Place::of_page(run.group, run.first, page_bytes),
                length_bytes: u64::from(run.pages) * u64::from(page_bytes),
            };
            actions.start(action, Pending::Discard { index });
        }
    }

    /// Handles a completed discard. After the last of a batch, its groups are synced.
    pub(crate) fn handle_discarded(
        &mut self,
        index: usize,
        result: Result<(), ActionFailure>,
        actions: &mut Actions,
    ) {
        let batch = self.running.as_mut();
        let batch = batch.expect("discards belong to a batch");
        batch.in_flight -= 1;
        if result.is_err() {
            batch.failed.insert(index);
        }
        if batch.in_flight > 0 || batch.started < batch.runs.len() {
            return;
        }
        let groups: BTreeSet<GroupId> = batch.runs.iter().map(|run| run.group).collect();
        let groups = groups.into_iter().collect();
        actions.start(ActionKind::Sync { groups }, Pending::RecycleSync);
    }

    /// Completes a batch that is on stable storage: its pages are free, or lost if they could not
    /// be discarded.
    pub(super) fn end_batch(&mut self, groups: &mut [Group]) {
        let batch = self.running.take().expect("a sync ends a batch");
        for (index, run) in batch.runs.into_iter().enumerate() {
            let group = &mut groups[run.group.index()];
            if batch.failed.contains(&index) {
                group.set_lost(run);
            } else {
                group.set_free(run);
            }
        }
        self.is_warm = true;
    }
}
