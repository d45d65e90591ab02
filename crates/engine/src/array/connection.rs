//! One initiator's connection: its socket, and what the shell must remember since events are told once.
use std::io::{self, IoSlice};

use hakaru_runtime::net::{SLICES_MAX, Socket};
use hakaru_target::{ConnectionId, Segment, Target};
use hakaru_units::Time;

use super::storage::Storage;

/// A connection.
pub struct Connection {
    /// What the target calls it.
    pub id: ConnectionId,
    socket: Socket,
    /// The socket may hold bytes that no further event will tell of: a turn ended early, or the target wanted no more.
    unread: bool,
    /// The peer has closed its side: a short read no longer means that nothing follows, for the end follows.
    ending: bool,
    /// The socket's buffer was full; it will tell when there is room.
    blocked: bool,
}

/// How a turn of receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing more is there, or the target wants nothing more for now.
    Over,
    /// There may be more; others come first.
    More,
    /// The connection is gone.
    Closed,
}

/// Receives in one turn before others have theirs. Each takes at most a buffer full.
const RECEIVES_PER_TURN: u32 = 4;

impl Connection {
    /// A connection that the target accepted.
    pub fn new(id: ConnectionId, socket: Socket) -> Connection {
        Connection {
            id,
            socket,
            unread: false,
            ending: false,
            blocked: false,
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Notes what the reactor told.
    pub fn handle_event(&mut self, event: hakaru_runtime::Event) {
        self.unread |= event.readable;
        self.ending |= event.closed;
        self.blocked &= !event.writable;
    }

    /// Bytes may wait in the socket.
    pub fn unread(&self) -> bool {
        self.unread
    }

    /// Gives the target what the socket has, through `buffer`.
    pub fn receive(&mut self, now: Time, target: &mut Target, buffer: &mut [u8]) -> Turn {
        for _ in 0..RECEIVES_PER_TURN {
            if !target.wants_received(self.id) {
                return Turn::Over;
            }
            match self.socket.receive(buffer) {
                Ok(0) => return Turn::Closed,
                Ok(n) => {
                    target.handle_received(now, self.id, &buffer[..n]);
                    if n < buffer.len() && !self.ending {
                        self.unread = false;
                        return Turn::Over;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.unread = false;
                    return Turn::Over;
                }
                Err(_) => return Turn::Closed,
            }
        }
        Turn::More
    }

    /// Sends what is ready, headers and the LUs' own memory gathered into as few calls as possible (mostly one).
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send(
        &mut self,
        now: Time,
        target: &mut Target,
        storage: &Storage,
        spare: &mut Vec<IoSlice<'static>>,
    ) -> io::Result<()> {
        while !self.blocked && !target.transmit(self.id).is_empty() {
            let mut slices = recycle(std::mem::take(spare));
            let segments = target.transmit(self.id).segments();
            slices.extend(segments.take(SLICES_MAX).map(|segment| match segment {
                Segment::Bytes(bytes) => IoSlice::new(bytes),
                Segment::Lu {
                    lun,
                    offset_bytes,
                    length_bytes,
                } => IoSlice::new(storage.in_place(lun, offset_bytes, length_bytes)),
            }));
            let offered: usize = slices.iter().map(|slice| slice.len()).sum();
            let sent = match self.socket.send_vectored(&slices) {
                Ok(sent) => sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                Err(e) => return Err(e),
            };
            *spare = recycle(slices);
            self.blocked = sent < offered;
            if sent > 0 {
                target.handle_transmitted(now, self.id, sent, &mut |lun, offset, out| {
                    out.copy_from_slice(storage.in_place(lun, offset, out.len() as u32));
                });
            }
        }
        Ok(())
    }
}

/// The same memory for slices of another lifetime: collecting an emptied vector in place keeps its allocation.
fn recycle<'a>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    slices.clear();
    slices
        .into_iter()
        .map(|_| unreachable!("it is empty"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycling_keeps_the_allocation() {
        let slices: Vec<IoSlice<'_>> = Vec::with_capacity(1000);
        let before = slices.as_ptr().cast::<u8>();
        let again = recycle(slices);
        assert_eq!(
            (again.capacity(), again.as_ptr().cast::<u8>()),
            (1000, before)
        );
    }
}
