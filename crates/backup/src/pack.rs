//! Compression: each block becomes a Zstandard frame (RFC 8878). Frames are stored back to back and
//! written in whole blocks.
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound};

/// Magic number of a skippable frame (RFC 8878 section 3.1.2).
const SKIPPABLE: u32 = 0x184D_2A50;
/// Header of a skippable frame: magic number and length, bytes.
const SKIPPABLE_HEADER: usize = 8;

/// Returns the maximum number of bytes that the frames of `length_bytes` in blocks of `block_bytes`
/// take, rounded up to the destination's `sector_bytes`.
#[must_use]
pub fn packed_bytes_max(length_bytes: u64, block_bytes: u32, sector_bytes: u32) -> u64 {
    let block = u64::from(block_bytes);
    // zstd's bound does not include the checksum of a frame.
    let frame = |bytes: u64| compress_bound(bytes as usize) as u64 + 4;
    let rest = length_bytes % block;
    let frames = length_bytes / block * frame(block) + if rest > 0 { frame(rest) } else { 0 };
    (frames + SKIPPABLE_HEADER as u64).next_multiple_of(sector_bytes.into())
}

/// Packs blocks into frames, and frames into blocks for writing.
pub struct Packer {
    compressor: Compressor<'static>,
    frame: Vec<u8>,
    /// Packed bytes that were not returned yet.
    pending: Vec<u8>,
    block_bytes: usize,
    /// Length of each frame.
    frames: Vec<u32>,
    /// Total packed bytes, including padding.
    packed_bytes: u64,
}

impl Packer {
    /// Creates a packer of `level` 1 to 19 that returns blocks of `block_bytes`.
    ///
    /// # Errors
    /// The message of zstd, if it is out of memory.
    pub fn new(level: i32, block_bytes: u32) -> Result<Packer, String> {
        let message = |e: std::io::Error| e.to_string();
        let mut compressor = Compressor::new(level).map_err(message)?;
        compressor
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(message)?;
        let block_bytes = block_bytes as usize;
        Ok(Packer {
            compressor,
            frame: Vec::with_capacity(compress_bound(block_bytes) + 4),
            pending: Vec::new(),
            block_bytes,
            frames: Vec::new(),
            packed_bytes: 0,
        })
    }

    /// Packs a block. Afterwards [`Packer::poll_block`] may return blocks.
    ///
    /// # Errors
    /// The message of zstd, if it failed.
    pub fn pack(&mut self, block: &[u8]) -> Result<(), String> {
        self.frame.clear();
        self.compressor
            .compress_to_buffer(block, &mut self.frame)
            .map_err(|e| e.to_string())?;
        self.frames.push(self.frame.len() as u32);
        self.pending.extend_from_slice(&self.frame);
        Ok(())
    }

    /// Returns the next whole block of packed bytes.
    pub fn poll_block(&mut self) -> Option<Vec<u8>> {
        (self.pending.len() >= self.block_bytes).then(|| self.take(self.block_bytes))
    }

    /// Pads the rest to a multiple of `sector_bytes` with a skippable frame. Returns the remaining
    /// blocks; the last may be shorter.
    pub fn finish(&mut self, sector_bytes: u32) -> Vec<Vec<u8>> {
        let sector = sector_bytes as usize;
        let mut gap = self.pending.len().next_multiple_of(sector) - self.pending.len();
        if (1..SKIPPABLE_HEADER).contains(&gap) {
            gap += sector;
        }
        if gap > 0 {
            let length = (gap - SKIPPABLE_HEADER) as u32;
            self.pending.extend_from_slice(&SKIPPABLE.to_le_bytes());
            self.pending.extend_from_slice(&length.to_le_bytes());
            self.pending.resize(self.pending.len() + length as usize, 0);
        }
        let mut blocks = Vec::new();
        while !self.pending.is_empty() {
            blocks.push(self.take(self.block_bytes.min(self.pending.len())));
        }
        blocks
    }

    /// Returns the length of each frame in order, and the number of bytes returned in total.
    #[must_use]
    pub fn frames(&self) -> (&[u32], u64) {
        (&self.frames, self.packed_bytes)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.pending.split_off(length);
        self.packed_bytes += length as u64;
        std::mem::replace(&mut self.pending, rest)
    }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Packer {
            pending, frames, ..
        } = self;
        write!(
            f,
            "Packer {{ {} frames, {} bytes pending }}",
            frames.len(),
            pending.len()
        )
    }
}

/// Unpacks frames into blocks.
pub struct Unpacker {
    decompressor: Decompressor<'static>,
    block_bytes: usize,
    pending: Vec<u8>,
}

impl Unpacker {
    /// Creates an unpacker of blocks of at most `block_bytes`.
    ///
    /// # Errors
    /// zstd is out of memory.
    pub fn new(block_bytes: u32) -> Result<Unpacker, String> {
        Ok(Unpacker {
            decompressor: Decompressor::new().map_err(|e| e.to_string())?,
            block_bytes: block_bytes as usize,
            pending: Vec::new(),
        })
    }

    /// Accepts packed bytes, in order.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the block in a frame of this length: `None` until its bytes are complete, an empty
    /// block if the frame is invalid.
    pub fn unpack(&mut self, frame_bytes: u32) -> Option<Vec<u8>> {
        let length = frame_bytes as usize;
        if self.pending.len() < length {
            return None;
        }
        let frame: Vec<u8> = self.pending.drain(..length).collect();
        Some(
            self.decompressor
                .decompress(&frame, self.block_bytes)
                .unwrap_or_default(),
        )
    }
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unpacker {{ {} bytes pending }}", self.pending.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes of which about half can be compressed.
    fn image(length: usize) -> Vec<u8> {
        let word = |i: usize| {
            (i as u64 / 2)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes()
        };
        (0..length / 8).flat_map(word).collect()
    }

    fn packed(image: &[u8], block: usize, sector: u32) -> (Vec<Vec<u8>>, Packer) {
        let mut packer = Packer::new(3, block as u32).unwrap();
        let mut blocks = Vec::new();
        for piece in image.chunks(block) {
            packer.pack(piece).unwrap();
            blocks.extend(std::iter::from_fn(|| packer.poll_block()));
        }
        blocks.extend(packer.finish(sector));
        (blocks, packer)
    }

    #[test]
    fn a_packed_copy_is_whole_sectors_that_any_zstd_decodes() {
        for length in [8, 4096, 100_000, 1 << 20] {
            let image = image(length);
            for sector in [512, 4096] {
                let (blocks, packer) = packed(&image, 65_536, sector);
                let copy = blocks.concat();
                assert!(copy.len().is_multiple_of(sector as usize));
                assert_eq!(packer.frames().1, copy.len() as u64);
                assert!(copy.len() as u64 <= packed_bytes_max(length as u64, 65_536, sector));
                // Streaming decoder: frame after frame, skippable ones skipped.
                assert_eq!(zstd::decode_all(copy.as_slice()).unwrap(), image);
            }
        }
    }

    #[test]
    fn a_gap_too_small_for_a_skippable_frame_is_enlarged() {
        // The padding depends on the length of one frame; every length from 1 to 511 occurs.
        let mut seen = [false; 512];
        for length in 1..2000 {
            let noise: Vec<u8> = (0..length as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
                .collect();
            let (blocks, packer) = packed(&noise, 4096, 512);
            let copy = blocks.concat();
            assert_eq!(zstd::decode_all(copy.as_slice()).unwrap(), noise);
            seen[(copy.len() - packer.frames().0[0] as usize) % 512] = true;
        }
        assert!(seen[1..SKIPPABLE_HEADER].iter().all(|seen| *seen));
    }

    #[test]
    fn a_damaged_frame_unpacks_to_nothing_and_the_next_one_is_whole() {
        let image = image(3 * 4096);
        let (blocks, packer) = packed(&image, 4096, 512);
        let (mut copy, frames) = (blocks.concat(), packer.frames().0.to_vec());
        copy[frames[0] as usize + 20] ^= 1;
        let mut unpacker = Unpacker::new(4096).unwrap();
        unpacker.feed(&copy[..100]);
        assert_eq!(unpacker.unpack(frames[0]), None);
        unpacker.feed(&copy[100..]);
        let blocks: Vec<_> = frames
            .iter()
            .map(|frame| unpacker.unpack(*frame).unwrap())
            .collect();
        assert_eq!(blocks[0], image[..4096]);
        assert_ne!(blocks[1], image[4096..8192]);
        assert_eq!(blocks[2], image[8192..]);
    }
}
