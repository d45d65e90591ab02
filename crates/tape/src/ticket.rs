//! The state of a transfer, shared by the drive and the command that moves the bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Held by a command while it moves bytes. The drive is busy until the command drops it. A command
/// that ends early, because of an error or because it was aborted, drops it without [`Ticket::done`].
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicBool>);

impl Ticket {
    /// Marks the bytes as moved.
    pub fn done(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the bytes were moved.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether another owner than the drive still holds the ticket.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
