//! Shares: a limit of the accesses in flight, and a fair order of those that wait for it.
//!
//! The order is start-time fair queueing for a server of a certain depth, SFQ(D) (Jin, Chase, Kaur:
//! Interposed proportional sharing for a storage service utility, SIGMETRICS 2004). An access of
//! class *c* that costs *k* begins at the virtual time `max(now, end of the previous access of c)`
//! and ends *k / share* later. Of the waiting accesses, the one that begins first is dispatched, and
//! the virtual time becomes its beginning. A class that is idle saves nothing up, and what it leaves
//! is divided among the others by their shares.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::bucket::CapCounters;
use crate::route::Scope;

/// Cost of an access in addition to its bytes, in bytes.
const ACCESS_BYTES: u64 = 16 << 10;

/// Virtual time that a byte of a class with share 1 takes.
const BYTE: u128 = 1 << 20;

/// Position of a class; that of the accesses in no configured class comes last.
pub type ClassIndex = usize;

#[derive(Debug)]
struct Class<T> {
    share: u32,
    /// Virtual end of the last access that arrived.
    end: u128,
    waiting: VecDeque<Waiting<T>>,
    counters: CapCounters,
}

impl<T> Class<T> {
    /// Returns the virtual time that an access takes.
    fn duration(&self, bytes: u64) -> u128 {
        u128::from(bytes + ACCESS_BYTES) * BYTE / u128::from(self.share)
    }
}

#[derive(Debug)]
struct Waiting<T> {
    arrived: Time,
    /// Virtual beginning.
    begin: u128,
    bytes: u64,
    item: T,
}

/// Classes of accesses of type `T`, of which a limited number is in flight.
#[derive(Debug)]
pub struct Shares<T> {
    scopes: Vec<Scope>,
    classes: Vec<Class<T>>,
    in_flight: u32,
    in_flight_max: u32,
    virtual_now: u128,
}

impl<T> Shares<T> {
    /// Creates shares of these classes, and of all other accesses, which have the share `others`.
    ///
    /// # Panics
    /// If a share or `in_flight_max` is 0.
    #[must_use]
    pub fn new(
        in_flight_max: u32,
        classes: impl IntoIterator<Item = (Scope, u32)>,
        others: u32,
    ) -> Shares<T> {
        let (scopes, mut shares): (Vec<Scope>, Vec<u32>) = classes.into_iter().unzip();
        shares.push(others);
        assert!(
            in_flight_max > 0 && shares.iter().all(|share| *share > 0),
            "shares and the limit of accesses in flight must be above 0"
        );
        let class = |share| Class {
            share,
            end: 0,
            waiting: VecDeque::new(),
            counters: CapCounters::default(),
        };
        Shares {
            scopes,
            classes: shares.into_iter().map(class).collect(),
            in_flight: 0,
            in_flight_max,
            virtual_now: 0,
        }
    }

    /// Returns the class of an access: the first one whose scope it is in.
    #[must_use]
    pub fn class_of(&self, lun: u8, initiator: Option<&str>) -> ClassIndex {
        let includes = |scope: &Scope| {
            scope.lun.is_none_or(|unit| unit == lun)
                && (scope.initiator.is_none() || scope.initiator.as_deref() == initiator)
        };
        let mut scopes = self.scopes.iter();
        scopes.position(includes).unwrap_or(self.scopes.len())
    }

    /// Handles an access that arrives at `now`. [`Shares::poll_dispatched`] returns it, at once if
    /// fewer than the maximum are in flight.
    pub fn handle_access(&mut self, now: Time, class: ClassIndex, bytes: u64, item: T) {
        let virtual_now = self.virtual_now;
        let class = &mut self.classes[class];
        let begin = class.end.max(virtual_now);
        class.end = begin + class.duration(bytes);
        class.waiting.push_back(Waiting {
            arrived: now,
            begin,
            bytes,
            item,
        });
    }

    /// Returns the next access to pass on at `now`. It is in flight until [`Shares::handle_done`].
    pub fn poll_dispatched(&mut self, now: Time) -> Option<T> {
        if self.in_flight >= self.in_flight_max {
            return None;
        }
        let begin = |class: &&mut Class<T>| class.waiting.front().map(|access| access.begin);
        let waiting = self.classes.iter_mut().filter(|c| !c.waiting.is_empty());
        let class = waiting.min_by_key(begin)?;
        let access = class.waiting.pop_front()?;
        let wait_ns = now.ns_since(access.arrived);
        let counters = &mut class.counters;
        counters.accesses += 1;
        counters.bytes += access.bytes;
        counters.delayed += u64::from(wait_ns > 0);
        counters.wait_ns += wait_ns;
        self.virtual_now = access.begin;
        self.in_flight += 1;
        Some(access.item)
    }

    /// Handles the end of an access that was dispatched.
    ///
    /// # Panics
    /// If none is in flight.
    pub fn handle_done(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("one is in flight");
    }

    /// Removes a waiting access, for which its class is not charged. Returns `None` if no such
    /// access waits.
    pub fn remove(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        self.classes.iter_mut().find_map(|class| {
            let mut waiting = class.waiting.iter();
            let index = waiting.position(|access| is_wanted(&access.item))?;
            let removed = class.waiting.remove(index)?;
            // Each later access begins at the end of the one before, and none of those that wait
            // begins before the virtual time. So those that move take the place of the removed one
            // and begin no earlier than the virtual time either.
            let saved = class.duration(removed.bytes);
            for later in class.waiting.range_mut(index..) {
                later.begin -= saved;
            }
            class.end -= saved;
            Some(removed.item)
        })
    }

    /// Returns the counters of every class; those of all other accesses come last.
    pub fn counters(&self) -> impl Iterator<Item = CapCounters> + '_ {
        self.classes.iter().map(|class| CapCounters {
            waiting_now: class.waiting.len() as u64,
            ..class.counters
        })
    }
}
