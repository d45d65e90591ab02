//! Verification: reads the copy of a part back and compares each block with the digest of the block
//! that was read from the source.
use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Digest;
use crate::pack::Unpacker;
use crate::part::{Part, Place, Read};

/// Verification of one part.
#[derive(Debug)]
pub struct Check {
    /// Position of the copy. Its pieces are as long as the blocks; the last may be shorter.
    copy: Place,
    /// Position of the image, which gives the length of each block.
    image: Place,
    depth: usize,
    next: u32,
    reading: BTreeSet<u32>,
    digests: Vec<Digest>,
    packed: Option<Packed>,
    outcome: Outcome,
}

/// Result of a verification, of one part or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of the image compared.
    pub verified_bytes: u64,
    /// Number of differing blocks.
    pub mismatches: u64,
    /// Offset in the image of the first differing block, bytes.
    pub first_mismatch: Option<u64>,
}

impl Outcome {
    /// Returns the sum of the results of two parts.
    #[must_use]
    pub fn plus(self, other: Outcome) -> Outcome {
        let offsets = self.first_mismatch.into_iter().chain(other.first_mismatch);
        Outcome {
            verified_bytes: self.verified_bytes + other.verified_bytes,
            mismatches: self.mismatches + other.mismatches,
            first_mismatch: offsets.min(),
        }
    }
}

/// State of unpacking a compressed copy, whose pieces are concatenated in order.
#[derive(Debug)]
struct Packed {
    unpacker: Unpacker,
    frames: Vec<u32>,
    arrived: BTreeMap<u32, Vec<u8>>,
    /// Next piece to unpack.
    piece: u32,
    /// Next block to be unpacked.
    block: u32,
}

impl Check {
    /// Creates the verification of the blocks that `part` copied, with `depth` pieces in flight.
    ///
    /// # Errors
    /// zstd is out of memory.
    pub fn new(part: &mut Part, depth: u32) -> Result<Check, String> {
        let place = *part.place();
        let evidence = part.take_evidence();
        let copied = (u64::from(evidence.blocks) * u64::from(place.block_bytes)).min(place.length);
        let packed = match evidence.packed {
            Some((frames, _)) => Some(Packed {
                unpacker: Unpacker::new(place.block_bytes)?,
                frames: frames.to_vec(),
                arrived: BTreeMap::new(),
                piece: 0,
                block: 0,
            }),
            None => None,
        };
        Ok(Check {
            copy: Place {
                length: evidence.packed.map_or(copied, |(_, bytes)| bytes),
                ..place
            },
            image: place,
            depth: depth as usize,
            next: 0,
            reading: BTreeSet::new(),
            digests: evidence.digests,
            packed,
            outcome: Outcome::default(),
        })
    }

    /// Returns the next piece of the copy to read, if fewer than `depth` are in flight.
    pub fn poll_read(&mut self) -> Option<Read> {
        let arrived = self
            .packed
            .as_ref()
            .map_or(0, |packed| packed.arrived.len());
        if self.next >= self.copy.blocks() || self.reading.len() + arrived >= self.depth {
            return None;
        }
        let block = self.next;
        self.next += 1;
        self.reading.insert(block);
        let (begin, length_bytes) = self.copy.block(block);
        Some(Read {
            block,
            offset_bytes: self.copy.destination_offset + begin,
            length_bytes,
        })
    }

    /// Accepts a piece that was read. Returns a buffer that can be reused for reading.
    pub fn handle_read(&mut self, block: u32, data: Vec<u8>) -> Vec<u8> {
        self.reading.remove(&block);
        let Some(packed) = &mut self.packed else {
            self.compare(block, &data);
            return data;
        };
        packed.arrived.insert(block, data);
        let mut spare = Vec::new();
        let mut contents = Vec::new();
        while let Some(data) = packed.arrived.remove(&packed.piece) {
            packed.piece += 1;
            packed.unpacker.feed(&data);
            spare = data;
            while let Some(frame) = packed.frames.get(packed.block as usize)
                && let Some(content) = packed.unpacker.unpack(*frame)
            {
                contents.push((packed.block, content));
                packed.block += 1;
            }
        }
        for (block, content) in contents {
            self.compare(block, &content);
        }
        spare
    }

    /// Returns the offset of a piece on the destination, and its length.
    #[must_use]
    pub fn piece(&self, block: u32) -> (u64, u32) {
        let (begin, length) = self.copy.block(block);
        (self.copy.destination_offset + begin, length)
    }

    /// Returns whether everything has been read back and compared.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next >= self.copy.blocks() && self.reading.is_empty()
    }

    /// Returns the number of pieces being read.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.reading.len()
    }

    /// Returns the result so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn compare(&mut self, block: u32, data: &[u8]) {
        let (begin, length) = self.image.block(block);
        let expected = self.digests.get(block as usize).copied();
        let is_equal = data.len() == length as usize && expected == Some(Digest::of(data));
        self.outcome = self.outcome.plus(Outcome {
            verified_bytes: length.into(),
            mismatches: u64::from(!is_equal),
            first_mismatch: (!is_equal).then_some(self.image.image_offset + begin),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Packer;
    use hakaru_units::Time;

    const PLACE: Place = Place {
        image_offset: 1 << 30,
        source_offset: 0,
        destination_offset: 512,
        length: 20 * 4096 + 512,
        block_bytes: 4096,
    };

    /// Returns the copied part of an image with distinct blocks, and the bytes of the destination.
    fn copied(packer: Option<Packer>) -> (Part, Vec<u8>) {
        let packed = packer.is_some();
        let mut part = Part::new(PLACE, 64, 512, packer, true);
        let mut destination = vec![0; 1 << 20];
        let mut write = |part: &mut Part| {
            while let Some(write) = part.poll_write(Time(1)) {
                destination[write.offset_bytes as usize..][..write.buffer.len()]
                    .copy_from_slice(&write.buffer);
                part.handle_written(write.tag);
            }
        };
        while let Some(length) = part.next_length() {
            let block = part.begin_read(Time(1)).block;
            let word = (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let data = (0..u64::from(length) / 8)
                .flat_map(|i| (word.wrapping_mul(2 * i + 1)).to_le_bytes());
            part.handle_read(block, Some(data.collect())).unwrap();
            write(&mut part);
        }
        assert_eq!(part.is_copied(), !packed);
        write(&mut part);
        assert!(part.is_copied());
        (part, destination)
    }

    /// Verifies the copy, reading the last piece first.
    fn outcome(part: &mut Part, destination: &[u8]) -> Outcome {
        let mut check = Check::new(part, 64).unwrap();
        let mut reads: Vec<Read> = std::iter::from_fn(|| check.poll_read()).collect();
        reads.reverse();
        for read in reads {
            assert!(!check.is_over());
            let data = &destination[read.offset_bytes as usize..][..read.length_bytes as usize];
            check.handle_read(read.block, data.to_vec());
        }
        assert!(check.is_over());
        check.outcome()
    }

    #[test]
    fn an_intact_copy_passes_and_one_changed_byte_is_detected() {
        for packed in [false, true] {
            let packer = || packed.then(|| Packer::new(3, 4096).unwrap());
            let (mut part, destination) = copied(packer());
            let intact = Outcome {
                verified_bytes: PLACE.length,
                ..Outcome::default()
            };
            assert_eq!(outcome(&mut part, &destination), intact);
            let (mut part, mut destination) = copied(packer());
            destination[512 + 9 * 4096 + 77] ^= 0x10;
            let damaged = outcome(&mut part, &destination);
            let counts = (damaged.verified_bytes, damaged.mismatches);
            assert_eq!(counts, (PLACE.length, 1), "packed: {packed}");
            if !packed {
                assert_eq!(damaged.first_mismatch, Some((1 << 30) + 9 * 4096));
            }
        }
    }

    #[test]
    fn two_swapped_blocks_are_detected() {
        let (mut part, mut destination) = copied(None);
        let (a, b) = destination.split_at_mut(512 + 4096);
        a[512..].swap_with_slice(&mut b[..4096]);
        assert_eq!(
            outcome(&mut part, &destination),
            Outcome {
                verified_bytes: PLACE.length,
                mismatches: 2,
                first_mismatch: Some(1 << 30),
            }
        );
    }
}
