//! Packets written by a thread of their own: on a second processor, the kernel's way to the receiver and what the receiver's TCP makes of
//! them, which is part of the call that writes, no longer holds up who forwards.
//!
//! The thread has to be woken up, which is worth it for many packets and not for one: the shell decides what goes this way. Per interface
//! everything stays in order as long as the shell writes nothing itself while something is [pending](PacketWriter::pending).
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
use crate::clock;
use crate::process::ThreadCpuClock;
use crate::reactor::{Reactor, Waker};
use crate::token::Token;

/// What is written in one go, for one interface.
pub trait Packets: Send + 'static {
    /// What it consists of, in order.
    fn outgoing(&mut self) -> Vec<Outgoing<'_>>;
    /// They were written, or refused: their memory may go.
    fn release(&mut self);
}

/// What became of packets.
pub struct Written<P> {
    /// Of which interface, as [`PacketWriter::submit`] was told.
    pub interface: usize,
    /// How many the interface refused, which are lost.
    pub refused: u64,
    /// When the writing began.
    pub at: Time,
    /// They themselves, released.
    pub packets: P,
}

struct Work<P> {
    interface: usize,
    socket: Arc<OwnedFd>,
    packets: P,
}

/// The thread.
pub struct PacketWriter<P> {
    work: Option<Sender<Work<P>>>,
    done: Receiver<Written<P>>,
    thread: Option<JoinHandle<()>>,
    cpu: Option<ThreadCpuClock>,
    /// Submitted and not told of, by interface.
    pending: Vec<u32>,
    progress: Arc<Progress>,
    told: u64,
    waker: Waker,
}

/// How far the thread is, and whether somebody sleeps until it is further.
#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    is_awaited: AtomicBool,
}

impl<P: Packets> PacketWriter<P> {
    /// Starts the thread, for so many interfaces. `token`: what the reactor tells when [`PacketWriter::await_written`] was asked for.
    ///
    /// # Errors
    /// No threads or descriptors left.
    pub fn new(reactor: &Reactor, token: Token, interfaces: usize) -> io::Result<PacketWriter<P>> {
        let waker = Waker::new(reactor, token)?;
        let progress = Arc::new(Progress::default());
        let (wake, at) = (waker.clone(), Arc::clone(&progress));
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
                    at.written.fetch_add(1, Ordering::SeqCst);
                    if at.is_awaited.swap(false, Ordering::SeqCst) {
                        wake.wake();
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
            told: 0,
            waker,
        })
    }

    /// How often packets of an interface were submitted and not told of.
    #[must_use]
    pub fn pending(&self, interface: usize) -> u32 {
        self.pending[interface]
    }

    /// CPU time of the thread so far, ns; `None` where the system does not tell.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.cpu.and_then(ThreadCpuClock::cpu_ns)
    }

    /// Has packets written, after all that was submitted before.
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
            "the writer's thread has ended"
        );
    }

    /// What became of packets since, the oldest first.
    pub fn poll_written(&mut self) -> Option<Written<P>> {
        let written = self.done.try_recv().ok()?;
        self.tell(&written);
        Some(written)
    }

    fn tell(&mut self, written: &Written<P>) {
        self.pending[written.interface] -= 1;
        self.told += 1;
    }

    /// Wakes the reactor when more is written than was told of, by an event that [`PacketWriter::acknowledge`] takes back; false: there is
    /// already.
    pub fn await_written(&self) -> bool {
        self.progress.is_awaited.store(true, Ordering::SeqCst);
        // The other way round in the thread: one of the two sees what the other did.
        self.progress.written.load(Ordering::SeqCst) == self.told
    }

    /// Takes back the event.
    pub fn acknowledge(&self) {
        self.waker.acknowledge();
    }

    /// Waits for the next packets to be written; `None`: nothing is pending.
    pub fn wait_written(&mut self) -> Option<Written<P>> {
        if self.pending.iter().all(|pending| *pending == 0) {
            return None;
        }
        let written = self.done.recv().ok()?;
        self.tell(&written);
        Some(written)
    }
}

impl<P> Drop for PacketWriter<P> {
    /// Waits until everything is written.
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by the thread itself.
            let _ = thread.join();
        }
    }
}
