//! Input and output of lines, beside a data path that must not wait for either.
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::wait::Waker;

/// Longest input accepted without a complete line, bytes. A configuration of 20 000 VMs takes some
/// 12 MB.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Splits the input of a descriptor into lines.
pub struct LineReader {
    fd: OwnedFd,
    pending: Vec<u8>,
    /// Number of bytes of `pending` that are known to contain no newline.
    searched: usize,
    ended: bool,
}

impl LineReader {
    /// Creates a reader of `fd`, which may be a blocking descriptor: it is read once per event of
    /// the reactor.
    #[must_use]
    pub fn new(fd: OwnedFd) -> LineReader {
        LineReader {
            fd,
            pending: Vec::new(),
            searched: 0,
            ended: false,
        }
    }

    /// Returns the descriptor to register with the reactor ([`crate::Interest::Level`]).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads once, at most 64 KiB. Call it when the descriptor is readable.
    ///
    /// # Errors
    /// The descriptor cannot be read, or a line is longer than 64 MiB.
    pub fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0_u8; 64 << 10];
        match rustix::io::read(&self.fd, &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.pending.extend_from_slice(&buffer[..n]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if self.pending.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "an input line is longer than 64 MiB",
            ));
        }
        Ok(())
    }

    /// Returns the next complete line without its newline. The last line of the stream may lack the
    /// newline.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        if let Some(at) = self.pending[self.searched..]
            .iter()
            .position(|&b| b == b'\n')
        {
            let mut line: Vec<u8> = self.pending.drain(..=self.searched + at).collect();
            line.pop();
            self.searched = 0;
            return Some(line);
        }
        self.searched = self.pending.len();
        if self.ended && !self.pending.is_empty() {
            self.searched = 0;
            return Some(std::mem::take(&mut self.pending));
        }
        None
    }

    /// Returns whether the stream has ended and every line has been returned.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended && self.pending.is_empty()
    }
}

/// Writes items as lines from a separate thread, so that neither a slow reader nor the encoding
/// delays the data path. At most 4096 items are queued; a reader that is further behind counts as
/// lost.
pub struct LineWriter<T: Send + 'static> {
    queue: Option<mpsc::SyncSender<T>>,
    broken: Arc<AtomicBool>,
    /// Keeps the eventfd open after the thread has ended. Otherwise the thread's last wake would
    /// vanish with the descriptor.
    _waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Maximum number of queued items. At one sample per second this is over an hour.
const QUEUE_MAX: usize = 4096;

impl<T: Send + 'static> LineWriter<T> {
    /// Starts a thread that writes a line to `fd` for each item. `encode` appends the text of an
    /// item, without a newline. The thread wakes `waker` when the reader has closed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn spawn(
        fd: OwnedFd,
        encode: fn(&T, &mut Vec<u8>),
        waker: Waker,
    ) -> io::Result<LineWriter<T>> {
        let (queue, items) = mpsc::sync_channel::<T>(QUEUE_MAX);
        let broken = Arc::new(AtomicBool::new(false));
        let thread_broken = Arc::clone(&broken);
        let own_waker = waker.clone();
        let thread = std::thread::Builder::new()
            .name("stdout".into())
            .spawn(move || {
                let mut file = File::from(fd);
                let mut line = Vec::new();
                for item in items {
                    line.clear();
                    encode(&item, &mut line);
                    line.push(b'\n');
                    if file.write_all(&line).is_err() {
                        thread_broken.store(true, Ordering::Release);
                        waker.wake();
                        return;
                    }
                }
            })?;
        Ok(LineWriter {
            queue: Some(queue),
            broken,
            _waker: own_waker,
            thread: Some(thread),
        })
    }

    /// Queues an item. If the queue is full, or the reader is lost, drops it.
    pub fn send(&self, item: T) {
        if let Some(queue) = &self.queue
            && queue.try_send(item).is_err()
        {
            self.broken.store(true, Ordering::Release);
        }
    }

    /// Returns whether the reader is lost: it has closed, or is more than 4096 items behind.
    #[must_use]
    pub fn broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Blocks until the queued items are written or the reader has closed.
    pub fn finish(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic: it encodes and writes.
            let _ = thread.join();
        }
    }
}

impl<T: Send + 'static> Drop for LineWriter<T> {
    fn drop(&mut self) {
        if !self.broken() {
            self.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Token;
    use crate::wait::{Events, Reactor};

    #[test]
    fn lines_are_split_regardless_of_reads_and_the_last_needs_no_newline() {
        let (r, w) = rustix::pipe::pipe().unwrap();
        let mut reader = LineReader::new(r);
        for piece in ["al", "pha\nbe", "ta\n\nom"] {
            rustix::io::write(&w, piece.as_bytes()).unwrap();
            reader.fill().unwrap();
        }
        assert_eq!(reader.next_line().unwrap(), b"alpha");
        assert_eq!(reader.next_line().unwrap(), b"beta");
        assert_eq!(reader.next_line().unwrap(), b"");
        assert_eq!(reader.next_line(), None);
        assert!(!reader.ended());
        drop(w);
        reader.fill().unwrap();
        assert_eq!(reader.next_line().unwrap(), b"om");
        assert!(reader.ended());
    }

    #[test]
    fn a_closed_reader_breaks_the_writer_and_wakes_the_reactor() {
        let reactor = Reactor::new().unwrap();
        let waker = Waker::new(&reactor, Token(9)).unwrap();
        let (r, w) = rustix::pipe::pipe().unwrap();
        drop(r);
        let encode = |item: &u32, line: &mut Vec<u8>| line.extend_from_slice(&item.to_be_bytes());
        let writer = LineWriter::spawn(w, encode, waker).unwrap();
        writer.send(1);
        let mut events = Events::with_capacity(1);
        reactor.wait(&mut events, None).unwrap();
        assert_eq!(events.iter().next().unwrap().token, Token(9));
        assert!(writer.broken());
    }
}
