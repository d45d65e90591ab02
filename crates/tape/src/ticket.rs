//! The state of a transfer, shared by the drive and the command that moves the bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Held by a command while it moves bytes. The drive is busy until the command drops it. A command
/// that was aborted drops it in the state that it has then.
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicU8>);

/// How a command has ended a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The command was aborted. The bytes may have been moved or not.
    Aborted,
    /// The bytes were moved.
    Done,
    /// The store has refused them, and the command has reported it.
    Failed,
    /// The store has refused them after the command was aborted, and no command has reported it.
    Lost,
}

const ENDS: [End; 4] = [End::Aborted, End::Done, End::Failed, End::Lost];

impl Ticket {
    /// Marks the bytes as moved.
    pub fn done(&self) {
        self.0.store(End::Done as u8, Ordering::Relaxed);
    }

    /// Marks the bytes as refused by the store. The command reports it. Bytes that were moved stay
    /// so.
    pub fn fail(&self) {
        self.end(End::Failed);
    }

    /// Marks the bytes as refused by the store after the command was aborted, so that a later
    /// command must report it. Bytes that were moved stay so.
    pub fn lose(&self) {
        self.end(End::Lost);
    }

    fn end(&self, end: End) {
        if !self.is_done() {
            self.0.store(end as u8, Ordering::Relaxed);
        }
    }

    /// Returns how a ticket has ended that is not held.
    pub(crate) fn ended(&self) -> End {
        ENDS[usize::from(self.0.load(Ordering::Relaxed))]
    }

    /// Whether the bytes were moved.
    pub(crate) fn is_done(&self) -> bool {
        self.ended() == End::Done
    }

    /// Whether the store could not move them.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.ended(), End::Failed | End::Lost)
    }

    /// Whether another owner than the drive still holds the ticket.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
