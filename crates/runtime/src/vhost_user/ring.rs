//! One virtqueue (virtio 1.2, section 2.7): frames in the buffers that the guest's driver offers.
//!
//! The driver may write anything at any time. `virtio-queue` checks indices and addresses and ends
//! chains that loop; this file bounds the work for one frame and publishes the buffers of one frame
//! together, which a driver with mergeable buffers relies on.
use std::num::Wrapping;
use std::sync::atomic::{Ordering, fence};

use virtio_queue::{DescriptorChain, Error, Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{Address as _, Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::packet::PACKET_BYTES_MAX;

/// Largest ring: that of QEMU's virtio-net.
pub(super) const DESCRIPTORS_MAX: u16 = 1024;
/// Length of virtio-net's header, bytes, in rings of virtio 1.0 or with mergeable buffers.
pub(super) const HEADER_BYTES_MAX: usize = 12;
/// Offset of the number of buffers in that header.
const BUFFERS_AT: usize = 10;
/// Flag of the available ring: the driver wants no interrupt.
const NO_INTERRUPT: u16 = 1;

/// A virtqueue, and memory for the descriptors of one frame.
pub(super) struct Ring {
    queue: Queue,
    /// Index of the used ring when the driver was notified last, or was found not to need it.
    settled: Wrapping<u16>,
    pieces: Vec<Piece>,
    chains: Vec<Chain>,
}

/// Memory of one descriptor.
#[derive(Clone, Copy)]
struct Piece {
    at: GuestAddress,
    bytes: usize,
}

/// A chain of receive buffers: the index of its head, and the number of bytes in it.
#[derive(Clone, Copy)]
struct Chain {
    head: u16,
    bytes: usize,
}

/// A frame from the guest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// virtio-net's header, and the frame.
    Frame([u8; HEADER_BYTES_MAX], Vec<u8>),
    /// The chain is no frame: too short, too long, cut off, or outside of the guest's memory.
    Damaged,
}

/// Outcome of an attempt to write a frame into the guest's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// The driver offers too few buffers at present.
    NoBuffer,
    /// A buffer is too short for the frame, and the driver cannot merge buffers.
    TooLong,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            // The largest size is a power of two, as `new` demands.
            queue: Queue::new(DESCRIPTORS_MAX).unwrap_or_default(),
            settled: Wrapping(0),
            pieces: Vec::new(),
            chains: Vec::new(),
        }
    }
}

impl Ring {
    /// Sets the number of descriptors, a power of two up to [`DESCRIPTORS_MAX`].
    pub(super) fn set_size(&mut self, size: u16) -> Result<(), Error> {
        self.queue.try_set_size(size)
    }

    /// Sets the addresses of the descriptors, the available ring and the used ring.
    pub(super) fn set_places(&mut self, places: [GuestAddress; 3]) -> Result<(), Error> {
        let [descriptors, available, used] = places;
        self.queue.try_set_desc_table_address(descriptors)?;
        self.queue.try_set_avail_ring_address(available)?;
        self.queue.try_set_used_ring_address(used)
    }

    /// Sets the index of the next chain to take.
    pub(super) fn set_base(&mut self, base: u16) {
        self.queue.set_next_avail(base);
    }

    /// Returns the index of the next chain to take.
    pub(super) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Returns whether the ring was started.
    pub(super) fn is_ready(&self) -> bool {
        self.queue.ready()
    }

    /// Stops the ring. It keeps its place.
    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    /// Returns whether all of the ring is in this memory.
    pub(super) fn is_in(&self, memory: &GuestMemoryMmap) -> bool {
        self.queue.is_valid(memory)
    }

    /// Starts to use the ring. Returns whether all of it is in the guest's memory.
    pub(super) fn start(&mut self, memory: &GuestMemoryMmap, event_idx: bool) -> bool {
        let Ok(used) = self.queue.used_idx(memory, Ordering::Acquire) else {
            return false;
        };
        self.queue.set_next_used(used.0);
        self.settled = used;
        self.queue.set_event_idx(event_idx);
        self.queue.set_ready(true);
        let is_valid = self.queue.is_valid(memory);
        self.queue.set_ready(is_valid);
        is_valid
    }

    /// Takes the next frame that the guest sends, and returns its buffers to the driver. `claim`
    /// returns an empty buffer for a number of bytes. Without a frame, requests a notification of
    /// the next one.
    ///
    /// # Errors
    /// The driver broke the ring.
    pub(super) fn take(
        &mut self,
        memory: &GuestMemoryMmap,
        header_bytes: usize,
        claim: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<Taken>, Error> {
        let mut next = self.queue.iter(memory)?.next();
        // A frame may have been added before the driver saw that it has to notify.
        if next.is_none() && self.queue.enable_notification(memory)? {
            next = self.queue.iter(memory)?.next();
        }
        let Some(chain) = next else {
            return Ok(None);
        };
        let head = chain.head_index();
        self.pieces.clear();
        let mut taken = Taken::Damaged;
        if let Some(bytes) = list_pieces(chain, false, &mut self.pieces)
            && let Some(frame_bytes) = bytes.checked_sub(header_bytes)
        {
            let mut frame = claim(frame_bytes);
            let mut header = [0; HEADER_BYTES_MAX];
            if self.read(memory, &mut header[..header_bytes], &mut frame) {
                taken = Taken::Frame(header, frame);
            }
        }
        self.queue.add_used(memory, head, 0)?;
        Ok(Some(taken))
    }

    /// Reads the listed memory: the header first, then the frame. Returns whether all of it is the
    /// guest's.
    fn read(&self, memory: &GuestMemoryMmap, header: &mut [u8], frame: &mut Vec<u8>) -> bool {
        let mut read = 0;
        for piece in &self.pieces {
            let in_header = piece.bytes.min(header.len() - read);
            if memory
                .read_slice(&mut header[read..read + in_header], piece.at)
                .is_err()
            {
                return false;
            }
            read += in_header;
            let begin = frame.len();
            frame.resize(begin + piece.bytes - in_header, 0);
            let at = piece.at.checked_add(in_header as u64);
            if at.is_none_or(|at| memory.read_slice(&mut frame[begin..], at).is_err()) {
                return false;
            }
        }
        true
    }

    /// Writes a frame into the buffers that the driver offers: `header`, then `head`, then `body`.
    ///
    /// # Errors
    /// The driver broke the ring. A receive buffer outside of the guest's memory does so.
    pub(super) fn put(
        &mut self,
        memory: &GuestMemoryMmap,
        mut header: [u8; HEADER_BYTES_MAX],
        header_bytes: usize,
        [head, body]: [&[u8]; 2],
        is_mergeable: bool,
    ) -> Result<Put, Error> {
        let wanted = header_bytes + head.len() + body.len();
        self.pieces.clear();
        self.chains.clear();
        let mut room = 0;
        while room < wanted {
            let Some(chain) = self.queue.iter(memory)?.next() else {
                return Ok(self.undo(Put::NoBuffer));
            };
            let head = chain.head_index();
            let bytes = list_pieces(chain, true, &mut self.pieces).ok_or(Error::InvalidChain)?;
            self.chains.push(Chain { head, bytes });
            room += bytes;
            if room < wanted && !is_mergeable {
                return Ok(self.undo(Put::TooLong));
            }
        }
        let count = self.chains.len() as u16;
        header[BUFFERS_AT..].copy_from_slice(&count.to_le_bytes());
        self.write(memory, [&header[..header_bytes], head, body])?;
        self.publish(memory, wanted)?;
        Ok(Put::Done)
    }

    /// Leaves the listed chains to the next frame.
    fn undo(&mut self, outcome: Put) -> Put {
        for _ in &self.chains {
            self.queue.go_to_previous_position();
        }
        outcome
    }

    /// Writes `parts` one after another into the listed memory, which has room for them.
    fn write(&self, memory: &GuestMemoryMmap, parts: [&[u8]; 3]) -> Result<(), Error> {
        let mut pieces = self.pieces.iter().copied();
        let mut piece = Piece {
            at: GuestAddress(0),
            bytes: 0,
        };
        for mut part in parts {
            while !part.is_empty() {
                if piece.bytes == 0 {
                    piece = pieces.next().ok_or(Error::InvalidChain)?;
                }
                let (now, later) = part.split_at(part.len().min(piece.bytes));
                memory
                    .write_slice(now, piece.at)
                    .map_err(Error::GuestMemory)?;
                piece.at = piece
                    .at
                    .checked_add(now.len() as u64)
                    .ok_or(Error::AddressOverflow)?;
                piece.bytes -= now.len();
                part = later;
            }
        }
        Ok(())
    }

    /// Returns the listed chains to the driver, all at once, because a driver that finds the first
    /// buffer of a frame expects the others. `wanted`: number of bytes in them.
    fn publish(&mut self, memory: &GuestMemoryMmap, mut wanted: usize) -> Result<(), Error> {
        let Some((last, others)) = self.chains.split_last() else {
            return Ok(());
        };
        let size = self.queue.size();
        for chain in others {
            if chain.head >= size {
                return Err(Error::InvalidDescriptorIndex);
            }
            let place = u64::from(self.queue.next_used() % size);
            let at = GuestAddress(self.queue.used_ring())
                .checked_add(4 + 8 * place)
                .ok_or(Error::AddressOverflow)?;
            // An element of the used ring: the head, then the number of bytes.
            let used = u64::from(chain.head) | (chain.bytes as u64) << 32;
            memory
                .write_obj(used.to_le(), at)
                .map_err(Error::GuestMemory)?;
            wanted -= chain.bytes;
            let next = self.queue.next_used().wrapping_add(1);
            self.queue.set_next_used(next);
        }
        self.queue.add_used(memory, last.head, wanted as u32)
    }

    /// Returns whether the driver needs a notification of the buffers returned since the previous
    /// call (virtio 1.2, sections 2.7.7 and 2.7.10).
    ///
    /// # Errors
    /// The driver broke the ring.
    pub(super) fn needs_notification(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Error> {
        let used = Wrapping(self.queue.next_used());
        let before = std::mem::replace(&mut self.settled, used);
        if used == before {
            return Ok(false);
        }
        // The driver sees the used ring before this side reads what the driver wants.
        fence(Ordering::SeqCst);
        let available = GuestAddress(self.queue.avail_ring());
        let load = |offset: u64| {
            let at = available
                .checked_add(offset)
                .ok_or(Error::AddressOverflow)?;
            let word = memory.load::<u16>(at, Ordering::Relaxed);
            word.map(u16::from_le).map_err(Error::GuestMemory)
        };
        if !self.queue.event_idx_enabled() {
            return Ok(load(0)? & NO_INTERRUPT == 0);
        }
        let event = Wrapping(load(4 + 2 * u64::from(self.queue.size()))?);
        Ok(used - event - Wrapping(1) < used - before)
    }
}

/// Appends the memory of a chain's descriptors to `pieces`. Returns the number of bytes, which is
/// not 0. `None` if the chain is cut off, has descriptors of the other direction, or is longer than any
/// frame.
fn list_pieces(
    chain: DescriptorChain<&GuestMemoryMmap>,
    is_writable: bool,
    pieces: &mut Vec<Piece>,
) -> Option<usize> {
    let mut bytes = 0;
    let mut is_complete = false;
    for (number, descriptor) in chain.enumerate() {
        if number >= DESCRIPTORS_MAX.into() || descriptor.is_write_only() != is_writable {
            return None;
        }
        let piece = Piece {
            at: descriptor.addr(),
            bytes: descriptor.len() as usize,
        };
        bytes += piece.bytes;
        // A receive buffer may be longer than any frame.
        if !is_writable && bytes > HEADER_BYTES_MAX + PACKET_BYTES_MAX {
            return None;
        }
        pieces.push(piece);
        is_complete = !descriptor.has_next();
    }
    (is_complete && bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests;
