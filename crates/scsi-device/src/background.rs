//! Accesses of long commands (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY, VERIFY), which take
//! turns.
//!
//! A command with many accesses must not keep other initiators waiting. The accesses of such
//! commands wait in one queue per LU. The queues take turns, and a shell executes only a limited
//! number of bytes before it polls its sockets again.

use std::collections::{BTreeMap, VecDeque};

use crate::io::{Io, IoId, IoOp};

/// Largest transfer of a command that is not long, bytes. Its accesses are scheduled with those of
/// READ and WRITE.
pub const SHORT_BYTES: u64 = 256 << 10;

/// Maximum work in flight for each LU, bytes. A storage that ends all of it at the same instant is
/// busy for a few milliseconds. An access may wait long between target and storage, such as for a
/// cap. The bound is one of each LU so that long commands of other LUs do not wait with it.
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
    /// Work in flight, bytes, for each LU that has any.
    in_flight_bytes: BTreeMap<u8, u64>,
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
        IoOp::Flush | IoOp::FlushPart { .. } | IoOp::Tape { .. } | IoOp::Keep { .. } => 0,
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
    /// `work_left_bytes` is 0, or each LU for which accesses wait has too much work in flight.
    pub fn pop(&mut self, work_left_bytes: &mut u64) -> Option<Io> {
        if *work_left_bytes == 0 {
            return None;
        }
        let next = self.queues.iter().position(|(lun, _)| self.has_room(*lun));
        let (lun, mut queue) = self.queues.remove(next?)?;
        let io = queue.pop_front()?;
        if !queue.is_empty() {
            self.queues.push_back((lun, queue));
        }
        let work = work_bytes(&io.op);
        *work_left_bytes = work_left_bytes.saturating_sub(work);
        *self.in_flight_bytes.entry(lun).or_default() += work;
        Some(io)
    }

    /// Whether [`Self::pop`] returns an access when `work_left_bytes` is not 0.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.queues.iter().any(|(lun, _)| self.has_room(*lun))
    }

    /// Removes an access that waits, because its command was aborted. Returns `None` if it does not
    /// wait here.
    pub fn cancel(&mut self, lun: u8, id: IoId) -> Option<Io> {
        let place = self.queues.iter().position(|(queue, _)| *queue == lun)?;
        let (_, queue) = self.queues.get_mut(place)?;
        let at = queue.iter().position(|io| io.id == id)?;
        let io = queue.remove(at);
        if queue.is_empty() {
            self.queues.remove(place);
        }
        io
    }

    /// Removes an access of `work_bytes` to an LU that was answered from the work in flight.
    pub fn end(&mut self, lun: u8, work_bytes: u64) {
        if let Some(in_flight_bytes) = self.in_flight_bytes.get_mut(&lun) {
            *in_flight_bytes -= work_bytes;
            if *in_flight_bytes == 0 {
                self.in_flight_bytes.remove(&lun);
            }
        }
    }

    fn has_room(&self, lun: u8) -> bool {
        let in_flight_bytes = self.in_flight_bytes.get(&lun).copied().unwrap_or_default();
        in_flight_bytes < IN_FLIGHT_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Extent;
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
            received_bytes: None,
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
        background.end(0, 1 << 20);
        assert!(background.is_ready());
    }

    #[test]
    fn an_lu_with_too_much_work_in_flight_does_not_keep_another_waiting() {
        let mut background = Background::default();
        (0..17).for_each(|index| background.push(fill(0, index)));
        let mut left = u64::MAX;
        assert_eq!(std::iter::from_fn(|| background.pop(&mut left)).count(), 16);
        background.push(fill(1, 17));
        assert!(background.is_ready());
        assert_eq!(background.pop(&mut left).map(|io| io.lun), Some(1));
        assert!(!background.is_ready());
        background.end(1, 1 << 20);
        assert_eq!(background.pop(&mut left).map(|io| io.lun), None);
        background.end(0, 1 << 20);
        assert_eq!(background.pop(&mut left).map(|io| io.lun), Some(0));
    }

    #[test]
    fn only_an_access_that_waits_is_cancelled() {
        let mut background = Background::default();
        let ids = [0, 1].map(|index| fill(0, index).id);
        (0..2).for_each(|index| background.push(fill(0, index)));
        let mut left = u64::MAX;
        assert_eq!(background.pop(&mut left).map(|io| io.id), Some(ids[0]));
        assert!(background.cancel(0, ids[0]).is_none(), "it is in flight");
        assert!(background.cancel(1, ids[1]).is_none(), "of another LU");
        assert_eq!(background.cancel(0, ids[1]).map(|io| io.id), Some(ids[1]));
        assert!(!background.is_ready());
    }
}
