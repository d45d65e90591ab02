//! The timing model in front of the bytes: holds an access until its modelled instant.
use hakaru_drive::{Array, Op, Request};
use hakaru_units::Time;
use slab::Slab;

/// A range of a RAID group that an access moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// RAID group.
    pub(crate) group: u32,
    /// First byte of the group's usable space.
    pub(crate) offset_bytes: u64,
    /// Bytes; 0 costs the controller's time alone.
    pub(crate) length_bytes: u64,
}

/// Work of the drives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveWork {
    pub(crate) op: Op,
    /// A write that passes a volatile cache by.
    pub(crate) fua: bool,
}

/// Holds accesses, each known as a `T`.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    model: Array,
    held: Slab<HeldAccess<T>>,
}

#[derive(Debug)]
struct HeldAccess<T> {
    /// Requests of the model that have not ended.
    requests_left: u32,
    access: T,
}

impl<T> Gate<T> {
    /// In front of an idle model.
    pub(crate) fn new(model: Array) -> Gate<T> {
        Gate {
            model,
            held: Slab::new(),
        }
    }

    /// The model.
    pub(crate) fn model(&self) -> &Array {
        &self.model
    }

    /// Holds an access until the model has done the work on all its stretches, of which there is at
    /// least one.
    pub(crate) fn hold(
        &mut self,
        now: Time,
        access: T,
        DriveWork { op, fua }: DriveWork,
        stretches: impl ExactSizeIterator<Item = Stretch>,
    ) {
        let requests_left = stretches.len() as u32;
        assert!(
            requests_left > 0,
            "an access that needs no drive is not held"
        );
        let id = self.held.insert(HeldAccess {
            requests_left,
            access,
        });
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
                },
            );
        }
    }

    /// The time of [`Gate::poll_timeout`] may have come.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.model.handle_timeout(now);
    }

    /// When [`Gate::handle_timeout`] is wanted next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.model.poll_timeout()
    }

    /// The next access that may pass.
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

    /// Gives each of the model's counters; see [`Array::visit_counters`].
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.model.visit_counters(now, visit);
    }
}
