//! Buffers that the kernel may fill while nobody looks.
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// A buffer whose bytes stay at one address when the buffer itself is moved.
///
/// # Safety
/// Between calls of [`StableBuffer::bytes_mut`] neither address nor length of the bytes may change, as long as nobody changes the
/// buffer; moving it is no change.
pub unsafe trait StableBuffer: Send + 'static {
    /// The bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

// SAFETY: a vector's bytes are on the heap, and stay there when the vector is moved.
unsafe impl StableBuffer for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: a mapping stays where it is when its handle is moved.
unsafe impl StableBuffer for PageBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Bytes that begin on a page, as `O_DIRECT` wants them.
#[derive(Debug)]
pub struct PageBuffer(MmapMut);

impl PageBuffer {
    /// `length` zeroes, at least 1.
    ///
    /// # Errors
    /// No memory left.
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
