//! The memory of frames, which the kernel shares (UMEM).
use std::io;
use std::slice;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

/// A part of the memory. Its owner is the only one in this process that accesses it.
pub(super) struct Area {
    map: Arc<MmapRaw>,
    start: usize,
    bytes: usize,
}

/// Allocates memory, in parts of `counts` slots.
pub(super) fn shared<const N: usize>(slot_bytes: usize, counts: [u32; N]) -> io::Result<[Area; N]> {
    let sizes = counts.map(|slots| slots as usize * slot_bytes);
    let map = MmapOptions::new()
        .len(sizes.iter().sum())
        .populate()
        .map_anon()?;
    let map = Arc::new(MmapRaw::from(map));
    let mut start = 0;
    Ok(sizes.map(|bytes| {
        let area = Area {
            map: Arc::clone(&map),
            start,
            bytes,
        };
        start += bytes;
        area
    }))
}

impl Area {
    /// Returns the address of the first byte of the entire memory, and the length of the memory.
    pub(super) fn of_all(&self) -> (u64, u64) {
        (self.map.as_ptr() as u64, self.map.len() as u64)
    }

    /// Returns the position of a byte of this part in the entire memory, which descriptors name.
    pub(super) fn address(&self, offset: usize) -> u64 {
        (self.start + offset) as u64
    }

    /// Returns bytes at an address of the memory.
    ///
    /// # Panics
    /// If they do not lie in this part.
    ///
    /// # Safety
    /// The kernel does not write to them before the end of the borrow.
    pub(super) unsafe fn at(&self, address: u64, length: usize) -> &[u8] {
        let start = self.checked(address, length);
        // SAFETY: the bytes lie in this part of the map, to which only `self` has access in this
        // process; the caller vouches for the kernel.
        unsafe { slice::from_raw_parts(start, length) }
    }

    /// Returns bytes at an address of the memory, to change them.
    ///
    /// # Panics
    /// If they do not lie in this part.
    ///
    /// # Safety
    /// The kernel does not access them before the end of the borrow.
    pub(super) unsafe fn at_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let start = self.checked(address, length);
        // SAFETY: as in `at`; `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start, length) }
    }

    fn checked(&self, address: u64, length: usize) -> *mut u8 {
        let offset = (address as usize).checked_sub(self.start);
        let end = offset.and_then(|offset| offset.checked_add(length));
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{length} bytes at {address} are in another part of the memory"
        );
        self.map.as_mut_ptr().wrapping_add(address as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_their_limits_are_checked() {
        let [mut first, second] = shared(2048, [1, 2]).unwrap();
        assert_eq!((first.address(8), second.address(8)), (8, 2056));
        assert_eq!(first.of_all(), second.of_all());
        assert_eq!(first.of_all().1, 3 * 2048);
        // SAFETY: no kernel shares this memory.
        unsafe {
            first.at_mut(2047, 1)[0] = 7;
            assert_eq!(first.at(2046, 2), [0, 7]);
            assert_eq!(second.at(2048, 4096)[0], 0);
        }
        for (address, length) in [(2047, 2), (2048, 1), (u64::MAX, 1), (0, usize::MAX)] {
            let access = || {
                // SAFETY: no kernel shares this memory.
                let _ = unsafe { first.at(address, length) };
            };
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(access)).is_err());
        }
        // SAFETY: no kernel shares this memory.
        let below = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe {
            second.at(2047, 1).len()
        }));
        assert!(below.is_err());
    }
}
