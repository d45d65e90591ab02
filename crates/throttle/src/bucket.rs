//! One cap: its tokens, the accesses that wait for them, and its counters.
//!
//! Tokens are kept as time (the generic cell rate algorithm, ITU-T I.371 annex A): `full_at` is the
//! instant at which the bucket will be full. An access takes the time that its tokens need to grow
//! back. It may begin once the bucket lacks at most the burst, so an access larger than the burst
//! passes a full bucket and leaves a debt.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::route::Route;

/// Instant in units of 2^-16 ns. Instants of tokens are finer than those of the clock, so that
/// rounding changes no rate.
type Instant = u128;

const FRACTIONS: Instant = 1 << 16;

fn instant(time: Time) -> Instant {
    Instant::from(time.0) * FRACTIONS
}

/// A cap. At least one of the rates should be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Accesses per second, above 0. Default: no limit.
    pub accesses_per_s: Option<u64>,
    /// Bytes per second, above 0. Default: no limit.
    pub bytes_per_s: Option<u64>,
    /// Content of a full bucket, as time at the capped rate, ns. Accesses up to this amount pass
    /// without delay after an idle time. With 0, only one access does.
    pub burst_ns: u64,
}

/// Cumulative counters of a cap or of a class of shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapCounters {
    /// Accesses that passed.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Accesses that waited before they passed.
    pub delayed: u64,
    /// Sum of these waits, ns.
    pub wait_ns: u64,
    /// Accesses that wait now.
    pub waiting_now: u64,
}

/// An access that passes caps.
#[derive(Debug)]
pub(crate) struct Passing<T> {
    pub(crate) bytes: u64,
    pub(crate) route: Route,
    /// Position in `route` of the cap that the access is at.
    pub(crate) step: usize,
    pub(crate) item: T,
}

/// Tokens of one rate.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    per_s: u64,
    full_at: Instant,
}

/// A cap and its queue.
#[derive(Debug)]
pub(crate) struct Bucket<T> {
    burst_ns: u64,
    accesses: Option<Tokens>,
    bytes: Option<Tokens>,
    /// Accesses with the instants of their arrival, in order.
    waiting: VecDeque<(Time, Passing<T>)>,
    /// The deadline that the owner has queued.
    pub(crate) wake: Option<Time>,
    counters: CapCounters,
}

impl Tokens {
    fn new(per_s: u64) -> Tokens {
        Tokens { per_s, full_at: 0 }
    }

    /// Returns the earliest instant at which the bucket lacks at most `burst_ns`.
    fn ready_at(&self, burst_ns: u64) -> Instant {
        self.full_at.saturating_sub(instant(Time(burst_ns)))
    }

    fn take(&mut self, at: Instant, count: u64) {
        let growing = Instant::from(count) * 1_000_000_000 * FRACTIONS / Instant::from(self.per_s);
        self.full_at = self.full_at.max(at) + growing;
    }
}

impl<T> Bucket<T> {
    pub(crate) fn new(cap: &Cap) -> Bucket<T> {
        Bucket {
            burst_ns: cap.burst_ns,
            accesses: cap.accesses_per_s.map(Tokens::new),
            bytes: cap.bytes_per_s.map(Tokens::new),
            waiting: VecDeque::new(),
            wake: None,
            counters: CapCounters::default(),
        }
    }

    /// Passes an access that arrives at `now`, or queues it. Returns it if it has passed.
    pub(crate) fn admit(&mut self, now: Time, access: Passing<T>) -> Option<Passing<T>> {
        if !self.waiting.is_empty() || self.ready_at() > instant(now) {
            self.waiting.push_back((now, access));
            return None;
        }
        self.take(instant(now), access.bytes);
        Some(access)
    }

    /// Returns the first waiting access if it passes by `now`, and the instant at which it passed.
    pub(crate) fn release(&mut self, now: Time) -> Option<(Time, Passing<T>)> {
        let at = self.poll_timeout().filter(|at| *at <= now)?;
        let begin = self.first_passes_at()?;
        let (arrived, access) = self.waiting.pop_front()?;
        self.take(begin, access.bytes);
        let wait_ns = at.ns_since(arrived);
        self.counters.delayed += u64::from(wait_ns > 0);
        self.counters.wait_ns += wait_ns;
        Some((at, access))
    }

    /// Returns the instant at which the first waiting access passes.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let at = self.first_passes_at()?;
        Some(Time(at.div_ceil(FRACTIONS) as u64))
    }

    /// Removes a waiting access, which takes no token.
    pub(crate) fn remove(&mut self, is_wanted: &mut dyn FnMut(&T) -> bool) -> Option<T> {
        let mut waiting = self.waiting.iter();
        let index = waiting.position(|(_, access)| is_wanted(&access.item))?;
        self.waiting.remove(index).map(|(_, access)| access.item)
    }

    pub(crate) fn counters(&self) -> CapCounters {
        CapCounters {
            waiting_now: self.waiting.len() as u64,
            ..self.counters
        }
    }

    fn first_passes_at(&self) -> Option<Instant> {
        let (arrived, _) = self.waiting.front()?;
        Some(self.ready_at().max(instant(*arrived)))
    }

    fn ready_at(&self) -> Instant {
        let tokens = [self.accesses, self.bytes].into_iter().flatten();
        let ready = tokens.map(|tokens| tokens.ready_at(self.burst_ns));
        ready.max().unwrap_or(0)
    }

    fn take(&mut self, at: Instant, bytes: u64) {
        if let Some(tokens) = &mut self.accesses {
            tokens.take(at, 1);
        }
        if let Some(tokens) = &mut self.bytes {
            tokens.take(at, bytes);
        }
        self.counters.accesses += 1;
        self.counters.bytes += bytes;
    }
}
