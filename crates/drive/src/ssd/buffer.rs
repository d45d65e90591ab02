//! The write buffer of a flash drive, which admits writes in order of arrival and fills pages.
use std::collections::VecDeque;

use hakaru_contract::drive::Ssd;

/// A write buffer. It models timing only, so it counts bytes and has no data.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    size_bytes: u64,
    /// Length of a page of all planes.
    page_bytes: u64,
    /// Number of bytes in the buffer.
    buffered: u64,
    /// Number of buffered bytes that do not fill a page yet.
    unpaged: u64,
    /// Writes that wait for room: the key of the command, and the number of bytes not admitted yet.
    waiting: VecDeque<(usize, u64)>,
}

/// Result of [`WriteBuffer::admit`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// Key of the command, if its last byte was admitted.
    pub(super) completed: Option<usize>,
    /// Number of pages that became full.
    pub(super) pages: u64,
}

impl WriteBuffer {
    /// Creates an empty buffer.
    pub(super) fn new(ssd: &Ssd) -> WriteBuffer {
        WriteBuffer {
            size_bytes: ssd.buffer_bytes,
            page_bytes: u64::from(ssd.page_bytes) * u64::from(ssd.planes),
            buffered: 0,
            unpaged: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Queues the data of a command.
    pub(super) fn push(&mut self, command: usize, bytes: u64) {
        self.waiting.push_back((command, bytes));
    }

    /// Admits as much of the oldest waiting write as there is room for. Returns `None` if no write
    /// waits or the buffer is full.
    pub(super) fn admit(&mut self) -> Option<Admitted> {
        let (command, waiting_bytes) = self.waiting.front_mut()?;
        let bytes = (*waiting_bytes).min(self.size_bytes - self.buffered);
        if bytes == 0 {
            return None;
        }
        *waiting_bytes -= bytes;
        let completed = (*waiting_bytes == 0).then_some(*command);
        if completed.is_some() {
            self.waiting.pop_front();
        }
        self.buffered += bytes;
        self.unpaged += bytes;
        let pages = self.unpaged / self.page_bytes;
        self.unpaged %= self.page_bytes;
        Some(Admitted { completed, pages })
    }

    /// Frees the room of a programmed page.
    pub(super) fn release_page(&mut self) {
        self.buffered -= self.page_bytes;
    }
}
