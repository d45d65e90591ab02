//! A session in full feature phase: its name, the negotiated parameters, its unanswered tasks.
//!
//! With MaxConnections=1 a session lives and ends with its connection.

use std::collections::VecDeque;

use hakaru_scsi_device::{Buffers, Nexus, NexusState, Rights};
use hakaru_send_queue::Key;
use hakaru_wire::iscsi::keys::{Agreed, Negotiation};
use hakaru_wire::iscsi::text::TextBuffer;
use hakaru_wire::iscsi::{CmdSn, Itt};

use crate::connection::pdu::{Held, Payload};
use crate::task::tags::TaskTags;

/// Name of a session. A new session replaces an older one of the same name. A discovery session
/// has no access to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    /// The target port is the portal group: its tag is the relative target port identifier.
    pub(crate) nexus: Nexus,
    pub(crate) discovery: bool,
}

impl SessionName {
    /// Returns the name of the normal session of a nexus.
    pub(crate) fn of(nexus: Nexus) -> Self {
        Self {
            nexus,
            discovery: false,
        }
    }
}

/// A text exchange of several PDUs. A session has one at a time.
#[derive(Debug, Default)]
pub(crate) struct TextExchange {
    pub(crate) itt: Itt,
    /// Text received so far.
    pub(crate) text: TextBuffer,
    /// Part of the answer that is not sent yet.
    pub(crate) reply: Vec<u8>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: SessionName,
    pub(crate) tsih: u16,
    /// CID of its connection.
    pub(crate) cid: u16,
    pub(crate) parameters: Agreed,
    /// State of the nexus in the device server.
    pub(crate) device: NexusState,
    /// Receives keys that may change after login.
    pub(crate) negotiation: Negotiation,
    /// Tasks without status, except aborted ones.
    pub(crate) tasks: TaskTags,
    /// Aborted tasks that the storage still executes.
    pub(crate) aborted: Vec<Key>,
    /// Immediate tasks in flight.
    pub(crate) immediate_in_flight: u32,
    /// PDUs received before their predecessors, at most one per command of the window.
    pub(crate) held: Vec<(CmdSn, Held)>,
    /// Tasks in `Stage::Transmit`, in order.
    pub(crate) waiting: VecDeque<Key>,
    /// Bytes requested from the storage that will be copied rather than sent in place.
    pub(crate) copying_bytes: u64,
    /// Share of the write budget.
    pub(crate) reserved_bytes: u64,
    /// A text exchange in progress.
    pub(crate) text: Option<TextExchange>,
}

impl Session {
    /// Creates a session without tasks.
    pub(crate) fn new(
        name: SessionName,
        tsih: u16,
        cid: u16,
        parameters: Agreed,
        rights: Rights,
        negotiation: Negotiation,
    ) -> Self {
        Self {
            device: NexusState::new(name.nexus.clone(), rights),
            name,
            tsih,
            cid,
            parameters,
            negotiation,
            tasks: TaskTags::default(),
            aborted: Vec::new(),
            immediate_in_flight: 0,
            held: Vec::new(),
            waiting: VecDeque::new(),
            copying_bytes: 0,
            reserved_bytes: 0,
            text: None,
        }
    }

    /// Removes an early PDU, or the note that it was aborted.
    pub(crate) fn take_held(&mut self, cmd_sn: CmdSn) -> Option<Held> {
        let at = self.held.iter().position(|(held, _)| *held == cmd_sn)?;
        Some(self.held.swap_remove(at).1)
    }

    /// Reserves `bytes` of the target's write budget and of the session's share, which is `limit`
    /// bytes. Returns false if either lacks room.
    #[must_use]
    pub(crate) fn reserve(&mut self, buffers: &mut Buffers, limit: u64, bytes: u32) -> bool {
        let fits = self.has_room(limit, bytes) && buffers.reserve(bytes.into());
        if fits {
            self.reserved_bytes += u64::from(bytes);
        }
        fits
    }

    /// Whether the session's share of the write budget, which is `limit` bytes, has room for
    /// `bytes`.
    pub(crate) fn has_room(&self, limit: u64, bytes: u32) -> bool {
        self.reserved_bytes + u64::from(bytes) <= limit
    }

    /// Returns a payload's buffer to the pool, and its reservation to the write budget. Returns
    /// whether there was one, for which other writes may wait.
    pub(crate) fn release_payload(&mut self, buffers: &mut Buffers, payload: Payload) -> bool {
        let Payload::Kept {
            data,
            reserved_bytes,
        } = payload
        else {
            return false;
        };
        buffers.give(data);
        buffers.release(reserved_bytes.into());
        self.reserved_bytes -= u64::from(reserved_bytes);
        reserved_bytes > 0
    }
}
