//! The driver's side of a virtqueue, for tests: it writes what a guest would, or should not.
use std::sync::atomic::Ordering;

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;
/// Descriptors of a ring.
pub(super) const SIZE: u16 = 8;
/// Length of the memory that a ring occupies, bytes.
pub(super) const RING_BYTES: u64 = 0x1000;

/// A driver of the ring whose memory begins at `base`.
pub(super) struct Driver<'m> {
    memory: &'m GuestMemoryMmap,
    base: u64,
    offered: u16,
    seen: u16,
}

impl<'m> Driver<'m> {
    pub(super) fn new(memory: &'m GuestMemoryMmap, base: u64) -> Driver<'m> {
        Driver {
            memory,
            base,
            offered: 0,
            seen: 0,
        }
    }

    /// Addresses of the descriptors, the available ring and the used ring.
    pub(super) fn places(&self) -> [GuestAddress; 3] {
        [0, 0x400, 0x800].map(|offset| GuestAddress(self.base + offset))
    }

    /// Writes a descriptor into the table at `table`.
    pub(super) fn describe_in(
        &self,
        table: u64,
        index: u16,
        [at, bytes]: [u64; 2],
        flags: u16,
        next: u16,
    ) {
        let place = GuestAddress(table + 16 * u64::from(index));
        let rest = bytes | u64::from(flags) << 32 | u64::from(next) << 48;
        self.memory
            .write_obj([at, rest].map(u64::to_le)[0], place)
            .unwrap();
        self.memory
            .write_obj(rest.to_le(), GuestAddress(place.0 + 8))
            .unwrap();
    }

    /// Writes a descriptor of the ring.
    pub(super) fn describe(&self, index: u16, memory: [u64; 2], flags: u16, next: u16) {
        self.describe_in(self.base, index, memory, flags, next);
    }

    /// Offers the chain that begins with descriptor `head`.
    pub(super) fn offer(&mut self, head: u16) {
        let place = self.places()[1].0 + 4 + 2 * u64::from(self.offered % SIZE);
        self.memory
            .write_obj(head.to_le(), GuestAddress(place))
            .unwrap();
        self.offered = self.offered.wrapping_add(1);
        self.set_available(self.offered);
    }

    /// Writes the index of the available ring.
    pub(super) fn set_available(&self, index: u16) {
        let place = GuestAddress(self.places()[1].0 + 2);
        self.memory
            .store(index.to_le(), place, Ordering::Release)
            .unwrap();
    }

    /// Returns the chains that the device has returned since the last call, with their lengths.
    pub(super) fn used(&mut self) -> Vec<(u32, u32)> {
        let ring = self.places()[2].0;
        let index: u16 = self
            .memory
            .load(GuestAddress(ring + 2), Ordering::Acquire)
            .unwrap();
        let mut used = Vec::new();
        while self.seen != index {
            let place = GuestAddress(ring + 4 + 8 * u64::from(self.seen % SIZE));
            let element: u64 = self.memory.read_obj(place).unwrap();
            used.push((element as u32, (element >> 32) as u32));
            self.seen = self.seen.wrapping_add(1);
        }
        used
    }

    /// Reads memory.
    pub(super) fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.memory.read_slice(&mut read, GuestAddress(at)).unwrap();
        read
    }

    /// Writes memory.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }
}
