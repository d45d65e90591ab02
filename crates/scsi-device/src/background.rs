//! Accesses of long commands (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY, VERIFY), which take
//! turns.
//!
//! A command of many accesses must not keep other initiators waiting. The accesses of such commands
//! stand in one line per LU; the lines take turns, and a shell takes only so many bytes of them
//! before it looks at its sockets again.

use std::collections::VecDeque;

use crate::io::{Io, IoOp};

/// A command that moves no more than this is not long: its accesses are given out with those of
/// READ and WRITE.
pub const SHORT_BYTES: u64 = 256 << 10;

/// Accesses given out and not yet answered, bytes of work. A storage that ends all of them at the
/// same instant is busy for a few milliseconds.
const IN_FLIGHT_BYTES_MAX: u64 = 16 << 20;

/// Work that an access is counted as at least, bytes: the cost of the call.
const ACCESS_BYTES: u64 = 16 << 10;

/// An access that gives blocks back changes metadata and frees memory, whatever its length: bytes
/// it is counted as.
const UNMAP_BYTES: u64 = 1 << 20;

/// Accesses of long commands that wait to be given out.
#[derive(Debug, Default)]
pub struct Background {
    /// One line per LU that has any, the next one first.
    lines: VecDeque<(u8, VecDeque<Io>)>,
    in_flight_bytes: u64,
}

/// Work that an access makes for the storage, bytes.
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
    /// Puts an access at the end of its LU's line.
    pub fn push(&mut self, io: Io) {
        match self.lines.iter_mut().find(|(lun, _)| *lun == io.lun) {
            Some((_, line)) => line.push_back(io),
            None => self.lines.push_back((io.lun, VecDeque::from([io]))),
        }
    }

    /// The next access, if `work_bytes` has anything left and not too much is in flight; takes its
    /// work off.
    pub fn pop(&mut self, work_left_bytes: &mut u64) -> Option<Io> {
        if *work_left_bytes == 0 || self.in_flight_bytes >= IN_FLIGHT_BYTES_MAX {
            return None;
        }
        let (lun, mut line) = self.lines.pop_front()?;
        let io = line.pop_front()?;
        if !line.is_empty() {
            self.lines.push_back((lun, line));
        }
        let work = work_bytes(&io.op);
        *work_left_bytes = work_left_bytes.saturating_sub(work);
        self.in_flight_bytes += work;
        Some(io)
    }

    /// Whether [`Self::pop`] gives something for work that is left.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.lines.is_empty() && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
    }

    /// An access of `work_bytes` was answered.
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
