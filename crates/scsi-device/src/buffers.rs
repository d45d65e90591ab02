//! The pool of buffers, and the write budget.
//!
//! Two limits bound the write data that initiators can make the target hold: one for all sessions
//! together, which is here, and one for each session, which the session keeps. A write reserves its
//! bytes before its first byte is stored. The memory in use therefore never exceeds the
//! reservations (rounded up to the size of a class).

use crate::io::IoResult;

/// Capacity of the smallest class of buffers; each class is twice the one before.
const SMALLEST_BYTES: usize = 4 << 10;
/// Number of classes: 4 KiB to 16 MiB.
const CLASSES: usize = 13;
/// Maximum size of all spare buffers together, bytes.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// The pool of buffers and the write budget.
#[derive(Debug)]
pub struct Buffers {
    spare: [Vec<Vec<u8>>; CLASSES],
    spare_bytes: usize,
    reserved_bytes: u64,
    reserved_bytes_max: u64,
}

/// Returns the class whose buffers hold `capacity` bytes, or `None` if that is too large for the
/// pool.
fn class_of(capacity: usize) -> Option<usize> {
    let class = capacity
        .max(SMALLEST_BYTES)
        .next_power_of_two()
        .trailing_zeros()
        - SMALLEST_BYTES.trailing_zeros();
    Some(class as usize).filter(|class| *class < CLASSES)
}

impl Buffers {
    /// Creates an empty pool with a budget of `reserved_bytes_max` bytes for write data.
    pub fn new(reserved_bytes_max: u64) -> Self {
        Self {
            spare: Default::default(),
            spare_bytes: 0,
            reserved_bytes: 0,
            reserved_bytes_max,
        }
    }

    /// Returns an empty buffer of at least this capacity, preferably the one of its class that was
    /// returned last, whose memory is warm.
    pub fn take(&mut self, capacity: usize) -> Vec<u8> {
        let Some(class) = class_of(capacity) else {
            return Vec::with_capacity(capacity);
        };
        match self.spare[class].pop() {
            Some(buffer) => {
                self.spare_bytes -= SMALLEST_BYTES << class;
                buffer
            }
            None => Vec::with_capacity(SMALLEST_BYTES << class),
        }
    }

    /// Returns a buffer to the pool. A buffer of another size, or beyond the pool's limit, is
    /// freed.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        match class_of(capacity) {
            Some(class)
                if capacity == SMALLEST_BYTES << class
                    && self.spare_bytes + capacity <= SPARE_BYTES_MAX =>
            {
                buffer.clear();
                self.spare_bytes += capacity;
                self.spare[class].push(buffer);
            }
            _ => {}
        }
    }

    /// Returns the buffer of a result, whose task has ended, to the pool.
    pub fn give_back(&mut self, result: IoResult) {
        if let IoResult::ReadData(data) | IoResult::Written(data) = result {
            self.give(data);
        }
    }

    /// Reserves `bytes` of the budget for write data. Returns false if fewer are left.
    #[must_use]
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.reserved_bytes_max - self.reserved_bytes;
        if fits {
            self.reserved_bytes += bytes;
        }
        fits
    }

    /// Returns reserved bytes to the budget.
    pub fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.reserved_bytes);
        self.reserved_bytes -= bytes;
    }

    /// Returns the number of reserved bytes.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_never_exceeded() {
        let mut buffers = Buffers::new(100);
        assert!(buffers.reserve(60) && !buffers.reserve(41) && buffers.reserve(40));
        assert!(!buffers.reserve(u64::MAX));
        buffers.release(60);
        assert_eq!(buffers.reserved_bytes(), 40);
    }

    #[test]
    fn a_returned_buffer_is_empty_and_used_again() {
        let mut buffers = Buffers::new(0);
        for wanted in [1, 4096, 4097, 1 << 20, 16 << 20] {
            let mut buffer = buffers.take(wanted);
            assert!(buffer.capacity() >= wanted);
            buffer.push(1);
            let memory = buffer.as_ptr();
            buffers.give(buffer);
            let again = buffers.take(wanted);
            assert!(
                again.is_empty() && again.as_ptr() == memory,
                "{wanted} bytes"
            );
            buffers.give(again);
        }
    }

    #[test]
    fn buffers_too_large_for_the_pool_are_freed() {
        let mut buffers = Buffers::new(0);
        let large = buffers.take((16 << 20) + 1);
        buffers.give(large);
        assert_eq!(buffers.spare_bytes, 0);
    }
}
