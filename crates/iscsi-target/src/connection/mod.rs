//! One connection and, after login, its session.
//!
//! A connection is split into its [`Link`] (bytes out, numbers, clocks) and its [`Phase`], so that
//! code for one phase can borrow both at once. Functions of full feature phase take [`Active`].

pub(crate) mod control;
pub(crate) mod deadlines;
pub(crate) mod end;
pub(crate) mod link;
pub(crate) mod pdu;
pub(crate) mod receive;
pub(crate) mod session;
pub(crate) mod text;

use hakaru_send_queue::Key;
use hakaru_wire::iscsi::ScsiCommand;

use self::link::Link;
use self::session::Session;
use crate::login::state::Login;
use crate::task::{Stage, Task};

/// Phase of a connection.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Login phase; `None` until the first Login Request.
    Login(Option<Box<Login>>),
    /// Full feature phase.
    FullFeature(Box<Session>),
    /// The queue is sent, then the connection is closed. Nothing more is received.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) phase: Phase,
}

/// A connection in full feature phase, and its session.
#[derive(Debug)]
pub(crate) struct Active<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) session: &'a mut Session,
}

impl Connection {
    /// Returns the session, if the connection is in full feature phase.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.phase {
            Phase::FullFeature(session) => Some(session),
            _ => None,
        }
    }

    /// Returns the session, if the connection is in full feature phase.
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.phase {
            Phase::FullFeature(session) => Some(session),
            _ => None,
        }
    }

    /// Returns link and session, if the connection is in full feature phase.
    pub(crate) fn active(&mut self) -> Option<Active<'_>> {
        match &mut self.phase {
            Phase::FullFeature(session) => Some(Active {
                link: &mut self.link,
                session,
            }),
            _ => None,
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending)
    }
}

impl Active<'_> {
    /// Registers a new task: its ITT, and its place in the command window.
    pub(crate) fn register(&mut self, command: &ScsiCommand, task: Key) {
        if command.immediate {
            self.session.immediate_in_flight += 1;
        } else {
            self.link.window.in_flight += 1;
        }
        self.session.tasks.insert(command.itt, task);
    }

    /// Frees everything a task occupies: its place in the command window, its shares of the write
    /// budget and the send queue, and its ITT.
    pub(crate) fn unregister(&mut self, task: &Task) {
        if task.immediate {
            self.session.immediate_in_flight -= 1;
        } else {
            self.link.window.in_flight -= 1;
        }
        self.session.reserved_bytes -= u64::from(task.reserved_bytes);
        self.session.copying_bytes -= u64::from(task.copying_bytes);
        // The ITT of an aborted task may have been used again.
        if task.stage != Stage::Aborted {
            self.session.tasks.remove(task.itt);
        }
    }

    /// Whether another task may read: the copies held for earlier answers and those requested from
    /// the storage are together within the limit, bytes.
    pub(crate) fn may_read(&self, held_bytes_max: usize) -> bool {
        let held_bytes = self.link.transmit.held_bytes() as u64;
        held_bytes + self.session.copying_bytes <= held_bytes_max as u64
    }

    /// Whether data of an LU with this block length may be sent in place. The data must need no
    /// data digest, and PDUs must be able to end on block boundaries.
    pub(crate) fn sends_in_place(&self, block_bytes: u32) -> bool {
        let parameters = &self.session.parameters;
        let segment_bytes = parameters
            .peer_max_recv_data_segment_length
            .min(parameters.max_burst_length);
        !self.link.digests.data && segment_bytes >= block_bytes
    }
}
