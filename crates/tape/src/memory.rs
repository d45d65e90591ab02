//! The memory of a cartridge, which has the host attributes.

use crate::attributes::HostAttributes;
use crate::journal::Record;
use crate::recorded::{MemoryTail, memory_offset_bytes, memory_record};
use crate::ticket::Ticket;

/// The memory of a cartridge. There are two copies on the store, which are written in turn, so that
/// the last values that were written stand while a copy is incomplete.
#[derive(Debug, Default)]
pub struct Memory {
    attributes: HostAttributes,
    /// First byte of the cartridge on the store. `None`: the values end with the process.
    base_bytes: Option<u64>,
    tail: MemoryTail,
    /// A copy that is being written, and the values before.
    pending: Option<(Ticket, HostAttributes)>,
}

impl Memory {
    /// Creates the memory of a cartridge that begins at `base_bytes` on its store.
    #[must_use]
    pub fn new(attributes: HostAttributes, base_bytes: u64, tail: MemoryTail) -> Memory {
        Memory {
            attributes,
            base_bytes: Some(base_bytes),
            tail,
            pending: None,
        }
    }

    /// Returns the values.
    #[must_use]
    pub fn attributes(&self) -> &HostAttributes {
        &self.attributes
    }

    pub(crate) fn is_busy(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|(ticket, _)| ticket.is_held())
    }

    /// Ends the copy that was written. If it may be missing, the values are those before.
    pub(crate) fn settle(&mut self) {
        match self.pending.take() {
            Some((ticket, _)) if ticket.is_done() => self.tail.copy = 1 - self.tail.copy,
            Some((_, before)) => self.attributes = before,
            None => {}
        }
    }

    /// Replaces the values. Returns the record that makes them durable.
    pub(crate) fn write(&mut self, attributes: HostAttributes) -> Option<Record> {
        let before = std::mem::replace(&mut self.attributes, attributes);
        let base_bytes = self.base_bytes?;
        self.tail.generation += 1;
        let ticket = Ticket::default();
        self.pending = Some((ticket.clone(), before));
        Some(Record {
            offset_bytes: base_bytes + memory_offset_bytes(self.tail.copy),
            bytes: memory_record(&self.attributes, self.tail.generation),
            flush: false,
            ticket,
            unused: None,
        })
    }
}
