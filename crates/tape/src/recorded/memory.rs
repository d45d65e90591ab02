//! The memory of a cartridge: two copies between the header and the index.
//!
//! A copy has two frames with the same generation. A frame is written completely or not at all, so
//! frames of different generations are the remains of an interrupted write. The complete copy with
//! the highest generation counts.

use super::frame::{FRAME_BYTES, u64_at};
use super::header::HEADER_BYTES;
use crate::attributes::HostAttributes;

/// Place of the first copy in the cartridge.
pub(super) const MEMORY_AT_BYTES: u64 = 1024;
const COPY_FRAMES: usize = 2;
const COPY_BYTES: usize = COPY_FRAMES * FRAME_BYTES;
/// Bytes of both copies.
pub(super) const MEMORY_BYTES: usize = 2 * COPY_BYTES;
const MAGIC: [u8; 4] = *b"HKTM";
/// First byte under the checksum, which follows the magic number.
const SUMMED: usize = 8;
const HEAD_BYTES: usize = 20;
/// Bytes of values in a frame.
const VALUE_BYTES: usize = FRAME_BYTES - HEAD_BYTES;

const _: () = assert!(MEMORY_AT_BYTES + MEMORY_BYTES as u64 <= HEADER_BYTES);

/// Position in the copies of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTail {
    /// The copy to be written next, 0 or 1.
    pub copy: u8,
    /// The highest generation of a frame.
    pub generation: u64,
}

/// Returns the place of a copy in the cartridge, bytes.
pub(crate) fn memory_offset_bytes(copy: u8) -> u64 {
    MEMORY_AT_BYTES + u64::from(copy) * COPY_BYTES as u64
}

/// Returns a copy of the values.
pub(crate) fn memory_record(attributes: &HostAttributes, generation: u64) -> Vec<u8> {
    let values = attributes.emit();
    let mut parts = values.chunks(VALUE_BYTES);
    let mut out = Vec::with_capacity(COPY_BYTES);
    for number in 0..COPY_FRAMES {
        let part = parts.next().unwrap_or(&[]);
        let begin = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&generation.to_le_bytes());
        out.extend_from_slice(&[number as u8, 0]);
        out.extend_from_slice(&(part.len() as u16).to_le_bytes());
        out.extend_from_slice(part);
        out.resize(begin + FRAME_BYTES, 0);
        let sum = crc_fast::crc32_iscsi(&out[begin + SUMMED..]);
        out[begin + MAGIC.len()..begin + SUMMED].copy_from_slice(&sum.to_le_bytes());
    }
    assert!(
        parts.next().is_none(),
        "the values of all attributes fit a copy"
    );
    out
}

/// Returns the values in both copies, which begin at [`MEMORY_AT_BYTES`]. Where nothing was written,
/// there are none.
///
/// # Errors
/// The place of a damaged frame in the copies, bytes.
pub(super) fn parse_memory(
    copies: &[u8; MEMORY_BYTES],
) -> Result<(HostAttributes, MemoryTail), usize> {
    let mut tail = MemoryTail::default();
    let mut newest: Option<(u64, HostAttributes)> = None;
    for (number, copy) in copies.chunks(COPY_BYTES).enumerate() {
        let at = number * COPY_BYTES;
        let (frames, _) = copy.as_chunks::<FRAME_BYTES>();
        let (mut generations, mut values) = (Vec::new(), Vec::new());
        for (number, frame) in frames.iter().enumerate() {
            if frame.iter().all(|byte| *byte == 0) {
                continue;
            }
            let part = parse(frame, number).ok_or(at + number * FRAME_BYTES)?;
            values.extend_from_slice(part);
            generations.push(u64_at(frame, 8));
        }
        let highest = generations.iter().max().copied().unwrap_or(0);
        let complete = generations == [highest; COPY_FRAMES];
        let newer = newest.as_ref().is_none_or(|(before, _)| *before < highest);
        if complete && newer {
            let values = HostAttributes::parse(&values).ok_or(at)?;
            newest = Some((highest, values));
            tail.copy = 1 - number as u8;
        }
        tail.generation = tail.generation.max(highest);
    }
    let values = newest.map(|(_, values)| values).unwrap_or_default();
    Ok((values, tail))
}

/// Returns the values in a frame, or `None` if it is damaged.
fn parse(frame: &[u8; FRAME_BYTES], number: usize) -> Option<&[u8]> {
    let sum = crc_fast::crc32_iscsi(&frame[SUMMED..]);
    let length = u16::from_le_bytes([frame[18], frame[19]]);
    let whole = frame[..4] == MAGIC
        && frame[4..SUMMED] == sum.to_le_bytes()
        && usize::from(frame[16]) == number
        && u64_at(frame, 8) < u64::MAX;
    frame[HEAD_BYTES..]
        .get(..usize::from(length))
        .filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::HOST_ATTRIBUTES;

    fn values(fill: u8) -> HostAttributes {
        let mut values = HostAttributes::default();
        for attribute in HOST_ATTRIBUTES {
            let value = vec![fill; attribute.length_bytes.into()];
            values.set(attribute.identifier, &value);
        }
        values
    }

    #[test]
    fn interrupted_write_leaves_the_values_before() {
        let mut store = [0; MEMORY_BYTES];
        let (mut expected, mut tail) = parse_memory(&store).unwrap();
        assert_eq!((&expected, tail.copy), (&HostAttributes::default(), 0));
        for fill in 1..6 {
            tail.generation += 1;
            let record = memory_record(&values(fill), tail.generation);
            let at = usize::from(tail.copy) * COPY_BYTES;
            // Any part of its frames may be on the store after a crash.
            for part in [0..FRAME_BYTES, FRAME_BYTES..COPY_BYTES] {
                let mut torn = store;
                torn[at..][part.clone()].copy_from_slice(&record[part]);
                let (found, after) = parse_memory(&torn).unwrap();
                assert_eq!(found, expected);
                assert_eq!(after, tail);
            }
            store[at..][..COPY_BYTES].copy_from_slice(&record);
            (expected, tail) = parse_memory(&store).unwrap();
            assert_eq!(expected, values(fill));
        }
        for at in 0..MEMORY_BYTES {
            let mut changed = store;
            changed[at] ^= 0x10;
            assert_eq!(parse_memory(&changed), Err(at / FRAME_BYTES * FRAME_BYTES));
        }
    }
}
