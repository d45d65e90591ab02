//! The load of one VM: draws requests when they are due and counts their results. It does not know
//! how requests travel.
//!
//! 1. [`Load::poll_request`] gives a request when one is due and a place is free;
//! 2. the caller carries it out, over a [`hakaru_iscsi_session::Session`] or on a file;
//! 3. [`Load::handle_done`] frees the place, counts, and records the latency from the *intended* instant.
//!
//! Why the intended instant: a closed loop that waits for a stalled server issues nothing while it
//! waits, so most of the stall never shows (coordinated omission). An open load keeps its schedule,
//! and each request that should have been sent during the stall carries its share of the wait.
use hakaru_units::Time;

use crate::counters::Counters;
use crate::pacing::Pacing;
use crate::pattern::{Access, Accesses, Extent, Op};
use crate::verify::{Corruption, Verifier};
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_session::Phases;
use hakaru_stats::Latencies;

/// An open-loop request that is issued this much after its instant counts as late: the generator,
/// or its cap of requests in flight, was behind.
pub const LATE_NS: u64 = 1_000_000;

/// A request's place among those in flight, 0 to the in-flight maximum less one; free again once
/// the request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

/// A request to carry out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// To be given back to [`Load::handle_done`].
    pub id: RequestId,
    /// What to do.
    pub access: Access,
    /// When it was intended: now in a closed loop, now or earlier in an open one.
    pub due: Time,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    access: Access,
    due: Time,
}

/// The load of one VM.
#[derive(Debug)]
pub struct Load {
    accesses: Accesses,
    pacing: Pacing,
    issuing: bool,
    /// By [`RequestId`]; `None` is a free place.
    places: Box<[Option<InFlight>]>,
    /// Free places, the last one used next.
    free: Vec<u32>,
    /// An access that must wait until one it overlaps has ended (verification only).
    held: Option<Access>,
    counters: Counters,
    /// Until when `counters.outstanding_ns` is complete.
    integrated_to: Time,
    verifier: Option<Box<Verifier>>,
}

impl Load {
    /// The load of `vm` on `extent` of its volume. `vm` was validated and its region resolved with
    /// [`crate::resolve_region`].
    #[must_use]
    pub fn new(vm: &Vm, extent: Extent) -> Load {
        let pacing = Pacing::new(&vm.load, vm.seed);
        let places = pacing.in_flight_max();
        Load {
            accesses: Accesses::new(&vm.pattern, extent, vm.seed),
            pacing,
            issuing: false,
            places: vec![None; places as usize].into_boxed_slice(),
            free: (0..places).rev().collect(),
            held: None,
            counters: Counters::default(),
            integrated_to: Time::ZERO,
            verifier: None,
        }
    }

    /// Checks what is read and stamps what is written. Requests that would overlap one in flight
    /// wait for it.
    #[must_use]
    pub fn with_verifier(mut self, verifier: Verifier) -> Load {
        self.verifier = Some(Box::new(verifier));
        self
    }

    /// Begins to issue requests.
    pub fn begin(&mut self, now: Time) {
        self.issuing = true;
        self.integrated_to = now;
        if let Pacing::Open { schedule, .. } = &mut self.pacing {
            schedule.begin(now);
        }
    }

    /// Issues no more; requests in flight still end.
    pub fn end(&mut self) {
        self.issuing = false;
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The next request to carry out, if one is due.
    #[inline]
    pub fn poll_request(&mut self, now: Time) -> Option<Request> {
        if !self.issuing {
            return None;
        }
        let due = match &self.pacing {
            Pacing::Closed { .. } => now,
            Pacing::Open { schedule, .. } => schedule.due(),
        };
        if due > now || self.free.is_empty() {
            return None;
        }
        let access = self.next_access()?;
        if let Pacing::Open { schedule, .. } = &mut self.pacing {
            schedule.advance();
        }
        Some(self.issue(now, due, access))
    }

    /// When [`Load::poll_request`] is wanted next; `None` while only an ending request can bring
    /// the next one.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.pacing {
            Pacing::Open { schedule, .. }
                if self.issuing && !self.free.is_empty() && self.held.is_none() =>
            {
                Some(schedule.due())
            }
            _ => None,
        }
    }

    /// A request has ended: well if `done`, else failed. Its latency counts either way, so that
    /// failures cannot hide a tail.
    ///
    /// # Panics
    /// Panics if no such request is in flight: a defect of the caller.
    #[inline]
    pub fn handle_done(&mut self, now: Time, id: RequestId, done: bool, latencies: &mut Latencies) {
        self.integrate(now);
        let InFlight { access, due } = self.places[id.0 as usize]
            .take()
            .expect("the request is in flight");
        self.free.push(id.0);
        self.counters.in_flight_now -= 1;
        let latency_ns = now.ns_since(due);
        match access.op {
            Op::Read => latencies.read.record_ns(latency_ns),
            Op::Write => latencies.write.record_ns(latency_ns),
        }
        self.counters.count_request(&access, done, latency_ns);
        if let Some(verifier) = &mut self.verifier
            && done
            && access.op == Op::Write
        {
            verifier.acknowledge(&access);
        }
    }

    /// The path to the volume is lost: every request in flight ends as failed, with the time it has
    /// waited until now.
    pub fn handle_lost(&mut self, now: Time, latencies: &mut Latencies) {
        self.end();
        for place in 0..self.places.len() {
            if self.places[place].is_some() {
                self.handle_done(now, RequestId(place as u32), false, latencies);
            }
        }
    }

    /// The stamped bytes of a write that is in flight, into `out`. Does nothing without a verifier.
    pub fn stamp(&mut self, access: &Access, out: &mut Vec<u8>) {
        if let Some(verifier) = &mut self.verifier {
            verifier.stamp(access, out);
        }
    }

    /// Checks what a read in flight, or a part of it, has brought.
    ///
    /// # Errors
    /// [`Corruption`] names the first block that is not what it should be.
    pub fn check(&mut self, access: &Access, bytes: &[u8]) -> Result<(), Corruption> {
        match &mut self.verifier {
            Some(verifier) => verifier.check(access, bytes),
            None => Ok(()),
        }
    }

    /// The access of a request in flight.
    ///
    /// # Panics
    /// Panics if no such request is in flight: a defect of the caller.
    #[must_use]
    pub fn access(&self, id: RequestId) -> Access {
        self.places[id.0 as usize]
            .expect("the request is in flight")
            .access
    }

    /// Whether a verifier stamps and checks.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verifier.is_some()
    }

    /// Counts a retry after BUSY or TASK SET FULL.
    pub fn count_busy(&mut self, times: u64) {
        self.counters.busy += times;
    }

    /// Counts a command that has ended, and how long it was where.
    #[inline]
    pub fn count_command(&mut self, op: Op, phases: &Phases) {
        self.counters.count_command(op, phases);
    }

    /// Counters with every integral complete until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        self.integrate(now);
        self.counters
    }

    #[inline]
    fn next_access(&mut self) -> Option<Access> {
        let access = match self.held.take() {
            Some(held) => held,
            None => self.accesses.draw(),
        };
        if self.verifier.is_some()
            && self
                .places
                .iter()
                .flatten()
                .any(|other| other.access.overlaps(&access))
        {
            self.held = Some(access);
            return None;
        }
        Some(access)
    }

    #[inline]
    fn issue(&mut self, now: Time, due: Time, access: Access) -> Request {
        self.integrate(now);
        let behind_ns = now.ns_since(due);
        // Outstanding from its instant on, though it could not be sent before now.
        self.counters.outstanding_ns += behind_ns;
        self.counters.late_ns_sum += behind_ns;
        self.counters.late += u64::from(behind_ns > LATE_NS);
        self.counters.in_flight_now += 1;
        let place = self.free.pop().expect("poll_request saw a free place");
        self.places[place as usize] = Some(InFlight { access, due });
        Request {
            id: RequestId(place),
            access,
            due,
        }
    }

    #[inline]
    fn integrate(&mut self, now: Time) {
        if now > self.integrated_to {
            self.counters.outstanding_ns +=
                self.counters.in_flight_now * now.ns_since(self.integrated_to);
            self.integrated_to = now;
        }
    }
}
