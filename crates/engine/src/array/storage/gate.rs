//! The timing model in front of the bytes: holds an access until its modelled instant.
use hakaru_drive::{Array, Op, Request};
use hakaru_units::Time;

use super::slab::Slab;

/// A stretch of a RAID group that an access moves.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// RAID group.
    pub group: u32,
    /// First byte of the group's usable space.
    pub offset_bytes: u64,
    /// Bytes; 0 costs the controller's time alone.
    pub length_bytes: u64,
}

/// What the drives are to do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Read, write, flush.
    pub op: Op,
    /// A write that goes past a volatile cache.
    pub fua: bool,
}

/// Holds accesses, each called a `T`.
pub struct Gate<T> {
    model: Array,
    held: Slab<Held<T>>,
}

struct Held<T> {
    /// Requests of the model that have not ended.
    left: u32,
    what: T,
}

impl<T> Gate<T> {
    /// In front of an idle model.
    pub fn new(model: Array) -> Gate<T> {
        Gate {
            model,
            held: Slab::default(),
        }
    }

    /// The model.
    pub fn model(&self) -> &Array {
        &self.model
    }

    /// Holds `what` until the model has done the work on all the stretches, of which there is at least one.
    pub fn hold(
        &mut self,
        now: Time,
        what: T,
        Work { op, fua }: Work,
        stretches: impl ExactSizeIterator<Item = Stretch>,
    ) {
        let left = stretches.len() as u32;
        assert!(left > 0, "what needs nothing is not held");
        let id = self.held.insert(Held { left, what });
        for stretch in stretches {
            self.model.handle_request(
                now,
                Request {
                    id,
                    group: stretch.group,
                    op,
                    offset_bytes: stretch.offset_bytes,
                    length_bytes: stretch.length_bytes,
                    fua,
                },
            );
        }
    }

    /// The model may have something to let pass.
    pub fn handle_timeout(&mut self, now: Time) {
        self.model.handle_timeout(now);
    }

    /// When [`Gate::handle_timeout`] is wanted next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.model.poll_timeout()
    }

    /// The next that may pass.
    pub fn poll_passed(&mut self) -> Option<T> {
        loop {
            let completion = self.model.poll_completion()?;
            let held = self.held.get_mut(completion.id);
            held.left -= 1;
            if held.left == 0 {
                return Some(self.held.remove(completion.id).what);
            }
        }
    }

    /// Gives each of the model's counters; see [`Array::visit_counters`].
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.model.visit_counters(now, visit);
    }
}
