//! The state of a transfer, shared by the drive and the command that moves the bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// Held by a command while it moves bytes. The drive is busy until the command drops it. A command
/// that was aborted drops it without [`Ticket::done`] or [`Ticket::fail`].
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Marks the bytes as moved.
    pub fn done(&self) {
        self.0.store(DONE, Ordering::Relaxed);
    }

    /// Notes that the store could not move the bytes, unless they were moved before.
    pub fn fail(&self) {
        let relaxed = Ordering::Relaxed;
        // The result is only whether the ticket was open.
        let _ = self.0.compare_exchange(OPEN, FAILED, relaxed, relaxed);
    }

    /// Whether the bytes were moved.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DONE
    }

    /// Whether the store could not move them.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FAILED
    }

    /// Whether another owner than the drive still holds the ticket.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
