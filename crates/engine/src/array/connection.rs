//! One initiator's connection: its socket, and the readiness that edge-triggered events report only
//! once.
use std::io::{self, IoSlice};

use hakaru_iscsi_target::{ConnectionId, Segment, Target};
use hakaru_runtime::memory::page_pipe::PagePipe;
use hakaru_runtime::net::{SLICES_MAX, Socket};
use hakaru_units::Time;

use super::lending::{Attempt, Lending};
use super::storage::Storage;
use crate::slices::recycle;

/// A connection.
pub struct Connection {
    /// Id in the target.
    pub id: ConnectionId,
    socket: Socket,
    /// The socket may hold bytes that no further event reports: a turn ended early, or the target
    /// wanted no more.
    unread: bool,
    /// The peer has closed its side: after a short read the end of the stream is still to be read.
    ending: bool,
    /// The socket's buffer was full; an event reports when there is room.
    blocked: bool,
    /// Pages lent to the kernel that the socket has not taken yet.
    pipe: Option<PagePipe>,
}

/// How a turn of receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing was there, or the target wants nothing at present.
    Nothing,
    /// Nothing more is there.
    Over,
    /// More may be there; other connections come first.
    More,
    /// The connection is gone.
    Closed,
}

/// Receives in one turn before other connections have theirs. Each fills at most one buffer.
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
            pipe: None,
        }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Records an event of the reactor.
    pub fn handle_event(&mut self, event: hakaru_runtime::Event) {
        self.unread |= event.readable;
        self.ending |= event.closed;
        self.blocked &= !event.writable;
    }

    /// Bytes may wait in the socket.
    pub fn unread(&self) -> bool {
        self.unread
    }

    /// Passes received bytes to the target, through `buffer`.
    pub fn receive(&mut self, now: Time, target: &mut Target, buffer: &mut [u8]) -> Turn {
        let mut turn = Turn::Nothing;
        for _ in 0..RECEIVES_PER_TURN {
            if !target.wants_received(self.id) {
                return turn;
            }
            match self.socket.receive(buffer) {
                Ok(0) => return Turn::Closed,
                Ok(n) => {
                    target.handle_received(now, self.id, &buffer[..n]);
                    turn = Turn::Over;
                    if n < buffer.len() && !self.ending {
                        self.unread = false;
                        return turn;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.unread = false;
                    return turn;
                }
                Err(_) => return Turn::Closed,
            }
        }
        Turn::More
    }

    /// Closes the socket.
    pub fn close(self, lending: &mut Lending) {
        lending.discard(self.pipe);
    }

    /// Sends what is ready: headers and memory of the LUs gathered into as few calls as possible
    /// (mostly one), large pieces of that memory without a copy.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send(
        &mut self,
        now: Time,
        target: &mut Target,
        storage: &mut Storage,
        spare: &mut Vec<IoSlice<'static>>,
        lending: &mut Lending,
    ) -> io::Result<()> {
        let mut attempt = Attempt::Lent;
        while !self.blocked && !target.transmit(self.id).is_empty() {
            let queued = target.transmit(self.id);
            let mut offered = queued.lent_bytes() as usize;
            let sent = if offered > 0 {
                let more = queued.pending_bytes() > queued.lent_bytes();
                lending.send(&mut self.pipe, &self.socket, more)
            } else {
                let mut slices = recycle(std::mem::take(spare));
                let mut more = false;
                for segment in queued.segments().take(SLICES_MAX) {
                    let copied = slices.is_empty() && attempt == Attempt::Copy;
                    more = !copied && lending.should_lend(target, self.id, &segment);
                    if more {
                        break;
                    }
                    slices.push(IoSlice::new(match segment {
                        Segment::Bytes(bytes) => bytes,
                        Segment::Lu {
                            lun,
                            offset_bytes,
                            length_bytes,
                        } => storage.in_place(lun, offset_bytes, length_bytes),
                    }));
                }
                if slices.is_empty() {
                    *spare = recycle(slices);
                    attempt = lending.lend(self.id, &mut self.pipe, target, storage);
                    continue;
                }
                attempt = Attempt::Lent;
                offered = slices.iter().map(|slice| slice.len()).sum();
                let sent = if more {
                    self.socket.send_vectored_more(&slices)
                } else {
                    self.socket.send_vectored(&slices)
                };
                *spare = recycle(slices);
                sent
            };
            let sent = match sent {
                Ok(sent) => sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                Err(e) => return Err(e),
            };
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
