//! Frames of a record of the index.

/// Length of a frame, bytes: the unit that a store writes completely or not at all.
pub const FRAME_BYTES: usize = 512;
/// Runs of a frame.
pub(crate) const FRAME_RUNS: usize = (FRAME_BYTES - HEAD_BYTES) / RUN_BYTES;

const MAGIC: [u8; 4] = *b"HKTF";
const HEAD_BYTES: usize = 56;
const RUN_BYTES: usize = 12;
/// First byte under the checksum, which follows the magic number.
const SUMMED: usize = 8;
const FIRST: u8 = 0x01;
const LAST: u8 = 0x02;

/// A frame. Integers are little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Epoch of the area: greater than that of the other area, if this one is newer.
    pub(crate) epoch: u64,
    /// Number of the record in the area, from 0: the checkpoint.
    pub(crate) record: u64,
    /// Number of the frame in the area, from 0.
    pub(crate) number: u32,
    /// Whether the record begins here.
    pub(crate) first: bool,
    /// Whether the record ends here.
    pub(crate) last: bool,
    /// Objects of the index before the record that stand.
    pub(crate) kept: u64,
    /// Objects after the record.
    pub(crate) end: u64,
    /// How often the cartridge was loaded.
    pub(crate) loads: u64,
    /// Length of each block in bytes, 0 for filemarks, and number of objects; at most
    /// [`FRAME_RUNS`].
    pub(crate) runs: Vec<(u32, u64)>,
}

/// Contents of a frame's place.
#[derive(Debug)]
pub(crate) enum Place {
    /// Nothing was written.
    Empty,
    /// A frame.
    Frame(Frame),
    /// Neither.
    Damaged,
}

impl Frame {
    /// Appends the frame.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.record.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        let flags = if self.first { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        out.extend_from_slice(&[flags, 0, self.runs.len() as u8, 0]);
        out.extend_from_slice(&self.kept.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        out.extend_from_slice(&self.loads.to_le_bytes());
        for (block_bytes, count) in &self.runs {
            out.extend_from_slice(&block_bytes.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.resize(begin + FRAME_BYTES, 0);
        let sum = crc_fast::crc32_iscsi(&out[begin + SUMMED..]);
        out[begin + MAGIC.len()..begin + SUMMED].copy_from_slice(&sum.to_le_bytes());
    }

    /// Parses the place of a frame.
    pub(crate) fn parse(place: &[u8; FRAME_BYTES]) -> Place {
        if place.iter().all(|byte| *byte == 0) {
            return Place::Empty;
        }
        let sum = crc_fast::crc32_iscsi(&place[SUMMED..]);
        let runs = usize::from(place[30]);
        if place[..4] != MAGIC || place[4..8] != sum.to_le_bytes() || runs > FRAME_RUNS {
            return Place::Damaged;
        }
        let (entries, _) = place[HEAD_BYTES..].as_chunks::<RUN_BYTES>();
        Place::Frame(Frame {
            epoch: u64_at(place, 8),
            record: u64_at(place, 16),
            number: u32_at(place, 24),
            first: place[28] & FIRST != 0,
            last: place[28] & LAST != 0,
            kept: u64_at(place, 32),
            end: u64_at(place, 40),
            loads: u64_at(place, 48),
            runs: entries[..runs]
                .iter()
                .map(|entry| (u32_at(entry, 0), u64_at(entry, 4)))
                .collect(),
        })
    }
}

/// Returns the integer at a place inside the slice.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut integer = [0; 8];
    integer.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(integer)
}

/// Returns the integer at a place inside the slice.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut integer = [0; 4];
    integer.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            epoch: 3,
            record: 1 << 40,
            number: 77,
            first: true,
            last: false,
            kept: 5,
            end: 1 << 33,
            loads: 9,
            runs: (0..FRAME_RUNS as u64)
                .map(|run| (run as u32, run + 1))
                .collect(),
        }
    }

    fn place(frame: &Frame) -> [u8; FRAME_BYTES] {
        let mut out = Vec::new();
        frame.emit(&mut out);
        out.try_into().unwrap()
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let Place::Frame(read) = Frame::parse(&place(&frame())) else {
            panic!("a frame");
        };
        assert_eq!(read, frame());
        assert!(matches!(Frame::parse(&[0; FRAME_BYTES]), Place::Empty));
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let whole = place(&frame());
        for at in 0..FRAME_BYTES {
            let mut changed = whole;
            changed[at] ^= 0x10;
            assert!(matches!(Frame::parse(&changed), Place::Damaged), "{at}");
        }
    }
}
