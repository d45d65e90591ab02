//! Disks that record the order of writes and flushes, and the possible contents after a crash.
//!
//! All disks of one [`Recorder`] share one log. A crash at a position of the log keeps everything
//! before each disk's last flush, and any part of the later operations. Between two flushes, a
//! later crash can leave every state that an earlier crash can. The positions just before each
//! flush, and the end, therefore represent all crashes ([`Recorder::crash_points`]).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, MemoryDisk};

/// Atomic write unit of a disk, bytes.
const UNIT_BYTES: usize = 512;

#[derive(Clone, Debug)]
enum Event {
    Write {
        offset_bytes: u64,
        data: Arc<[u8]>,
    },
    Discard {
        offset_bytes: u64,
        length_bytes: u64,
    },
    SetLen {
        length_bytes: u64,
    },
    Flush,
}

#[derive(Debug, Default)]
struct Log {
    bases: Vec<MemoryDisk>,
    events: Vec<(usize, Event)>,
}

/// A log of the operations of several disks.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    log: Arc<Mutex<Log>>,
}

/// A disk in memory that records writes and flushes.
#[derive(Debug)]
pub struct RecordingDisk {
    number: usize,
    live: MemoryDisk,
    log: Arc<Mutex<Log>>,
}

/// The contents of stable storage at a crash, and the operations that were not flushed.
#[derive(Debug)]
pub struct Crash {
    stable: Vec<MemoryDisk>,
    unflushed: Vec<(usize, Event)>,
}

impl Recorder {
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Creates a disk with the contents of `base`, all of it on stable storage. Disks are numbered
    /// from 0.
    #[must_use]
    pub fn disk(&self, base: &MemoryDisk) -> RecordingDisk {
        let mut log = self.lock();
        log.bases.push(base.clone());
        RecordingDisk {
            number: log.bases.len() - 1,
            live: base.clone(),
            log: self.log.clone(),
        }
    }

    /// Returns the position in the log of the next operation.
    #[must_use]
    pub fn position(&self) -> usize {
        self.lock().events.len()
    }

    /// Returns the positions in the log that represent all crashes from `from` on.
    #[must_use]
    pub fn crash_points(&self, from: usize) -> Vec<usize> {
        let log = self.lock();
        let flushes = log
            .events
            .iter()
            .enumerate()
            .skip(from)
            .filter(|(_, (_, event))| matches!(event, Event::Flush));
        flushes
            .map(|(at, _)| at)
            .chain([log.events.len()])
            .collect()
    }

    /// Returns the crash at a position of the log.
    #[must_use]
    pub fn crash(&self, position: usize) -> Crash {
        let log = self.lock();
        let mut stable = log.bases.clone();
        let mut unflushed: Vec<(usize, Event)> = Vec::new();
        for (disk, event) in &log.events[..position] {
            if matches!(event, Event::Flush) {
                for (_, event) in unflushed.extract_if(.., |(number, _)| number == disk) {
                    apply(&mut stable[*disk], &event, &mut |_| true);
                }
            } else {
                unflushed.push((*disk, event.clone()));
            }
        }
        Crash { stable, unflushed }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crash {
    /// Returns the number of writes and discards of which any may be lost.
    #[must_use]
    pub fn unflushed(&self) -> usize {
        self.unflushed.len()
    }

    /// Returns the disks after a crash that keeps the unflushed operations for which `keep` returns
    /// true. `keep` is called with the index of each operation, in order.
    #[must_use]
    pub fn image(&self, keep: &mut dyn FnMut(usize) -> bool) -> Vec<MemoryDisk> {
        let mut disks = self.stable.clone();
        for (index, (disk, event)) in self.unflushed.iter().enumerate() {
            if keep(index) {
                apply(&mut disks[*disk], event, &mut |_| true);
            }
        }
        disks
    }

    /// Returns the disks after a crash that keeps each 512-byte unit of the unflushed operations
    /// for which `keep` returns true.
    #[must_use]
    pub fn torn_image(&self, keep: &mut dyn FnMut() -> bool) -> Vec<MemoryDisk> {
        let mut disks = self.stable.clone();
        for (disk, event) in &self.unflushed {
            apply(&mut disks[*disk], event, &mut |_| keep());
        }
        disks
    }

    /// Returns all possible images without torn operations, if there are at most `2^units_max`;
    /// otherwise `samples` of them, drawn by `random`, including both extremes. Also returns
    /// `samples` torn images, if any operation can be torn.
    pub fn images(
        &self,
        units_max: u32,
        samples: usize,
        random: &mut dyn FnMut() -> u64,
    ) -> Vec<Vec<MemoryDisk>> {
        let units = self.unflushed.len();
        let mut images = Vec::new();
        if units <= units_max as usize {
            for subset in 0..1_u64 << units {
                images.push(self.image(&mut |index| subset & (1 << index) != 0));
            }
        } else {
            images.push(self.image(&mut |_| true));
            images.push(self.image(&mut |_| false));
            for _ in 2..samples {
                // Mostly kept, mostly lost, and half of each: a single missing write is as likely
                // as a single kept one.
                let odds = [1, 4, 7][(random() % 3) as usize];
                images.push(self.image(&mut |_| random() % 8 < odds));
            }
        }
        let tearable =
            |event: &Event| matches!(event, Event::Write { data, .. } if data.len() > UNIT_BYTES);
        if self.unflushed.iter().any(|(_, event)| tearable(event)) {
            images.extend((0..samples).map(|_| self.torn_image(&mut || random() & 1 == 0)));
        }
        images
    }
}

/// Applies an operation if `keep` selects it. Of a write, applies only the 512-byte units that
/// `keep` selects. Units start at multiples of 512 bytes on the disk, not in the write.
fn apply(disk: &mut MemoryDisk, event: &Event, keep: &mut dyn FnMut(u64) -> bool) {
    let failure = "the recorded ranges lie within the disk";
    let lengthen = |end: u64| {
        if disk.len().expect(failure) < end {
            disk.set_len(end).expect(failure);
        }
    };
    match event {
        Event::Write { offset_bytes, data } => {
            let end = offset_bytes + data.len() as u64;
            let mut at = *offset_bytes;
            while at < end {
                let next = (at / UNIT_BYTES as u64 + 1) * UNIT_BYTES as u64;
                let part_end = next.min(end);
                if keep(at) {
                    lengthen(part_end);
                    let part =
                        &data[(at - offset_bytes) as usize..(part_end - offset_bytes) as usize];
                    disk.write_at(at, part).expect(failure);
                }
                at = part_end;
            }
        }
        Event::Discard {
            offset_bytes,
            length_bytes,
        } => {
            let end = (offset_bytes + length_bytes).min(disk.len().expect(failure));
            if keep(*offset_bytes) && *offset_bytes < end {
                disk.discard(*offset_bytes, end - offset_bytes)
                    .expect(failure);
            }
        }
        Event::SetLen { length_bytes } => {
            if keep(0) {
                disk.set_len(*length_bytes).expect(failure);
            }
        }
        Event::Flush => unreachable!("only writes and discards are pending"),
    }
}

impl RecordingDisk {
    fn record(&self, event: Event) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.events.push((self.number, event));
    }
}

impl Disk for RecordingDisk {
    fn len(&self) -> io::Result<u64> {
        self.live.len()
    }

    fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.live.read_at(offset_bytes, buffer)
    }

    fn write_at(&self, offset_bytes: u64, data: &[u8]) -> io::Result<()> {
        self.live.write_at(offset_bytes, data)?;
        self.record(Event::Write {
            offset_bytes,
            data: data.into(),
        });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.record(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.live.discard(offset_bytes, length_bytes)?;
        self.record(Event::Discard {
            offset_bytes,
            length_bytes,
        });
        Ok(())
    }

    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        self.live.set_len(length_bytes)?;
        self.record(Event::SetLen { length_bytes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(disk: &MemoryDisk) -> [u8; 4] {
        let mut bytes = [0; 4];
        disk.read_at(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_crash_keeps_what_was_flushed_and_any_part_of_the_rest() {
        let recorder = Recorder::new();
        let disk = recorder.disk(&MemoryDisk::new(4));
        let other = recorder.disk(&MemoryDisk::new(4));
        disk.write_at(0, &[1]).unwrap();
        other.write_at(0, &[9]).unwrap();
        disk.flush().unwrap();
        disk.write_at(1, &[2]).unwrap();
        assert_eq!(recorder.crash_points(0), [2, 4]);
        let crash = recorder.crash(4);
        let mut left: Vec<_> = crash
            .images(12, 0, &mut || 0)
            .iter()
            .map(|disks| (bytes(&disks[0]), bytes(&disks[1])))
            .collect();
        left.sort_unstable();
        let (kept, lost) = ([1, 2, 0, 0], [1, 0, 0, 0]);
        let (other_kept, other_lost) = ([9, 0, 0, 0], [0; 4]);
        assert_eq!(
            left,
            [
                (lost, other_lost),
                (lost, other_kept),
                (kept, other_lost),
                (kept, other_kept)
            ]
        );
    }

    #[test]
    fn a_torn_write_is_torn_at_units_of_the_disk() {
        let recorder = Recorder::new();
        let disk = recorder.disk(&MemoryDisk::new(4096));
        disk.write_at(256, &[7; 1024]).unwrap();
        let mut turn = 0;
        let image = recorder.crash(1).torn_image(&mut || {
            turn += 1;
            turn == 2
        });
        let mut bytes = [0; 4096];
        image[0].read_at(0, &mut bytes).unwrap();
        assert!((0..4096).all(|at| (bytes[at] == 7) == (512..1024).contains(&at)));
        assert_eq!(turn, 3);
    }
}
