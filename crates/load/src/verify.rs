//! Verification: every block written carries a stamp. Every block read is compared with the stamps
//! that are valid for it.
//!
//! # A stamped block
//! ```text
//!  0        8        16        24         32      36      40                         n-8        n
//!  | magic  | volume | LBA     | sequence | run   | CRC   | incompressible payload …  | sequence |
//! ```
//! All fields are little-endian. The CRC32C covers the block with the CRC field set to zero. The
//! sequence is stored at both ends, so that a block with halves from different writes is reported
//! as torn, not as wrong.
//!
//! # Valid stamps
//! The sequences of the last acknowledged and the last issued write are kept for each block.
//! Overlapping requests are never in flight together, so a read must return a sequence between the
//! two. They differ only after a failed write, which may or may not have reached the medium. A
//! block that this run has not written may contain anything, but a stamp in it must name this
//! volume and this LBA.
use std::collections::HashMap;
use std::sync::Arc;

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::{Digest, crc32_iscsi};

use crate::corruption::{Corruption, Fault};
use crate::pattern::Access;

const MAGIC: [u8; 8] = *b"hakaru\x001";
const CRC_AT: usize = 36;
const HEADER: usize = 40;
const TRAILER: usize = 8;
/// Blocks per page of the sequence table.
const PAGE: u64 = 512;

/// Returns the volume's identifier in stamps: a hash of its name, the same in every run.
#[must_use]
pub fn volume_id(name: &str) -> u64 {
    // FNV-1a, 64 bits.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Sequences {
    acknowledged: u64,
    issued: u64,
}

/// Stamps writes and checks reads of one VM.
#[derive(Debug)]
pub struct Verifier {
    volume: u64,
    run: u32,
    block_bytes: usize,
    payload: Arc<Vec<u8>>,
    sequence: u64,
    pages: HashMap<u64, Box<[Sequences]>>,
}

impl Verifier {
    /// Creates a verifier. `volume` is the destination's [`volume_id`]. `run` distinguishes this
    /// run's stamps from those of earlier runs. `payload` is at least one block of incompressible
    /// bytes.
    ///
    /// # Panics
    /// Panics if `block_bytes` is below 512 or `payload` is shorter than a block.
    #[must_use]
    pub fn new(volume: u64, run: u32, block_bytes: u32, payload: Arc<Vec<u8>>) -> Verifier {
        let block_bytes = block_bytes as usize;
        assert!(
            block_bytes >= 512 && payload.len() >= block_bytes,
            "a stamp needs a block of 512 bytes or more and a payload of that length"
        );
        Verifier {
            volume,
            run,
            block_bytes,
            payload,
            sequence: 0,
            pages: HashMap::new(),
        }
    }

    /// Replaces the contents of `out` with the data of a write, each block with its own stamp.
    pub fn stamp(&mut self, access: &Access, out: &mut Vec<u8>) {
        out.clear();
        for lba in self.blocks(access) {
            self.sequence += 1;
            let sequence = self.sequence;
            self.sequences(lba).issued = sequence;
            self.stamp_block(lba, sequence, out);
        }
    }

    /// Records that a write was acknowledged. From now on, a read must not return older data.
    pub fn acknowledge(&mut self, access: &Access) {
        for lba in self.blocks(access) {
            let sequences = self.sequences(lba);
            sequences.acknowledged = sequences.issued;
        }
    }

    /// Checks the data of a read.
    ///
    /// # Errors
    /// [`Corruption`] names the first invalid block.
    pub fn check(&mut self, access: &Access, bytes: &[u8]) -> Result<(), Corruption> {
        debug_assert_eq!(bytes.len(), access.length_bytes as usize);
        for (lba, block) in self
            .blocks(access)
            .zip(bytes.chunks_exact(self.block_bytes))
        {
            let recorded = self.recorded(lba);
            self.check_block(lba, block, recorded)
                .map_err(|fault| Corruption {
                    lba,
                    acknowledged: recorded.acknowledged,
                    fault,
                })?;
        }
        Ok(())
    }

    fn blocks(&self, access: &Access) -> std::ops::Range<u64> {
        access.offset_bytes / self.block_bytes as u64..access.end_bytes() / self.block_bytes as u64
    }

    fn sequences(&mut self, lba: u64) -> &mut Sequences {
        let page = self
            .pages
            .entry(lba / PAGE)
            .or_insert_with(|| vec![Sequences::default(); PAGE as usize].into());
        &mut page[(lba % PAGE) as usize]
    }

    fn recorded(&self, lba: u64) -> Sequences {
        self.pages
            .get(&(lba / PAGE))
            .map_or_else(Sequences::default, |page| page[(lba % PAGE) as usize])
    }

    fn stamp_block(&self, lba: u64, sequence: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.volume.to_le_bytes());
        out.extend_from_slice(&lba.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&self.run.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        // Each write uses a different part of the payload, so that two writes of a block differ in
        // their entire length.
        let length = self.block_bytes - HEADER - TRAILER;
        let from = (sequence.wrapping_mul(61) as usize) % (self.payload.len() - length + 1);
        out.extend_from_slice(&self.payload[from..from + length]);
        out.extend_from_slice(&sequence.to_le_bytes());
        let crc = crc32_iscsi(&out[begin..]);
        out[begin + CRC_AT..begin + HEADER].copy_from_slice(&crc.to_le_bytes());
    }

    fn check_block(&self, lba: u64, block: &[u8], recorded: Sequences) -> Result<(), Fault> {
        let written = recorded.acknowledged > 0;
        if block[..8] != MAGIC {
            return if written { Err(Fault::Wrong) } else { Ok(()) };
        }
        let u64_at =
            |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let u32_at =
            |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let (volume, stamped_lba, begin, end) = (
            u64_at(8),
            u64_at(16),
            u64_at(24),
            u64_at(self.block_bytes - TRAILER),
        );
        if begin != end {
            return Err(Fault::Torn { begin, end });
        }
        let mut crc = Digest::new(Crc32Iscsi);
        crc.update(&block[..CRC_AT]);
        crc.update(&[0; HEADER - CRC_AT]);
        crc.update(&block[HEADER..]);
        if crc.finalize() != u64::from(u32_at(CRC_AT)) {
            return Err(Fault::Wrong);
        }
        if (volume, stamped_lba) != (self.volume, lba) {
            return Err(Fault::Misplaced {
                lba: stamped_lba,
                same_volume: volume == self.volume,
            });
        }
        let this_run = u32_at(32) == self.run;
        match (this_run, written) {
            (false, true) => Err(Fault::Stale { sequence: 0 }),
            (false, false) => Ok(()),
            (true, _) if begin < recorded.acknowledged => Err(Fault::Stale { sequence: begin }),
            (true, _) if begin > recorded.issued => Err(Fault::Future { sequence: begin }),
            (true, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Op;

    const BLOCK: usize = 512;

    fn verifier() -> Verifier {
        let payload: Vec<u8> = (0..4096u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        Verifier::new(volume_id("iqn.a/0"), 7, BLOCK as u32, payload.into())
    }

    fn access(lba: u64, blocks: u32) -> Access {
        Access {
            op: Op::Write,
            offset_bytes: lba * BLOCK as u64,
            length_bytes: blocks * BLOCK as u32,
        }
    }

    fn write(v: &mut Verifier, at: &Access) -> Vec<u8> {
        let mut bytes = Vec::new();
        v.stamp(at, &mut bytes);
        v.acknowledge(at);
        bytes
    }

    #[test]
    fn written_data_is_accepted() {
        let mut v = verifier();
        let at = access(1000, 3);
        let bytes = write(&mut v, &at);
        assert_eq!(bytes.len(), 3 * BLOCK);
        assert_eq!(v.check(&at, &bytes), Ok(()));
    }

    #[test]
    fn zeros_are_accepted_until_a_block_is_written() {
        let mut v = verifier();
        let at = access(5, 1);
        assert_eq!(v.check(&at, &[0; BLOCK]), Ok(()));
        write(&mut v, &at);
        assert_eq!(
            v.check(&at, &[0; BLOCK]),
            Err(Corruption {
                lba: 5,
                acknowledged: 1,
                fault: Fault::Wrong
            })
        );
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut v = verifier();
        let at = access(5, 1);
        let bytes = write(&mut v, &at);
        for bit in 0..BLOCK * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(v.check(&at, &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn block_of_another_lba_is_misplaced() {
        let mut v = verifier();
        let bytes = write(&mut v, &access(5, 1));
        let fault = v.check(&access(6, 1), &bytes).unwrap_err().fault;
        assert_eq!(
            fault,
            Fault::Misplaced {
                lba: 5,
                same_volume: true
            }
        );
    }

    #[test]
    fn block_of_another_volume_is_misplaced() {
        let mut v = verifier();
        let mut other = verifier();
        other.volume = volume_id("iqn.a/1");
        let bytes = write(&mut other, &access(5, 1));
        let fault = v.check(&access(5, 1), &bytes).unwrap_err().fault;
        assert_eq!(
            fault,
            Fault::Misplaced {
                lba: 5,
                same_volume: false
            }
        );
    }

    #[test]
    fn older_write_is_stale() {
        let mut v = verifier();
        let at = access(9, 1);
        let old = write(&mut v, &at);
        write(&mut v, &at);
        let corruption = v.check(&at, &old).unwrap_err();
        assert_eq!(
            corruption,
            Corruption {
                lba: 9,
                acknowledged: 2,
                fault: Fault::Stale { sequence: 1 }
            }
        );
    }

    #[test]
    fn block_with_halves_of_two_writes_is_torn() {
        let mut v = verifier();
        let at = access(9, 1);
        let old = write(&mut v, &at);
        let new = write(&mut v, &at);
        let half = [&new[..BLOCK / 2], &old[BLOCK / 2..]].concat();
        assert_eq!(
            v.check(&at, &half).unwrap_err().fault,
            Fault::Torn { begin: 2, end: 1 }
        );
    }

    #[test]
    fn after_a_failed_write_both_the_old_and_the_new_block_are_accepted() {
        let mut v = verifier();
        let at = access(9, 1);
        let older = write(&mut v, &at);
        let old = write(&mut v, &at);
        let mut unacknowledged = Vec::new();
        v.stamp(&at, &mut unacknowledged);
        assert_eq!(v.check(&at, &old), Ok(()));
        assert_eq!(v.check(&at, &unacknowledged), Ok(()));
        assert!(v.check(&at, &older).is_err());
    }

    #[test]
    fn stamps_of_an_earlier_run_are_accepted_until_the_block_is_written() {
        let mut earlier = verifier();
        earlier.run = 6;
        let mut v = verifier();
        let at = access(9, 1);
        let bytes = write(&mut earlier, &at);
        assert_eq!(v.check(&at, &bytes), Ok(()));
        write(&mut v, &at);
        assert!(matches!(
            v.check(&at, &bytes).unwrap_err().fault,
            Fault::Stale { .. }
        ));
    }
}
