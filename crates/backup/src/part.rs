//! One stream's part of an image: the next block to read, the offset of each write, the blocks in
//! flight. Independent of iSCSI.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hakaru_units::Time;

use crate::digest::Digest;
use crate::pack::Packer;

/// Position of a part, in bytes. Every block except the last is `block_bytes` long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset in the image.
    pub image_offset: u64,
    /// Offset on the source.
    pub source_offset: u64,
    /// Offset on the destination.
    pub destination_offset: u64,
    /// Length of the part.
    pub length: u64,
    /// Length of a block.
    pub block_bytes: u32,
}

impl Place {
    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.length.div_ceil(self.block_bytes.into()) as u32
    }

    /// Returns the offset of block `n` within the part, and its length.
    #[must_use]
    pub fn block(&self, n: u32) -> (u64, u32) {
        let begin = u64::from(n) * u64::from(self.block_bytes);
        let length = (self.length - begin).min(self.block_bytes.into());
        (begin, length as u32)
    }
}

/// A block to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Number of the block, passed to [`Part::handle_read`].
    pub block: u32,
    /// Offset on the LU, bytes.
    pub offset_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u32,
}

/// A block to write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Tag, passed to [`Part::handle_written`].
    pub tag: u32,
    /// Offset on the destination, bytes.
    pub offset_bytes: u64,
    /// Data.
    pub buffer: Arc<Vec<u8>>,
}

/// State of copying one part.
#[derive(Debug)]
pub struct Part {
    place: Place,
    depth: usize,
    /// Logical block of the destination; packed data is padded to a multiple of it.
    sector_bytes: u32,
    /// Next block to read.
    next: u32,
    /// Block at which reading ends.
    end: u32,
    /// Blocks being read, with the start of each read.
    reading: BTreeMap<u32, Time>,
    /// Blocks being written, by tag, with the start of each write.
    writing: BTreeMap<u32, (Time, Write)>,
    /// Blocks to write.
    outbox: VecDeque<Write>,
    next_tag: u32,
    /// Packer, with compression. It packs blocks in order, regardless of the order of completion.
    packer: Option<Packer>,
    /// Whether blocks are written in order without a packer, too.
    in_order: bool,
    /// Blocks that were read, and not packed or queued in order.
    arrived: BTreeMap<u32, Vec<u8>>,
    /// Next block to pack or to queue in order.
    packed: u32,
    /// Offset of the next packed block in the part's copy, bytes.
    packed_at: u64,
    /// Whether the packer has returned its last block.
    finished: bool,
    /// Whether blocks that are not being written are dropped.
    abandoned: bool,
    /// Digest of each block, if the copy is to be verified.
    digests: Option<Vec<Digest>>,
    /// Buffers to reuse.
    spare: Vec<Vec<u8>>,
}

impl Part {
    /// Creates the state of a part with `depth` blocks in flight.
    #[must_use]
    pub fn new(
        place: Place,
        depth: u32,
        sector_bytes: u32,
        packer: Option<Packer>,
        verify: bool,
    ) -> Part {
        Part {
            place,
            depth: depth as usize,
            sector_bytes,
            next: 0,
            end: place.blocks(),
            reading: BTreeMap::new(),
            writing: BTreeMap::new(),
            outbox: VecDeque::new(),
            next_tag: 0,
            packer,
            in_order: false,
            arrived: BTreeMap::new(),
            packed: 0,
            packed_at: 0,
            finished: false,
            abandoned: false,
            digests: verify.then(|| vec![Digest::default(); place.blocks() as usize]),
            spare: Vec::new(),
        }
    }

    /// Writes blocks in the order of the image, regardless of the order in which reads end. Packed
    /// blocks always are.
    #[must_use]
    pub fn in_order(self) -> Part {
        Part {
            in_order: true,
            ..self
        }
    }

    /// Returns the part's position.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the length of the next block to read, if fewer than `depth` are in flight.
    #[must_use]
    pub fn next_length(&self) -> Option<u32> {
        let held = self.in_flight() + self.arrived.len() + self.outbox.len();
        let room = self.next < self.end && held < self.depth;
        room.then(|| self.place.block(self.next).1)
    }

    /// Starts reading the next block. Requires that [`Part::next_length`] returned a length.
    pub fn begin_read(&mut self, now: Time) -> Read {
        let block = self.next;
        self.next += 1;
        self.reading.insert(block, now);
        let (begin, length_bytes) = self.place.block(block);
        Read {
            block,
            offset_bytes: self.place.source_offset + begin,
            length_bytes,
        }
    }

    /// Accepts a block, or `None` if the read failed. Returns when the read started.
    ///
    /// # Errors
    /// The block could not be compressed.
    pub fn handle_read(&mut self, block: u32, data: Option<Vec<u8>>) -> Result<Time, String> {
        let started = self.reading.remove(&block).unwrap_or(Time::ZERO);
        let Some(data) = data.filter(|_| !self.abandoned) else {
            return Ok(started);
        };
        if let Some(digests) = &mut self.digests {
            digests[block as usize] = Digest::of(&data);
        }
        if self.packer.is_some() || self.in_order {
            self.arrived.insert(block, data);
            self.queue_arrived()?;
        } else {
            let offset = self.place.destination_offset + self.place.block(block).0;
            self.put(offset, data);
        }
        Ok(started)
    }

    /// Returns the next block to write.
    pub fn poll_write(&mut self, now: Time) -> Option<Write> {
        let write = self.outbox.pop_front()?;
        self.writing.insert(write.tag, (now, write.clone()));
        Some(write)
    }

    /// Ends a write, successful or not. Returns its offset, its length and its start.
    pub fn handle_written(&mut self, tag: u32) -> Option<(u64, u32, Time)> {
        let (started, write) = self.writing.remove(&tag)?;
        let (offset, length) = (write.offset_bytes, write.buffer.len() as u32);
        // The sender has normally dropped its reference by now. Otherwise the buffer is not reused.
        self.spare.extend(Arc::into_inner(write.buffer));
        Some((offset, length, started))
    }

    /// Returns an unused buffer.
    pub fn poll_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Stops reading; blocks that were read are still written.
    pub fn stop(&mut self) {
        self.end = self.end.min(self.next);
    }

    /// Stops reading, and drops every block that is not being written yet.
    pub fn abandon(&mut self) {
        self.stop();
        self.abandoned = true;
        self.finished = true;
        self.outbox.clear();
        self.arrived.clear();
    }

    /// Returns the number of blocks being read or written.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.reading.len() + self.writing.len()
    }

    /// Returns whether every block to read is written. It first packs the remaining bytes, so there
    /// may be another block to write afterwards.
    pub fn is_copied(&mut self) -> bool {
        if self.next < self.end || !self.reading.is_empty() || !self.arrived.is_empty() {
            return false;
        }
        if !self.finished {
            self.finished = true;
            let rest = self.packer.as_mut().map(|p| p.finish(self.sector_bytes));
            rest.into_iter()
                .flatten()
                .for_each(|block| self.put_packed(block));
        }
        self.outbox.is_empty() && self.writing.is_empty()
    }

    /// Returns whether reading covers the whole part; false after a stop before its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.end == self.place.blocks()
    }

    /// Returns the facts for verifying the copy: number of blocks copied, their digests (moved
    /// out), and the frames and length of a packed copy.
    #[must_use]
    pub fn take_evidence(&mut self) -> Evidence<'_> {
        Evidence {
            blocks: self.end,
            digests: self.digests.take().unwrap_or_default(),
            packed: self.packer.as_ref().map(Packer::frames),
        }
    }

    /// Queues the blocks that have arrived in order, packed or as they are.
    fn queue_arrived(&mut self) -> Result<(), String> {
        while let Some(data) = self.arrived.remove(&self.packed) {
            let block = self.packed;
            self.packed += 1;
            if self.packer.is_none() {
                let offset = self.place.destination_offset + self.place.block(block).0;
                self.put(offset, data);
                continue;
            }
            let mut blocks = Vec::new();
            if let Some(packer) = &mut self.packer {
                packer.pack(&data)?;
                blocks.extend(std::iter::from_fn(|| packer.poll_block()));
            }
            blocks.into_iter().for_each(|block| self.put_packed(block));
            self.spare.push(data);
        }
        Ok(())
    }

    fn put_packed(&mut self, block: Vec<u8>) {
        let offset = self.place.destination_offset + self.packed_at;
        self.packed_at += block.len() as u64;
        self.put(offset, block);
    }

    fn put(&mut self, offset_bytes: u64, data: Vec<u8>) {
        let write = Write {
            tag: self.next_tag,
            offset_bytes,
            buffer: Arc::new(data),
        };
        self.next_tag += 1;
        self.outbox.push_back(write);
    }
}

/// Facts about a copied part that its verification needs.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// Number of blocks copied, from the first.
    pub blocks: u32,
    /// Digest of each block; empty if the copy is not to be verified.
    pub digests: Vec<Digest>,
    /// Length of each frame and total length written, if the copy is packed.
    pub packed: Option<(&'a [u32], u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        image_offset: 0,
        source_offset: 4096,
        destination_offset: 1 << 20,
        length: 10 * 4096 + 512,
        block_bytes: 4096,
    };

    fn part() -> Part {
        Part::new(PLACE, 3, 512, None, false)
    }

    #[test]
    fn blocks_are_read_in_order_with_at_most_depth_in_flight() {
        let mut part = part();
        let now = Time(1);
        let mut read = Vec::new();
        while part.next_length().is_some() {
            read.push(part.begin_read(now));
        }
        let offsets: Vec<u64> = read.iter().map(|read| read.offset_bytes).collect();
        assert_eq!(offsets, [4096, 8192, 12288]);
        // A block that was read counts as in flight until it is written.
        part.handle_read(1, Some(vec![1; 4096])).unwrap();
        assert_eq!(part.next_length(), None);
        let write = part.poll_write(now).unwrap();
        assert_eq!(write.offset_bytes, (1 << 20) + 4096);
        assert_eq!(part.next_length(), None);
        drop(write.buffer);
        assert_eq!(
            part.handle_written(write.tag),
            Some(((1 << 20) + 4096, 4096, now))
        );
        assert!(part.poll_spare().is_some());
        assert_eq!(part.next_length(), Some(4096));
    }

    #[test]
    fn the_last_block_ends_with_the_image() {
        let mut part = part();
        for block in 0..11 {
            let length = part.next_length().unwrap();
            assert_eq!(length, if block == 10 { 512 } else { 4096 });
            assert_eq!(part.begin_read(Time(1)).length_bytes, length);
            part.handle_read(block, Some(vec![0; length as usize]))
                .unwrap();
            assert!(!part.is_copied());
            let write = part.poll_write(Time(1)).unwrap();
            part.handle_written(write.tag);
        }
        assert_eq!(part.next_length(), None);
        assert!(part.is_copied() && part.is_whole());
    }

    #[test]
    fn blocks_requested_before_a_stop_are_written() {
        let mut part = part();
        part.begin_read(Time(1));
        part.stop();
        assert_eq!(part.next_length(), None);
        assert!(!part.is_copied());
        part.handle_read(0, Some(vec![0; 4096])).unwrap();
        let write = part.poll_write(Time(1)).unwrap();
        part.handle_written(write.tag);
        assert!(part.is_copied() && !part.is_whole());
        assert_eq!(part.take_evidence().blocks, 1);
    }

    #[test]
    fn blocks_of_a_tape_are_written_in_order_for_any_order_of_reads() {
        let mut part = part().in_order();
        for _ in 0..3 {
            part.begin_read(Time(1));
        }
        for block in [2, 1] {
            part.handle_read(block, Some(vec![block as u8; 4096]))
                .unwrap();
            assert!(part.poll_write(Time(1)).is_none());
        }
        part.handle_read(0, Some(vec![0; 4096])).unwrap();
        let written = std::iter::from_fn(|| part.poll_write(Time(1)));
        let first: Vec<u8> = written.map(|write| write.buffer[0]).collect();
        assert_eq!(first, [0, 1, 2]);
    }

    #[test]
    fn packed_blocks_are_in_order_for_any_order_of_completion() {
        let packer = Packer::new(3, 4096).unwrap();
        let mut part = Part::new(PLACE, 3, 512, Some(packer), true);
        for block in 0..3 {
            part.begin_read(Time(1));
            assert_eq!(part.next_length().is_some(), block < 2);
        }
        for block in [2, 1, 0] {
            part.handle_read(block, Some(vec![block as u8; 4096]))
                .unwrap();
        }
        part.stop();
        assert!(!part.is_copied());
        let write = part.poll_write(Time(1)).unwrap();
        assert_eq!(write.offset_bytes, 1 << 20);
        let image = zstd::decode_all(write.buffer.as_slice()).unwrap();
        assert_eq!(image, [[0; 4096], [1; 4096], [2; 4096]].concat());
        assert!(part.poll_write(Time(1)).is_none());
        part.handle_written(write.tag);
        assert!(part.is_copied());
    }
}
