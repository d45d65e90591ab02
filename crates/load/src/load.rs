//! The load of one VM: draws requests when they are due and counts their results. It is independent
//! of the transport.
//!
//! 1. [`Load::poll_request`] returns a request if one is due and a slot is free.
//! 2. The caller executes it, over a [`hakaru_iscsi_session::Session`] or on a file.
//! 3. [`Load::handle_done`] frees the slot, counts, and records the latency from the *intended*
//!    instant.
//!
//! The intended instant avoids coordinated omission: a closed loop issues no request while it waits
//! for a stalled server, so most of the stall never shows. An open loop keeps its schedule, and
//! each request that falls due during the stall includes its share of the wait.
use hakaru_units::Time;

use crate::corruption::Corruption;
use crate::counters::Counters;
use crate::pacing::Pacing;
use crate::pattern::{Access, Accesses, Extent, Op};
use crate::verify::Verifier;
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_session::Phases;
use hakaru_stats::Latencies;

/// Delay beyond which an open-loop request counts as late, nanoseconds. The generator was too slow,
/// or all its requests were in flight.
pub const LATE_NS: u64 = 1_000_000;

/// Slot of a request in flight, 0 to the in-flight maximum less one; reused once the request is
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

/// A request to execute now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identifier, passed to [`Load::handle_done`].
    pub id: RequestId,
    /// Operation and range.
    pub access: Access,
    /// Intended instant: now in a closed loop, now or earlier in an open loop.
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
    /// Group of the VM, if it belongs to one.
    group: Option<u8>,
    issuing: bool,
    /// Slots by [`RequestId`]; `None` is a free slot.
    slots: Box<[Option<InFlight>]>,
    /// Free slots; the last is used next.
    free: Vec<u32>,
    /// An access that waits until an overlapping access has ended (verification only).
    deferred: Option<Access>,
    counters: Counters,
    /// Instant up to which `counters.outstanding_ns` is complete.
    integrated_to: Time,
    verifier: Option<Box<Verifier>>,
}

impl Load {
    /// Creates the load of `vm` on `extent` of its volume. `vm` was validated and its region
    /// resolved with [`crate::resolve_region`].
    #[must_use]
    pub fn new(vm: &Vm, extent: Extent) -> Load {
        let pacing = Pacing::new(&vm.load, vm.seed);
        let slots = pacing.in_flight_max();
        Load {
            accesses: Accesses::new(&vm.pattern, extent, vm.seed),
            pacing,
            group: vm.group,
            issuing: false,
            slots: vec![None; slots as usize].into_boxed_slice(),
            free: (0..slots).rev().collect(),
            deferred: None,
            counters: Counters::default(),
            integrated_to: Time::ZERO,
            verifier: None,
        }
    }

    /// Enables verification: stamps writes and checks reads. A request that overlaps a request in
    /// flight waits until the latter completes.
    #[must_use]
    pub fn with_verifier(mut self, verifier: Verifier) -> Load {
        self.verifier = Some(Box::new(verifier));
        self
    }

    /// Starts issuing requests.
    pub fn begin(&mut self, now: Time) {
        self.issuing = true;
        self.integrated_to = now;
        if let Pacing::Open { schedule, .. } = &mut self.pacing {
            schedule.begin(now);
        }
    }

    /// Stops issuing requests. Requests in flight still complete.
    pub fn end(&mut self) {
        self.issuing = false;
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the next request to execute, if one is due.
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

    /// Returns when [`Load::poll_request`] must be called next. `None` while only a completion can
    /// make the next request due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.pacing {
            Pacing::Open { schedule, .. }
                if self.issuing && !self.free.is_empty() && self.deferred.is_none() =>
            {
                Some(schedule.due())
            }
            _ => None,
        }
    }

    /// Completes a request, successful or failed. Only the latency of a successful one counts: a
    /// failed one has none, and is counted as an error.
    ///
    /// # Panics
    /// Panics if no such request is in flight: a defect of the caller.
    #[inline]
    pub fn handle_done(
        &mut self,
        now: Time,
        id: RequestId,
        success: bool,
        latencies: &mut Latencies,
    ) {
        let InFlight { access, due } = self.slots[id.0 as usize]
            .take()
            .expect("the request is in flight");
        let now = now.max(due);
        self.integrate(now);
        // A response may have arrived before the newest event, to which the integral extends.
        self.counters.outstanding_ns -= self.integrated_to.ns_since(now);
        self.free.push(id.0);
        self.counters.in_flight_now -= 1;
        let latency_ns = now.ns_since(due);
        if success {
            self.record(access.op, latency_ns, latencies);
        }
        self.counters.count_request(&access, success, latency_ns);
        if let Some(verifier) = &mut self.verifier
            && success
            && access.op == Op::Write
        {
            verifier.acknowledge(&access);
        }
    }

    /// Fails every request in flight, because the path to the volume is lost.
    pub fn handle_lost(&mut self, now: Time, latencies: &mut Latencies) {
        self.end();
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                self.handle_done(now, RequestId(slot as u32), false, latencies);
            }
        }
    }

    #[inline]
    fn record(&self, op: Op, latency_ns: u64, latencies: &mut Latencies) {
        match op {
            Op::Read => latencies.read.record_ns(latency_ns),
            Op::Write => latencies.write.record_ns(latency_ns),
        }
        if let Some(group) = self.group {
            let latencies = latencies.group_mut(group);
            match op {
                Op::Read => latencies.read.record_ns(latency_ns),
                Op::Write => latencies.write.record_ns(latency_ns),
            }
        }
    }

    /// Writes the stamped bytes of a write in flight into `out`. Does nothing without a verifier.
    pub fn stamp(&mut self, access: &Access, out: &mut Vec<u8>) {
        if let Some(verifier) = &mut self.verifier {
            verifier.stamp(access, out);
        }
    }

    /// Checks the data of a read in flight, or of a part of it.
    ///
    /// # Errors
    /// [`Corruption`] names the first invalid block.
    pub fn check(&mut self, access: &Access, bytes: &[u8]) -> Result<(), Corruption> {
        match &mut self.verifier {
            Some(verifier) => verifier.check(access, bytes),
            None => Ok(()),
        }
    }

    /// Returns the access of a request in flight.
    ///
    /// # Panics
    /// Panics if no such request is in flight: a defect of the caller.
    #[must_use]
    pub fn access(&self, id: RequestId) -> Access {
        self.slots[id.0 as usize]
            .expect("the request is in flight")
            .access
    }

    /// Returns whether a verifier stamps and checks.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verifier.is_some()
    }

    /// Counts retries after BUSY or TASK SET FULL.
    pub fn count_busy(&mut self, times: u64) {
        self.counters.busy += times;
    }

    /// Counts a completed command and its phases.
    #[inline]
    pub fn count_command(&mut self, op: Op, phases: &Phases) {
        self.counters.count_command(op, phases);
    }

    /// Returns the counters with every integral complete until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        self.integrate(now);
        self.counters
    }

    #[inline]
    fn next_access(&mut self) -> Option<Access> {
        let access = match self.deferred.take() {
            Some(access) => access,
            None => self.accesses.draw(),
        };
        if self.verifier.is_some()
            && self
                .slots
                .iter()
                .flatten()
                .any(|other| other.access.overlaps(&access))
        {
            self.deferred = Some(access);
            return None;
        }
        Some(access)
    }

    #[inline]
    fn issue(&mut self, now: Time, due: Time, access: Access) -> Request {
        self.integrate(now);
        let delay_ns = now.ns_since(due);
        // The request counts as outstanding from its due instant, even if it was issued late.
        self.counters.outstanding_ns += delay_ns;
        self.counters.late_ns_sum += delay_ns;
        self.counters.late += u64::from(delay_ns > LATE_NS);
        self.counters.in_flight_now += 1;
        let slot = self
            .free
            .pop()
            .expect("poll_request checked that a slot is free");
        self.slots[slot as usize] = Some(InFlight { access, due });
        Request {
            id: RequestId(slot),
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
