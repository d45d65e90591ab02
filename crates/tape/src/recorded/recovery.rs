//! Reading a cartridge from its store.

use std::fmt;
use std::io;

use super::frame::{FRAME_BYTES, Frame, Place};
use super::header::{HEADER_BYTES, Header};
use super::memory::{MEMORY_AT_BYTES, MEMORY_BYTES, MemoryTail, parse_memory};
use crate::attributes::HostAttributes;
use crate::medium::Medium;

/// Bytes of an area that are read at a time.
const CHUNK_BYTES: usize = 128 * FRAME_BYTES;

/// A cartridge that was read from its store.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Properties.
    pub header: Header,
    /// Contents.
    pub medium: Medium,
    /// How often it was loaded.
    pub loads: u64,
    /// Place of the next record.
    pub tail: Tail,
    /// Host attributes in its memory.
    pub attributes: HostAttributes,
    /// Place of the next copy of the memory.
    pub memory_tail: MemoryTail,
}

/// Position in the records of a cartridge that was read from its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Area with the newest records.
    pub area: u8,
    /// Its epoch.
    pub epoch: u64,
    /// Highest epoch of the frames that were read in both areas, also of remains of records.
    pub epoch_max: u64,
    /// Its frames.
    pub frames: u64,
    /// Its records.
    pub records: u64,
    /// Whether the next record may follow the last one. If not, remains of an interrupted one lie
    /// behind it.
    pub clean: bool,
}

/// Damage of a cartridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The fault.
    pub fault: &'static str,
    /// Offset in the cartridge, bytes.
    pub offset_bytes: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.fault, self.offset_bytes)
    }
}

/// Error of reading a cartridge.
#[derive(Debug)]
pub enum ReadError {
    /// Its bytes cannot be read.
    Io(io::Error),
    /// They are not those of a cartridge.
    Damaged(Damage),
}

/// Fills a buffer from an offset of the cartridge, bytes.
pub type ReadAt<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// Reads header and index of a cartridge.
///
/// # Errors
/// See [`ReadError`]. A cartridge that ends inside its index is damaged.
pub fn recover(read: ReadAt<'_>) -> Result<Recovered, ReadError> {
    let mut bytes = [0; FRAME_BYTES];
    if let Err(error) = read(0, &mut bytes) {
        return Err(match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it is not a cartridge of hakaru", 0),
            _ => ReadError::Io(error),
        });
    }
    let header = Header::parse(&bytes).map_err(|fault| damaged(fault, 0))?;
    let (attributes, memory_tail) = read_memory(read)?;
    let [first, second] = [0, 1].map(|number| Area::read(number, &header, read));
    let (first, second) = (first?, second?);
    let epoch = |area: &Area| area.tail.epoch;
    if first.is_complete() && second.is_complete() && epoch(&first) == epoch(&second) {
        return Err(damaged("its index exists twice", HEADER_BYTES));
    }
    let epoch_max = first.tail.epoch_max.max(second.tail.epoch_max);
    let areas = [first, second].into_iter().filter(Area::is_complete);
    let Some(newest) = areas.max_by_key(epoch) else {
        return Err(damaged("it has no index", HEADER_BYTES));
    };
    Ok(Recovered {
        medium: newest.medium,
        loads: newest.loads,
        tail: Tail {
            epoch_max,
            ..newest.tail
        },
        attributes,
        memory_tail,
        header,
    })
}

fn read_memory(read: ReadAt<'_>) -> Result<(HostAttributes, MemoryTail), ReadError> {
    let mut copies = [0; MEMORY_BYTES];
    fill(read, MEMORY_AT_BYTES, &mut copies)?;
    parse_memory(&copies)
        .map_err(|at| damaged("its memory is damaged", MEMORY_AT_BYTES + at as u64))
}

fn fill(read: ReadAt<'_>, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
    read(offset_bytes, bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("its end is missing", offset_bytes),
        _ => ReadError::Io(error),
    })
}

fn damaged(fault: &'static str, offset_bytes: u64) -> ReadError {
    ReadError::Damaged(Damage {
        fault,
        offset_bytes,
    })
}

/// The records of an area.
struct Area {
    capacity_bytes: u64,
    medium: Medium,
    loads: u64,
    /// Position after the last complete record.
    tail: Tail,
    /// Frames of the record that is being read.
    open: Vec<Frame>,
    /// Whether the last complete record was passed.
    ended: bool,
    /// Whether a newer checkpoint was begun over the records, which the other area replaces.
    overwritten: bool,
}

impl Area {
    fn is_complete(&self) -> bool {
        self.tail.records > 0
    }

    /// Reads an area up to the first chunk without frames.
    fn read(number: u8, header: &Header, read: ReadAt<'_>) -> Result<Area, ReadError> {
        let mut area = Area {
            capacity_bytes: header.capacity_bytes,
            medium: Medium::new(header.runs_max()),
            loads: 0,
            tail: Tail {
                area: number,
                clean: true,
                ..Tail::default()
            },
            open: Vec::new(),
            ended: false,
            overwritten: false,
        };
        let base = HEADER_BYTES + u64::from(number) * header.area_bytes;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < header.area_bytes {
            let length = (header.area_bytes - at).min(CHUNK_BYTES as u64);
            let chunk = &mut chunk[..length as usize];
            fill(read, base + at, chunk)?;
            let (places, _) = chunk.as_chunks::<FRAME_BYTES>();
            let mut empty = true;
            for (index, place) in places.iter().enumerate() {
                let offset = at + (index * FRAME_BYTES) as u64;
                let number = offset / FRAME_BYTES as u64;
                empty &= area
                    .take(number, Frame::parse(place))
                    .map_err(|fault| damaged(fault, base + offset))?;
            }
            if empty {
                break;
            }
            at += length;
        }
        area.tail.clean &= area.open.is_empty();
        Ok(area)
    }

    /// Takes the next frame. Returns whether its place is empty.
    fn take(&mut self, number: u64, place: Place) -> Result<bool, &'static str> {
        let frame = match place {
            Place::Damaged => return Err("a record of its index is damaged"),
            Place::Empty => {
                self.ended = true;
                return Ok(true);
            }
            Place::Frame(frame) => frame,
        };
        if u64::from(frame.number) != number {
            return Err("a record of its index is in a wrong place");
        }
        if frame.epoch == u64::MAX {
            return Err("a record of its index is impossible");
        }
        self.tail.epoch_max = self.tail.epoch_max.max(frame.epoch);
        if number == 0 {
            self.tail.epoch = frame.epoch;
        }
        // Remains of older records do not count. Later records prove that those before are missing,
        // unless a checkpoint that was begun over them has taken their place.
        let newest = (self.tail.epoch, self.tail.records);
        let (epoch, record) = (frame.epoch, frame.record);
        self.overwritten |= epoch > newest.0 && record == 0;
        let is_later = epoch == newest.0 && record > newest.1 && !self.overwritten;
        if epoch > newest.0 && record > 0 || is_later {
            return Err("a record of its index is missing");
        }
        if epoch != newest.0 || record < newest.1 {
            self.ended = true;
            return Ok(false);
        }
        if self.ended {
            self.tail.clean = false;
            return Ok(false);
        }
        if frame.first != self.open.is_empty() {
            return Err("a record of its index has no beginning");
        }
        let last = frame.last;
        self.open.push(frame);
        if last {
            self.apply(number + 1)?;
        }
        Ok(false)
    }

    /// Applies the open record.
    fn apply(&mut self, frames: u64) -> Result<(), &'static str> {
        let impossible = "a record of its index is impossible";
        let Some(first) = self.open.first() else {
            return Err(impossible);
        };
        if first.kept > self.medium.end() {
            return Err(impossible);
        }
        self.medium.truncate(first.kept);
        let runs = self.open.iter().flat_map(|frame| &frame.runs);
        for (block_bytes, count) in runs {
            self.medium
                .extend(*block_bytes, *count, self.capacity_bytes)
                .ok_or(impossible)?;
        }
        if first.end != self.medium.end() {
            return Err(impossible);
        }
        self.loads = first.loads;
        self.tail.frames = frames;
        self.tail.records += 1;
        self.open.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Vec<(u8, Frame)>> {
        // Small numbers meet each other; the largest ones would overflow.
        let number = || prop_oneof![8 => 0_u64..4, 1 => any::<u64>()];
        let length = prop_oneof![Just(0_u32), 1_u32..2000, any::<u32>()];
        let runs = proptest::collection::vec((length, number()), 0..4);
        let marks = (any::<bool>(), any::<bool>(), any::<bool>());
        let frame = (number(), number(), marks, number(), number(), runs);
        let frame = frame.prop_map(|(epoch, record, marks, kept, end, runs)| {
            let (area, first, last) = marks;
            let frame = Frame {
                epoch,
                record,
                number: 0,
                first,
                last,
                kept,
                end,
                loads: 1,
                runs,
            };
            (u8::from(area), frame)
        });
        proptest::collection::vec(frame, 0..8)
    }

    proptest! {
        /// Frames with right checksums and any values are read or refused.
        #[test]
        fn impossible_records_are_refused(frames in frames(), right in any::<bool>()) {
            let header = Header {
                area_bytes: 16 * FRAME_BYTES as u64,
                ..Header::new("A".to_owned(), false, 1 << 20)
            };
            let mut bytes = vec![0; header.data_bytes() as usize];
            bytes[..FRAME_BYTES].copy_from_slice(&header.emit());
            let mut numbers = [0, 0];
            for (area, mut frame) in frames {
                let number = numbers[usize::from(area)];
                numbers[usize::from(area)] += 1;
                frame.number = number;
                if right {
                    // Most records then follow each other.
                    (frame.epoch, frame.record) = (u64::from(area) + 1, number.into());
                    (frame.first, frame.last) = (true, true);
                }
                let mut out = Vec::new();
                frame.emit(&mut out);
                let base = HEADER_BYTES + u64::from(area) * header.area_bytes;
                let at = base as usize + number as usize * FRAME_BYTES;
                bytes[at..at + FRAME_BYTES].copy_from_slice(&out);
            }
            let read = recover(&mut |offset, buffer| {
                buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
                Ok(())
            });
            match read {
                Ok(recovered) => prop_assert!(recovered.medium.used_bytes() <= 1 << 20),
                Err(ReadError::Damaged(_)) => {}
                Err(ReadError::Io(error)) => panic!("{error}"),
            }
        }
    }
}
