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
//!
//! For the same reason, the latency of an open-loop request belongs to the phase in which the
//! request is due ([`Load::measure`], [`Load::end`]). One that is in flight at the end of the
//! measuring phase counts when it completes. One that was due and not issued by then counts with
//! the time that it has waited, which its latency would have exceeded. The latency of a closed-loop
//! request belongs to the phase in which it completes.
use std::time::Duration;

use hakaru_units::Time;

use crate::corruption::Corruption;
use crate::counters::Counters;
use crate::pacing::Pacing;
use crate::pattern::{Access, Accesses, Extent, Op};
use crate::verify::Verifier;
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_session::Phases;
use hakaru_stats::{Latencies, Latency};

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
    /// Whether the measuring phase has begun.
    is_measured: bool,
    /// Latencies of requests that were due earlier are not recorded.
    counts_from: Time,
    /// Whether the measuring phase of an open loop has ended. All requests in flight belong to it.
    after_phase: bool,
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
            counts_from: Time::ZERO,
            is_measured: false,
            after_phase: false,
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

    /// Begins the measuring phase. From now on, the latencies of open-loop requests that were due
    /// before are not recorded.
    pub fn measure(&mut self, now: Time) {
        self.is_measured = true;
        if let Pacing::Open { .. } = self.pacing {
            self.counts_from = now;
        }
    }

    /// Ends the load, and the measuring phase if it has begun: issues no further requests. Requests
    /// in flight still complete. Open-loop requests that are due by over [`LATE_NS`] and were not
    /// issued count as `unissued`, each with the time it has waited as its latency.
    pub fn end(&mut self, now: Time, latencies: &mut Latencies) {
        let was_issuing = std::mem::replace(&mut self.issuing, false);
        if !was_issuing || !self.is_measured {
            return;
        }
        let late_by = Duration::from_nanos(LATE_NS);
        while let Pacing::Open { schedule, .. } = &mut self.pacing {
            self.after_phase = true;
            let due = schedule.due();
            if due + late_by >= now {
                return;
            }
            schedule.advance();
            let deferred = self.deferred.take();
            let access = deferred.unwrap_or_else(|| self.accesses.draw());
            if due >= self.counts_from {
                self.counters.unissued += 1;
                self.record(access.op, now.ns_since(due), latencies);
            }
        }
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
        if success && due >= self.counts_from {
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
        self.issuing = false;
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                self.handle_done(now, RequestId(slot as u32), false, latencies);
            }
        }
    }

    #[inline]
    fn record(&self, op: Op, latency_ns: u64, latencies: &mut Latencies) {
        let record = if self.after_phase {
            Latency::record_after_phase_ns
        } else {
            Latency::record_ns
        };
        match op {
            Op::Read => record(&mut latencies.read, latency_ns),
            Op::Write => record(&mut latencies.write, latency_ns),
        }
        if let Some(group) = self.group {
            let latencies = latencies.group_mut(group);
            match op {
                Op::Read => record(&mut latencies.read, latency_ns),
                Op::Write => record(&mut latencies.write, latency_ns),
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
