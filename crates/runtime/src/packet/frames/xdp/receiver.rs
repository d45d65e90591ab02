//! Reception: the kernel writes frames into the shared memory, and this process reads them there.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use hakaru_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::memory::Area;
use super::program::{LoadedProgram, Missed, Program, TIME_BYTES};
use super::socket::{Bound, Ring, dropped};
use crate::packet::frames::FrameReceiver;
use crate::packet::interface::Interface;
use crate::packet::options::{accept_all, open_socket};

/// Time between two readings while frames arrive. The kernel wakes a waiting reader once for each
/// frame, in the time of the frame's sender; a reader that does not wait costs the sender nothing. The
/// slots suffice for 10 ms at 3 million frames/s.
const READ_EVERY: Duration = Duration::from_micros(200);
/// Number of frames after which their slots are returned.
const RETURN_AFTER: u32 = 64;

/// Frames that arrive at one interface, in the order of each receive queue.
pub struct XdpReceiver {
    /// Declared first: no frame arrives after the program is gone.
    program: Program,
    queues: Vec<Queue>,
    memory: Area,
    slot_bytes: usize,
    /// Keeps the interface in promiscuous mode.
    _promiscuous: OwnedFd,
    /// Whether the last reading found a frame.
    is_busy: bool,
}

/// A receive queue of the interface.
struct Queue {
    // The rings are declared before the socket, so that they are unmapped first.
    fill: Ring,
    receive: Ring,
    socket: OwnedFd,
}

impl XdpReceiver {
    /// Takes over sockets, one for each receive queue in order, and starts the reception.
    pub(super) fn new(
        interface: &Interface,
        bound: Vec<Bound>,
        memory: Area,
        slot_bytes: usize,
        program: LoadedProgram,
    ) -> io::Result<XdpReceiver> {
        let queues: Vec<Queue> = bound.into_iter().map(Queue::new).collect();
        let mut slot = 0;
        for queue in &queues {
            for position in 0..queue.fill.size() {
                let address = memory.address(slot * slot_bytes);
                // SAFETY: the entry lies in the map and is aligned. The kernel does not read it
                // before `producer` passes it.
                unsafe { queue.fill.entry::<u64>(position).write(address) };
                slot += 1;
            }
            let producer = queue.fill.producer();
            producer.store(queue.fill.size(), Ordering::Release);
        }
        let promiscuous = open_socket()?;
        accept_all(&promiscuous, interface.index)?;
        let sockets: Vec<_> = queues.iter().map(|queue| &queue.socket).collect();
        let program = program.attach(interface, &sockets)?;
        Ok(XdpReceiver {
            program,
            queues,
            memory,
            slot_bytes,
            _promiscuous: promiscuous,
            is_busy: false,
        })
    }
}

impl Queue {
    fn new(bound: Bound) -> Queue {
        Queue {
            fill: bound.fill.expect("requested"),
            receive: bound.receive.expect("requested"),
            socket: bound.socket,
        }
    }

    /// Passes the frames that are ready to `handle`. Returns their number.
    fn take(&self, memory: &Area, slot_bytes: usize, handle: &mut dyn FnMut(Time, &[u8])) -> u32 {
        let (first, end) = self.receive.added();
        let mut position = first;
        while position != end {
            let count = end.wrapping_sub(position).min(RETURN_AFTER);
            let filled = self.fill.producer().load(Ordering::Relaxed);
            for offset in 0..count {
                let place = self
                    .receive
                    .entry::<libc::xdp_desc>(position.wrapping_add(offset));
                // SAFETY: the entry lies in the map and is aligned. The kernel wrote it before it
                // moved `producer`, and does not write to it again before `consumer` passes it.
                let frame = unsafe { place.read() };
                let (time_at, length) = (frame.addr - TIME_BYTES as u64, frame.len as usize);
                // SAFETY: the kernel has handed the slot over, until it is in the fill ring again.
                // The program stored the time in front of the frame.
                let (time, bytes) = unsafe {
                    (
                        memory.at(time_at, TIME_BYTES),
                        memory.at(frame.addr, length),
                    )
                };
                let time = u64::from_ne_bytes(time.try_into().expect("8 bytes"));
                handle(Time(time), bytes);
                let slot = frame.addr & !(slot_bytes as u64 - 1);
                // SAFETY: the entry lies in the map and is aligned. The ring has an entry for each
                // slot of the queue, so the kernel has taken the previous address from here.
                unsafe {
                    self.fill
                        .entry::<u64>(filled.wrapping_add(offset))
                        .write(slot);
                };
            }
            position = position.wrapping_add(count);
            let consumer = self.receive.consumer();
            consumer.store(position, Ordering::Release);
            let producer = self.fill.producer();
            producer.store(filled.wrapping_add(count), Ordering::Release);
        }
        end.wrapping_sub(first)
    }
}

impl FrameReceiver for XdpReceiver {
    fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        if self.is_busy {
            thread::sleep(READ_EVERY.min(at_most));
            return Ok(());
        }
        let sockets = self.queues.iter().map(|queue| &queue.socket);
        let mut fds: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The kernel leaves an error on the socket of an interface that was removed.
        match rustix::net::sockopt::socket_error(&self.queues[0].socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, handle: &mut dyn FnMut(Time, &[u8])) -> io::Result<()> {
        let mut taken = 0;
        for queue in &self.queues {
            taken += queue.take(&self.memory, self.slot_bytes, handle);
        }
        self.is_busy = taken > 0;
        let Missed { no_socket, no_room } = self.program.missed();
        if no_socket > 0 {
            return Err(io::Error::other(format!(
                "{no_socket} frames arrived at receive queues beyond the first {}",
                self.queues.len()
            )));
        }
        if no_room > 0 {
            return Err(io::Error::other(
                "the driver leaves no room in front of a frame for its time",
            ));
        }
        Ok(())
    }

    fn dropped(&mut self) -> io::Result<u64> {
        let mut sum = 0;
        for queue in &self.queues {
            sum += dropped(&queue.socket)?;
        }
        Ok(sum)
    }

    fn settle_time(&self) -> Duration {
        Duration::ZERO
    }
}
