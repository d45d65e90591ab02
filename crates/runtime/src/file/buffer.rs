//! Buffers that the kernel may fill asynchronously.
use std::io;
use std::ops::{Deref, DerefMut, Range};

use memmap2::MmapMut;

/// A buffer whose bytes stay at one address when the buffer itself is moved.
///
/// # Safety
/// Between calls of [`StableBuffer::bytes_mut`] neither address nor length of the bytes may change,
/// unless the buffer itself is changed. Moving the buffer does not count as a change.
pub unsafe trait StableBuffer: Send + 'static {
    /// Returns the bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

// SAFETY: a vector's bytes are on the heap, and stay there when the vector is moved.
unsafe impl StableBuffer for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: a mapping keeps its address when its handle is moved.
unsafe impl StableBuffer for PageBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Page-aligned bytes, as `O_DIRECT` requires.
#[derive(Debug)]
pub struct PageBuffer(MmapMut);

impl PageBuffer {
    /// Allocates `length` zeroed bytes, at least 1.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new(length: usize) -> io::Result<PageBuffer> {
        Ok(PageBuffer(MmapMut::map_anon(length)?))
    }
}

impl Deref for PageBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Buffer of a transfer to or from a file: part of a caller's buffer, through a [`PageBuffer`] if
/// the file requires page-aligned requests (`O_DIRECT`). The caller's entire buffer moves in, and
/// [`IoBuffer::into_parts`] returns it.
#[derive(Debug, Default)]
pub struct IoBuffer {
    bytes: Vec<u8>,
    range: Range<usize>,
    page: Option<PageBuffer>,
}

impl IoBuffer {
    /// Covers the `range` of `bytes`, through `page` if one is given. [`IoBuffer::stage`] copies
    /// the bytes of a write to the page buffer.
    ///
    /// # Panics
    /// If the range is not within the bytes, or longer than the page buffer.
    #[must_use]
    pub fn new(bytes: Vec<u8>, range: Range<usize>, page: Option<PageBuffer>) -> IoBuffer {
        assert!(range.start <= range.end && range.end <= bytes.len());
        assert!(page.as_ref().is_none_or(|page| page.len() >= range.len()));
        IoBuffer { bytes, range, page }
    }

    /// Copies the bytes to the page buffer, if there is one. Call it before a write.
    pub fn stage(&mut self) {
        if let Some(page) = &mut self.page {
            page[..self.range.len()].copy_from_slice(&self.bytes[self.range.clone()]);
        }
    }

    /// Copies the bytes read from the page buffer, if there is one, to the caller's buffer. Call it
    /// after a read.
    pub fn unstage(&mut self) {
        if let Some(page) = &self.page {
            self.bytes[self.range.clone()].copy_from_slice(&page[..self.range.len()]);
        }
    }

    /// Returns the caller's buffer, and the page buffer for reuse.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Option<PageBuffer>) {
        (self.bytes, self.page)
    }
}

// SAFETY: a vector and a page buffer both keep the address of their bytes when they are moved, and
// neither they nor the range change.
unsafe impl StableBuffer for IoBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.page {
            Some(page) => &mut page[..self.range.len()],
            None => &mut self.bytes[self.range.clone()],
        }
    }
}

/// Free list of page buffers.
#[derive(Debug, Default)]
pub struct PageBuffers {
    /// Free buffers, indexed by the power of two of their length.
    free: [Vec<PageBuffer>; PageBuffers::CLASSES],
    /// Total length of the free buffers.
    held_bytes: usize,
}

impl PageBuffers {
    /// Number of size classes: 4 KiB to 2 GiB.
    const CLASSES: usize = 20;
    /// Upper bound of the buffers kept for reuse: a queue of 128 requests with 256 KiB each.
    const HELD_BYTES_MAX: usize = 32 << 20;

    fn class(length: usize) -> usize {
        (length.max(4096).next_power_of_two().trailing_zeros() - 12) as usize
    }

    /// Returns a buffer of at least `length` bytes with undefined content.
    ///
    /// # Errors
    /// No memory is left.
    pub fn take(&mut self, length: usize) -> io::Result<PageBuffer> {
        let class = PageBuffers::class(length);
        if let Some(buffer) = self.free[class].pop() {
            self.held_bytes -= buffer.len();
            return Ok(buffer);
        }
        PageBuffer::new(4096 << class)
    }

    /// Returns a buffer to the free list, or frees it if the list holds 32 MiB already.
    pub fn give(&mut self, buffer: PageBuffer) {
        if self.held_bytes + buffer.len() <= PageBuffers::HELD_BYTES_MAX {
            self.held_bytes += buffer.len();
            self.free[PageBuffers::class(buffer.len())].push(buffer);
        }
    }
}
