//! The timing model in front of the stores. It holds each access until its modelled completion.
use hakaru_drive::{Array, Emptied, Op, Request};
use hakaru_units::Time;
use slab::Slab;

/// Range of a RAID group that an access transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// RAID group.
    pub(crate) group: u32,
    /// First byte of the group's usable space.
    pub(crate) offset_bytes: u64,
    /// Length, bytes; 0 costs only the controller's time.
    pub(crate) length_bytes: u64,
    /// No drive has the range ([`Request::unmapped`]).
    pub(crate) unmapped: bool,
}

/// Work of the drives for one access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveWork {
    pub(crate) op: Op,
    /// Forced unit access: a write that bypasses a volatile cache.
    pub(crate) fua: bool,
    /// Data that crosses the port, if not that of the stretches ([`Request::received_bytes`]).
    pub(crate) received_bytes: Option<u64>,
}

/// Gate that holds accesses, each identified by a `T`.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    model: Array,
    held: Slab<HeldAccess<T>>,
}

#[derive(Debug)]
struct HeldAccess<T> {
    /// The model's requests in flight for this access.
    requests_left: u32,
    access: T,
}

impl<T> Gate<T> {
    /// Creates a gate in front of an idle model.
    pub(crate) fn new(model: Array) -> Gate<T> {
        Gate {
            model,
            held: Slab::new(),
        }
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Array {
        &self.model
    }

    /// Drops what the modelled cache holds and the drives have.
    pub(crate) fn empty_cache(&mut self, now: Time) -> Emptied {
        self.model.empty_cache(now)
    }

    /// Holds an access until the model has completed the work on all its stretches, of which there
    /// is at least one.
    pub(crate) fn hold(
        &mut self,
        now: Time,
        access: T,
        work: DriveWork,
        stretches: impl ExactSizeIterator<Item = Stretch>,
    ) {
        let requests_left = stretches.len() as u32;
        assert!(
            requests_left > 0,
            "an access without drive work must not be held"
        );
        let id = self.held.insert(HeldAccess {
            requests_left,
            access,
        });
        let DriveWork {
            op,
            fua,
            mut received_bytes,
        } = work;
        for stretch in stretches {
            self.model.handle_request(
                now,
                Request {
                    id: id as u64,
                    group: stretch.group,
                    op,
                    offset_bytes: stretch.offset_bytes,
                    length_bytes: stretch.length_bytes,
                    fua,
                    received_bytes,
                    unmapped: stretch.unmapped,
                },
            );
            // They cross the port once.
            received_bytes = received_bytes.map(|_| 0);
        }
    }

    /// Handles the model's deadlines that have passed.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.model.handle_timeout(now);
    }

    /// Returns when [`Gate::handle_timeout`] must be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.model.poll_timeout()
    }

    /// Returns the next access that the model has completed.
    pub(crate) fn poll_passed(&mut self) -> Option<T> {
        loop {
            let completion = self.model.poll_completion()?;
            let id = completion.id as usize;
            let held = &mut self.held[id];
            held.requests_left -= 1;
            if held.requests_left == 0 {
                return Some(self.held.remove(id).access);
            }
        }
    }

    /// Calls `visit` with each of the model's counters; see [`Array::visit_counters`].
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.model.visit_counters(now, visit);
    }
}
