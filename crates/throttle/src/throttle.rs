//! All caps, and the queue of their deadlines.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_units::Time;

use crate::bucket::{Bucket, Cap, CapCounters, Passing};
use crate::route::{Route, Routes, Scope};

/// Caps that accesses of type `T` pass. The crate's documentation gives the order of the calls.
#[derive(Debug)]
pub struct Throttle<T> {
    routes: Routes,
    buckets: Vec<Bucket<T>>,
    /// Deadlines of the buckets, at most one of each.
    wakes: BinaryHeap<Reverse<(Time, usize)>>,
    passed: VecDeque<T>,
}

impl<T> Throttle<T> {
    /// Creates a throttle of these caps, whose positions identify them.
    ///
    /// # Panics
    /// If a rate is 0.
    #[must_use]
    pub fn new(caps: impl IntoIterator<Item = (Scope, Cap)>) -> Throttle<T> {
        let (scopes, caps): (Vec<Scope>, Vec<Cap>) = caps.into_iter().unzip();
        let rates = caps
            .iter()
            .flat_map(|cap| [cap.accesses_per_s, cap.bytes_per_s]);
        assert!(
            rates.flatten().all(|rate| rate > 0),
            "the rate of a cap must be above 0"
        );
        Throttle {
            routes: Routes::new(scopes),
            buckets: caps.iter().map(Bucket::new).collect(),
            wakes: BinaryHeap::new(),
            passed: VecDeque::new(),
        }
    }

    /// Whether there are no caps at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the caps that an access passes. `initiator`: iSCSI name; `None` if its session has
    /// ended, in which case caps of an initiator do not apply.
    pub fn route(&mut self, lun: u8, initiator: Option<&str>) -> Route {
        self.routes.find(lun, initiator)
    }

    /// Handles an access of `bytes` that arrives at `now`, which no call may precede in time by more
    /// than the lateness of the caller.
    pub fn handle_access(&mut self, now: Time, bytes: u64, route: Route, item: T) {
        let access = Passing {
            bytes,
            route,
            step: 0,
            item,
        };
        self.advance(now, access);
    }

    /// Passes the accesses whose instant has come.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&Reverse((at, index))) = self.wakes.peek() {
            if at > now {
                return;
            }
            self.wakes.pop();
            self.buckets[index].wake = None;
            // One access per deadline, so that accesses reach the next caps in order of time.
            if let Some((passed_at, mut access)) = self.buckets[index].release(at) {
                access.step += 1;
                self.advance(passed_at, access);
            }
            self.schedule(index);
        }
    }

    /// Returns when [`Throttle::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the next access that has passed all of its caps.
    pub fn poll_passed(&mut self) -> Option<T> {
        self.passed.pop_front()
    }

    /// Removes an access that waits for a cap. Returns `None` if no such access waits.
    pub fn remove(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let mut buckets = self.buckets.iter_mut();
        buckets.find_map(|bucket| bucket.remove(&mut is_wanted))
    }

    /// Returns the counters of every cap, in order.
    pub fn counters(&self) -> impl Iterator<Item = CapCounters> + '_ {
        self.buckets.iter().map(Bucket::counters)
    }

    /// Passes an access through its caps, up to the first one that makes it wait.
    fn advance(&mut self, now: Time, mut access: Passing<T>) {
        while let Some(&index) = access.route.get(access.step) {
            match self.buckets[index].admit(now, access) {
                Some(passed) => access = passed,
                None => return self.schedule(index),
            }
            access.step += 1;
        }
        self.passed.push_back(access.item);
    }

    /// Queues the deadline of a bucket, unless one is queued. The queued one is never too late,
    /// because removing the first access of a bucket makes no other pass earlier.
    fn schedule(&mut self, index: usize) {
        let bucket = &mut self.buckets[index];
        if let (None, Some(at)) = (bucket.wake, bucket.poll_timeout()) {
            bucket.wake = Some(at);
            self.wakes.push(Reverse((at, index)));
        }
    }
}
