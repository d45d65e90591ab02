//! Accesses of long commands (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY, VERIFY), which take
//! turns.
//!
//! A command with many accesses must not keep other initiators waiting. The accesses of such
//! commands wait in one queue per LU. The queues take turns, and a shell executes only a limited
//! number of bytes before it polls its sockets again.

use std::collections::VecDeque;

use crate::io::{Io, IoOp};

/// Largest transfer of a command that is not long, bytes. Its accesses are scheduled with those of
/// READ and WRITE.
pub const SHORT_BYTES: u64 = 256 << 10;

/// Maximum work in flight, bytes. A storage that ends all of it at the same instant is busy for a
/// few milliseconds.
const IN_FLIGHT_BYTES_MAX: u64 = 16 << 20;

/// Minimum work of an access, bytes: the cost of the call.
const ACCESS_BYTES: u64 = 16 << 10;

/// Work of an access that deallocates blocks or reports their state, bytes. Its cost, in metadata
/// and freed memory, does not depend on its length.
const UNMAP_BYTES: u64 = 1 << 20;

/// Accesses of long commands that wait for the storage.
#[derive(Debug, Default)]
pub struct Background {
    /// One queue per LU with waiting accesses. The queue whose turn is next comes first.
    queues: VecDeque<(u8, VecDeque<Io>)>,
    in_flight_bytes: u64,
}

/// Returns the work of the storage for an access, bytes.
#[must_use]
pub fn work_bytes(op: &IoOp) -> u64 {
    let bytes = match op {
        IoOp::Read { length_bytes, .. } => u64::from(*length_bytes),
        IoOp::Write { data, .. } => data.len() as u64,
        IoOp::WriteSame {
            unmap: false,
            range,
            ..
        } => range.length_bytes,
        IoOp::WriteSame { unmap: true, .. } | IoOp::Unmap { .. } | IoOp::Status { .. } => {
            UNMAP_BYTES
        }
        IoOp::Flush | IoOp::Keep { .. } => 0,
    };
    bytes.max(ACCESS_BYTES)
}

impl Background {
    /// Appends an access to its LU's queue.
    pub fn push(&mut self, io: Io) {
        match self.queues.iter_mut().find(|(lun, _)| *lun == io.lun) {
            Some((_, queue)) => queue.push_back(io),
            None => self.queues.push_back((io.lun, VecDeque::from([io]))),
        }
    }

    /// Returns the next access and subtracts its work from `work_left_bytes`. Returns `None` if
    /// `work_left_bytes` is 0, too much work is in flight, or no access waits.
    pub fn pop(&mut self, work_left_bytes: &mut u64) -> Option<Io> {
        if *work_left_bytes == 0 || self.in_flight_bytes >= IN_FLIGHT_BYTES_MAX {
            return None;
        }
        let (lun, mut queue) = self.queues.pop_front()?;
        let io = queue.pop_front()?;
        if !queue.is_empty() {
            self.queues.push_back((lun, queue));
        }
        let work = work_bytes(&io.op);
        *work_left_bytes = work_left_bytes.saturating_sub(work);
        self.in_flight_bytes += work;
        Some(io)
    }

    /// Whether [`Self::pop`] returns an access when `work_left_bytes` is not 0.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.queues.is_empty() && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
    }

    /// Removes an access of `work_bytes` that was answered from the work in flight.
    pub fn end(&mut self, work_bytes: u64) {
        self.in_flight_bytes -= work_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Extent, IoId};
    use hakaru_send_queue::Key;

    fn fill(lun: u8, index: u32) -> Io {
        let key = Key {
            index,
            generation: 0,
        };
        let range = Extent {
            offset_bytes: 0,
            length_bytes: 1 << 20,
        };
        let op = IoOp::WriteSame {
            range,
            block: vec![0; 512],
            unmap: false,
            fua: false,
        };
        Io {
            id: IoId(key),
            lun,
            op,
        }
    }

    #[test]
    fn lus_take_turns_however_many_accesses_each_has() {
        let mut background = Background::default();
        (0..127).for_each(|index| background.push(fill(0, index)));
        background.push(fill(1, 127));
        let mut left = u64::MAX;
        let luns = [(); 3].map(|()| background.pop(&mut left).map(|io| io.lun));
        assert_eq!(luns, [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn work_is_bounded_for_each_call_and_in_flight() {
        let mut background = Background::default();
        (0..127).for_each(|index| background.push(fill(0, index)));
        let mut left = (2 << 20) + 1;
        let mut given = 0;
        while background.pop(&mut left).is_some() {
            given += 1;
        }
        assert_eq!(given, 3);
        let mut unlimited = u64::MAX;
        while background.pop(&mut unlimited).is_some() {
            given += 1;
        }
        assert_eq!(given, 16);
        assert!(!background.is_ready());
        background.end(1 << 20);
        assert!(background.is_ready());
    }
}
