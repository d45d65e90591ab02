//! The connection of one initiator: its socket, and the readiness that edge-triggered events report
//! only once.
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
    /// Identifier in the target.
    pub id: ConnectionId,
    /// Number of the portal that it came in over.
    pub portal: usize,
    socket: Socket,
    /// Whether the socket may hold bytes that no further event reports, because a turn ended early
    /// or the target accepted no more.
    unread: bool,
    /// Whether the peer has closed its side, so that the end of the stream follows a short read.
    ending: bool,
    /// Whether the socket's buffer was full. An event reports when it has room again.
    blocked: bool,
    /// Pages lent to the kernel that the socket has not accepted yet.
    pipe: Option<PagePipe>,
}

/// Result of a turn of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No data was received: the socket was empty, or the target accepts no data at present.
    Nothing,
    /// The socket is drained, or the target accepts no more data at present.
    Over,
    /// The socket may hold more data; other connections have their turn first.
    More,
    /// The connection has ended.
    Closed,
}

/// Maximum number of receives in one turn of a connection. Each fills at most one buffer.
const RECEIVES_PER_TURN: u32 = 4;

impl Connection {
    /// Creates a connection over a portal that the target accepted.
    pub fn new(id: ConnectionId, portal: usize, socket: Socket) -> Connection {
        Connection {
            id,
            portal,
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

    /// Returns whether bytes may be waiting in the socket.
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

    /// Sends all queued data. Headers and memory of the LUs are gathered into as few calls as
    /// possible, mostly one. Large pieces of LU memory are sent without a copy.
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
        while !self.blocked {
            let queued = target.transmit(self.id);
            if queued.is_empty() {
                break;
            }
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
