//! The way back of a page: dropped, committed, no access in flight, discarded, synced, free.

use std::collections::{BTreeSet, VecDeque};

use crate::action::{ActionFailure, ActionKind};
use crate::group::{self, GroupId, Run};
use crate::map::PageId;
use crate::pool::{Pending, Pool};

/// Discards under way at a time: enough to keep a device busy, few enough to leave it to others.
const DISCARDS_MAX: usize = 16;
/// The longest discard, in bytes: others get their turn between two of them.
const DISCARD_BYTES_MAX: u64 = 1 << 30;
/// Pages in the first batch after opening, which is kept small so that the first writes need not wait for the whole pool.
const FIRST_BATCH_PAGES: u32 = 4096;

/// Pages on their way back.
#[derive(Debug, Default)]
pub(crate) struct Recycler {
    /// Dropped references whose commit is durable, with the epoch they were dropped in.
    committed: VecDeque<(u64, Vec<PageId>)>,
    /// Nobody counts on these any more.
    ready: Vec<Run>,
    running: Option<Batch>,
    /// A batch has come back since the pool was opened.
    is_warm: bool,
}

#[derive(Debug)]
struct Batch {
    runs: Vec<Run>,
    /// Of `runs`: handed out.
    begun: usize,
    in_flight: usize,
    failed: BTreeSet<usize>,
}

impl Recycler {
    pub(crate) fn add_committed(&mut self, epoch: u64, dropped: Vec<PageId>) {
        self.committed.push_back((epoch, dropped));
    }

    /// Pages that no map names: at opening, or of a new group.
    pub(crate) fn add_ready(&mut self, runs: impl IntoIterator<Item = Run>) {
        self.ready.extend(runs);
    }

    /// What is discarded next: all that is ready, in order and as long runs, the first time only a few pages.
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
}

impl Pool {
    pub(crate) fn run_recycler(&mut self) {
        if self.read_only {
            return;
        }
        while let Some((epoch, _)) = self.recycler.committed.front()
            && self.epochs.is_over(*epoch)
        {
            let (_, dropped) = self.recycler.committed.pop_front().expect("seen above");
            for page in dropped {
                if self.group(page.group).settle(page.page) {
                    self.recycler.ready.push(Run {
                        group: page.group,
                        first: page.page,
                        pages: 1,
                    });
                }
            }
        }
        if self.recycler.running.is_none() && !self.recycler.ready.is_empty() {
            let runs = self.recycler.take_batch(self.page_bytes);
            self.recycler.running = Some(Batch {
                runs,
                begun: 0,
                in_flight: 0,
                failed: BTreeSet::new(),
            });
        }
        self.begin_discards();
    }

    fn begin_discards(&mut self) {
        while let Some(batch) = &mut self.recycler.running
            && batch.begun < batch.runs.len()
            && batch.in_flight < DISCARDS_MAX
        {
            let index = batch.begun;
            let run = batch.runs[index];
            batch.begun += 1;
            batch.in_flight += 1;
            let action = ActionKind::Discard {
                place: group::place(run.group, run.first, self.page_bytes),
                length_bytes: u64::from(run.pages) * u64::from(self.page_bytes),
            };
            self.act(action, Pending::Discard { index });
        }
    }

    pub(crate) fn handle_discarded(&mut self, index: usize, result: Result<(), ActionFailure>) {
        let batch = self
            .recycler
            .running
            .as_mut()
            .expect("discards belong to a batch");
        batch.in_flight -= 1;
        if result.is_err() {
            batch.failed.insert(index);
        }
        if batch.in_flight > 0 || batch.begun < batch.runs.len() {
            return;
        }
        let groups: BTreeSet<GroupId> = batch.runs.iter().map(|run| run.group).collect();
        let groups = groups.into_iter().collect();
        self.act(ActionKind::Sync { groups }, Pending::RecycleSync);
    }

    pub(crate) fn handle_recycle_synced(&mut self, result: Result<(), ActionFailure>) {
        if result.is_err() {
            self.set_read_only();
            return;
        }
        let batch = self.recycler.running.take().expect("a sync ends a batch");
        for (index, run) in batch.runs.into_iter().enumerate() {
            if batch.failed.contains(&index) {
                self.group(run.group).set_lost(run);
            } else {
                self.group(run.group).set_free(run);
            }
        }
        self.recycler.is_warm = true;
        self.retry = true;
    }
}
