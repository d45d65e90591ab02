//! A thread that writes packets. The receiver's TCP runs within the system call that writes; on a
//! second processor it does not delay forwarding.
//!
//! Waking the thread costs more than writing a single packet, so the shell decides which packets
//! use it. Packets of an interface stay in order as long as the shell itself writes none while some
//! are [pending](PacketWriter::pending).
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use hakaru_units::Time;

use super::frame::Outgoing;
use super::outbox::Outbox;
use super::socket::PacketSocket;
use crate::process::ThreadCpuClock;
use crate::wait::Token;
use crate::wait::clock;
use crate::wait::{Reactor, Waker};

/// Packets for one interface, written together.
pub trait Packets: Send + 'static {
    /// Returns the packets in order.
    fn outgoing(&mut self) -> Vec<Outgoing<'_>>;
    /// Releases the memory of packets that were written or refused.
    fn release(&mut self);
}

/// Result of one [`PacketWriter::submit`].
pub struct Written<P> {
    /// Number of the interface, as passed to [`PacketWriter::submit`].
    pub interface: usize,
    /// Number of packets that the interface refused; they are lost.
    pub refused: u64,
    /// Instant at which writing began.
    pub at: Time,
    /// The packets, for reuse.
    pub packets: P,
}

struct Work<P> {
    interface: usize,
    socket: Arc<OwnedFd>,
    packets: P,
}

/// Handle of the writing thread.
pub struct PacketWriter<P> {
    work: Option<Sender<Work<P>>>,
    done: Receiver<Written<P>>,
    thread: Option<JoinHandle<()>>,
    cpu: Option<ThreadCpuClock>,
    /// Number of submissions of each interface whose result has not been returned.
    pending: Vec<u32>,
    progress: Arc<Progress>,
    returned: u64,
    waker: Waker,
}

/// Number of submissions written, and whether the shell sleeps until the next one.
#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    is_awaited: AtomicBool,
}

impl<P: Packets> PacketWriter<P> {
    /// Starts the thread for `interfaces` interfaces. After [`PacketWriter::await_written`] the
    /// reactor reports results under `token`.
    ///
    /// # Errors
    /// No threads or descriptors are left.
    pub fn new(reactor: &Reactor, token: Token, interfaces: usize) -> io::Result<PacketWriter<P>> {
        let waker = Waker::new(reactor, token)?;
        let progress = Arc::new(Progress::default());
        let (thread_waker, thread_progress) = (waker.clone(), Arc::clone(&progress));
        let (work, orders) = mpsc::channel::<Work<P>>();
        let (results, done) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("packet-writer".to_owned())
            .spawn(move || {
                let mut outbox = Outbox::default();
                for Work {
                    interface,
                    socket,
                    mut packets,
                } in orders
                {
                    let began = clock::now();
                    let outgoing = packets.outgoing();
                    let refused = PacketSocket::send_through(&socket, &outgoing, &mut outbox);
                    drop(outgoing);
                    packets.release();
                    let written = Written {
                        interface,
                        refused,
                        at: began,
                        packets,
                    };
                    if results.send(written).is_err() {
                        return;
                    }
                    thread_progress.written.fetch_add(1, Ordering::SeqCst);
                    if thread_progress.is_awaited.swap(false, Ordering::SeqCst) {
                        thread_waker.wake();
                    }
                }
            })?;
        Ok(PacketWriter {
            work: Some(work),
            done,
            cpu: ThreadCpuClock::of(&thread),
            thread: Some(thread),
            pending: vec![0; interfaces],
            progress,
            returned: 0,
            waker,
        })
    }

    /// Returns the number of submissions of an interface whose result has not been returned.
    #[must_use]
    pub fn pending(&self, interface: usize) -> u32 {
        self.pending[interface]
    }

    /// Returns the CPU time of the thread so far, ns. `None` if the system does not report it.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.cpu.and_then(ThreadCpuClock::cpu_ns)
    }

    /// Submits packets to be written after all earlier ones.
    ///
    /// # Panics
    /// If the thread has panicked.
    pub fn submit(&mut self, interface: usize, socket: &PacketSocket, packets: P) {
        self.pending[interface] += 1;
        let work = Work {
            interface,
            socket: socket.sender(),
            packets,
        };
        let sent = self.work.as_ref().map(|to| to.send(work));
        assert!(
            matches!(sent, Some(Ok(()))),
            "the packet writer's thread has panicked"
        );
    }

    /// Returns the oldest result, if one is ready.
    pub fn poll_written(&mut self) -> Option<Written<P>> {
        let written = self.done.try_recv().ok()?;
        self.count_returned(&written);
        Some(written)
    }

    fn count_returned(&mut self, written: &Written<P>) {
        self.pending[written.interface] -= 1;
        self.returned += 1;
    }

    /// Requests an event of the reactor at the next result. [`PacketWriter::acknowledge`] clears
    /// the event. Returns `false` if a result is ready already.
    pub fn await_written(&self) -> bool {
        self.progress.is_awaited.store(true, Ordering::SeqCst);
        // The thread adds to `written` before it reads `is_awaited`, so at least one side sees the
        // other's store.
        self.progress.written.load(Ordering::SeqCst) == self.returned
    }

    /// Clears the event that [`PacketWriter::await_written`] requested.
    pub fn acknowledge(&self) {
        self.waker.acknowledge();
    }

    /// Blocks until the next result. `None` if nothing is pending.
    pub fn wait_written(&mut self) -> Option<Written<P>> {
        if self.pending.iter().all(|pending| *pending == 0) {
            return None;
        }
        let written = self.done.recv().ok()?;
        self.count_returned(&written);
        Some(written)
    }
}

impl<P> Drop for PacketWriter<P> {
    /// Blocks until all submitted packets are written.
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}
