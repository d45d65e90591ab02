//! Non-blocking files and block devices beside a reactor: requests go into a [`FileQueue`], and
//! completions come out.
//!
//! io_uring does the work if the kernel permits it. Otherwise a small pool of threads does:
//! container profiles and `kernel.io_uring_disabled` forbid io_uring. The threads always list
//! extents, because io_uring has no such operation and the call blocks while the file is being
//! changed. Both have the same interface:
//!
//! ```text
//! queue.submit(FileRequest { … });      any number of times
//! queue.flush();                        once per turn of the loop: one system call for all of them
//! token readable → queue.handle_event()
//! while let Some(done) = queue.poll_done() { … }
//! ```
mod buffer;
pub mod device_mapper;
pub mod disk;
pub mod folder;
mod handle;
mod request;
mod threads;
mod uring;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

pub use buffer::{IoBuffer, PageBuffer, PageBuffers, StableBuffer};
pub use handle::{Extent, FileHandle};
pub use request::{FileDone, FileOp, FileRequest};

use self::threads::Threads;
use self::uring::Uring;
use crate::wait::Reactor;
use crate::wait::Token;

/// Delay before a shell repeats [`FileQueue::flush`] if [`FileQueue::must_retry`].
pub const RETRY_AFTER: Duration = Duration::from_millis(1);

/// A queue of requests to files, and of their completions.
pub struct FileQueue<B: StableBuffer> {
    uring: Option<Box<Uring<B>>>,
    threads: Threads<B>,
    done: VecDeque<FileDone<B>>,
}

impl<B: StableBuffer> FileQueue<B> {
    /// Creates a queue that reports completions to the reactor under `token`. It uses io_uring, or
    /// threads if io_uring is not available.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(reactor: &Reactor, token: Token) -> io::Result<FileQueue<B>> {
        Ok(FileQueue {
            uring: Uring::new(reactor, token).ok().map(Box::new),
            ..FileQueue::with_threads(reactor, token)?
        })
    }

    /// Creates a queue on threads, even if io_uring is available.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_threads(reactor: &Reactor, token: Token) -> io::Result<FileQueue<B>> {
        Ok(FileQueue {
            uring: None,
            threads: Threads::new(reactor, token)?,
            done: VecDeque::new(),
        })
    }

    /// Returns the name of the backend: `io_uring` or `threads`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match self.uring {
            Some(_) => "io_uring",
            None => "threads",
        }
    }

    /// Submits a request. With io_uring it starts at the next [`FileQueue::flush`].
    pub fn submit(&mut self, request: FileRequest<B>) {
        match &mut self.uring {
            Some(uring) if !matches!(request.op, FileOp::Extents { .. }) => uring.submit(request),
            _ => self.threads.submit(request),
        }
    }

    /// Starts all submitted requests, and collects those that complete at once.
    pub fn flush(&mut self) {
        if let Some(uring) = &mut self.uring {
            uring.flush(&mut self.done);
        }
    }

    /// Returns whether the kernel refused requests at the last flush. No event follows, so the
    /// shell flushes again after [`RETRY_AFTER`].
    #[must_use]
    pub fn must_retry(&self) -> bool {
        self.uring.as_ref().is_some_and(|uring| uring.must_retry())
    }

    /// Handles the reactor's event for the queue's token.
    pub fn handle_event(&mut self) {
        self.flush();
        self.threads.reap(&mut self.done);
    }

    /// Returns the next finished request, in no particular order.
    pub fn poll_done(&mut self) -> Option<FileDone<B>> {
        self.done.pop_front()
    }
}

/// Returns whether this process may use io_uring.
#[must_use]
pub fn io_uring_is_available() -> bool {
    uring::probe().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Events;

    const TOKEN: Token = Token(3);

    fn file(name: &str, size: u64) -> FileHandle {
        let path = std::env::temp_dir().join(format!("hakaru-{}-{name}", std::process::id()));
        let handle = FileHandle::create(&path, size, false).unwrap();
        std::fs::remove_file(path).unwrap();
        handle
    }

    fn wait_done(reactor: &Reactor, queue: &mut FileQueue<Vec<u8>>) -> FileDone<Vec<u8>> {
        let mut events = Events::with_capacity(4);
        loop {
            queue.flush();
            if let Some(done) = queue.poll_done() {
                return done;
            }
            reactor.wait(&mut events, None).unwrap();
            if events.iter().any(|event| event.token == TOKEN) {
                queue.handle_event();
            }
        }
    }

    fn each_backend(test: impl Fn(&Reactor, FileQueue<Vec<u8>>)) {
        let reactor = Reactor::new().unwrap();
        test(&reactor, FileQueue::with_threads(&reactor, TOKEN).unwrap());
        if io_uring_is_available() {
            let reactor = Reactor::new().unwrap();
            let queue = FileQueue::new(&reactor, TOKEN).unwrap();
            assert_eq!(queue.backend(), "io_uring");
            test(&reactor, queue);
        }
    }

    #[test]
    fn written_data_is_read_back_and_the_rest_is_zero() {
        each_backend(|reactor, mut queue| {
            let file = file("rw", 1 << 30);
            let request = |id, op, offset_bytes, buffer| FileRequest {
                id,
                file: file.clone(),
                op,
                offset_bytes,
                buffer,
            };
            queue.submit(request(
                1,
                FileOp::Write { durable: true },
                (1 << 30) - 4096,
                vec![7; 4096],
            ));
            let done = wait_done(reactor, &mut queue);
            assert_eq!((done.id, done.op), (1, FileOp::Write { durable: true }));
            done.result.unwrap();
            queue.submit(request(2, FileOp::Sync, 0, Vec::new()));
            wait_done(reactor, &mut queue).result.unwrap();
            queue.submit(request(3, FileOp::Read, (1 << 30) - 8192, vec![1; 8192]));
            let done = wait_done(reactor, &mut queue);
            done.result.unwrap();
            assert!(
                done.buffer[..4096].iter().all(|b| *b == 0)
                    && done.buffer[4096..].iter().all(|b| *b == 7)
            );
        });
    }

    #[test]
    fn each_of_many_concurrent_requests_completes_once() {
        each_backend(|reactor, mut queue| {
            let file = file("many", 1 << 24);
            let mut open: Vec<bool> = vec![true; 6000];
            for id in 0..6000_u64 {
                let offset_bytes = (id % 4096) * 4096;
                queue.submit(FileRequest {
                    id,
                    file: file.clone(),
                    op: FileOp::Read,
                    offset_bytes,
                    buffer: vec![1; 512],
                });
            }
            for _ in 0..6000 {
                let done = wait_done(reactor, &mut queue);
                done.result.unwrap();
                assert!(std::mem::take(&mut open[done.id as usize]));
                assert!(done.buffer.iter().all(|b| *b == 0));
            }
        });
    }

    #[test]
    fn a_hole_takes_no_space_and_a_zeroed_range_does_and_both_read_as_zeros() {
        each_backend(|reactor, mut queue| {
            let file = file("holes", 1 << 20);
            let mut execute = |op, offset_bytes, buffer| {
                queue.submit(FileRequest {
                    id: 1,
                    file: file.clone(),
                    op,
                    offset_bytes,
                    buffer,
                });
                let done = wait_done(reactor, &mut queue);
                done.result.as_ref().unwrap();
                done
            };
            execute(FileOp::Write { durable: true }, 0, vec![7; 1 << 20]);
            let whole = [Extent {
                offset_bytes: 0,
                length_bytes: 1 << 20,
                mapped: true,
            }];
            let list = FileOp::Extents {
                length_bytes: 1 << 20,
                extents_max: 8,
            };
            assert_eq!(execute(list, 0, Vec::new()).extents, whole);
            let punch = FileOp::Punch {
                length_bytes: 64 << 10,
            };
            execute(punch, 128 << 10, Vec::new());
            let extents = file.extents(0, 1 << 20, 8).unwrap();
            let shape: Vec<_> = extents
                .iter()
                .map(|e| (e.offset_bytes >> 10, e.length_bytes >> 10, e.mapped))
                .collect();
            assert_eq!(shape, [(0, 128, true), (128, 64, false), (192, 832, true)]);
            let length_bytes = 12_345;
            execute(FileOp::Zero { length_bytes }, 512, Vec::new());
            let bytes = execute(FileOp::Read, 0, vec![1; 256 << 10]).buffer;
            for (at, byte) in bytes.iter().enumerate() {
                let zero =
                    (512..512 + 12_345).contains(&at) || (128 << 10..192 << 10).contains(&at);
                assert_eq!(*byte, if zero { 0 } else { 7 }, "at {at}");
            }
        });
    }

    #[test]
    fn part_of_a_buffer_is_transferred_directly_and_through_a_page_buffer() {
        let reactor = Reactor::new().unwrap();
        let mut queue = FileQueue::new(&reactor, TOKEN).unwrap();
        let path = std::env::temp_dir().join(format!("hakaru-{}-direct", std::process::id()));
        let mut pages = PageBuffers::default();
        for direct in [false, true] {
            let file = FileHandle::create(&path, 16 << 10, direct).unwrap();
            let mut execute = |op, mut buffer: IoBuffer| {
                buffer.stage();
                queue.submit(FileRequest {
                    id: 1,
                    file: file.clone(),
                    op,
                    offset_bytes: 4096,
                    buffer,
                });
                let mut events = Events::with_capacity(4);
                loop {
                    queue.flush();
                    if let Some(mut done) = queue.poll_done() {
                        done.result.unwrap();
                        done.buffer.unstage();
                        return done.buffer.into_parts();
                    }
                    reactor.wait(&mut events, None).unwrap();
                    queue.handle_event();
                }
            };
            let source: Vec<u8> = (0..12_288_u32).map(|n| (n % 251) as u8).collect();
            let mut page = || direct.then(|| pages.take(8192).unwrap());
            let written = IoBuffer::new(source.clone(), 1000..9192, page());
            execute(FileOp::Write { durable: false }, written);
            let read = IoBuffer::new(vec![255; 12_288], 500..8692, page());
            let (bytes, page) = execute(FileOp::Read, read);
            assert_eq!(page.is_some(), direct);
            assert_eq!(bytes[500..8692], source[1000..9192]);
            assert!(bytes[..500].iter().chain(&bytes[8692..]).all(|b| *b == 255));
            page.into_iter().for_each(|page| pages.give(page));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_and_so_is_a_write_to_a_full_device() {
        each_backend(|reactor, mut queue| {
            let short = file("short", 4096);
            queue.submit(FileRequest {
                id: 1,
                file: short,
                op: FileOp::Read,
                offset_bytes: 2048,
                buffer: vec![0; 4096],
            });
            let done = wait_done(reactor, &mut queue);
            assert_eq!(
                done.result.unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
            let full = FileHandle::open("/dev/full".as_ref(), true, false).unwrap();
            let op = FileOp::Write { durable: false };
            queue.submit(FileRequest {
                id: 2,
                file: full,
                op,
                offset_bytes: 0,
                buffer: vec![0; 4096],
            });
            let done = wait_done(reactor, &mut queue);
            assert_eq!(done.result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        });
    }
}
