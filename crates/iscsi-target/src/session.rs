//! A session in full feature phase: who, what was agreed, which tasks are not answered yet.

use hakaru_scsi_device::{Nexus, NexusState, Rights};
use hakaru_send_queue::Key;
use std::collections::VecDeque;

use hakaru_wire::iscsi::keys::{Agreed, Negotiation};
use hakaru_wire::iscsi::{Bhs, CmdSn};

use crate::tags::TaskTags;

use crate::text::TextExchange;

/// What is kept of a PDU's data segment.
#[derive(Debug, Default)]
pub(crate) enum Payload {
    /// Nothing.
    #[default]
    Nothing,
    /// Nothing: the budget had no room; the data was discarded.
    Refused,
    /// All of it; for a write command the immediate data, which becomes the task's buffer. `reserved_bytes` of the budget are its.
    Kept { data: Vec<u8>, reserved_bytes: u32 },
}

impl Payload {
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Payload::Nothing | Payload::Refused => &[],
            Payload::Kept { data, .. } => data,
        }
    }
}

/// A PDU as it came.
#[derive(Debug)]
pub(crate) struct Pdu<'a> {
    pub(crate) bhs: &'a Bhs,
    pub(crate) ahs: &'a [u8],
    /// The data that was kept. Who has a use for it takes it out; what is left goes back to the pool.
    pub(crate) payload: Payload,
}

impl Pdu<'_> {
    /// Takes it away to keep; nothing that needs to be given back stays behind.
    pub(crate) fn take(&mut self) -> EarlyPdu {
        EarlyPdu {
            bhs: *self.bhs,
            ahs: self.ahs.to_vec(),
            payload: core::mem::take(&mut self.payload),
        }
    }
}

/// A PDU that is kept until it is its turn.
#[derive(Debug)]
pub(crate) struct EarlyPdu {
    pub(crate) bhs: Bhs,
    pub(crate) ahs: Vec<u8>,
    pub(crate) payload: Payload,
}

/// A numbered PDU that came before the one that must come first.
#[derive(Debug)]
pub(crate) enum Held {
    /// The PDU.
    Pdu(EarlyPdu),
    /// Nothing: the command with this number was aborted before it came, or while it was held.
    Aborted,
}

/// What names a session: of two with the same name the younger replaces the older. A discovery session has no access to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    /// The target port is the portal group: its tag is the relative target port identifier.
    pub(crate) nexus: Nexus,
    pub(crate) discovery: bool,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: SessionName,
    pub(crate) tsih: u16,
    /// CID of its connection.
    pub(crate) cid: u16,
    /// SessionType=Discovery: text and logout only.
    pub(crate) discovery: bool,
    pub(crate) parameters: Agreed,
    /// What the device remembers of the nexus.
    pub(crate) device: NexusState,
    /// Keys that may still change come here.
    pub(crate) negotiation: Negotiation,
    /// Tasks without status, aborted ones not among them.
    pub(crate) tasks: TaskTags,
    /// Aborted tasks that the storage still has.
    pub(crate) aborted: Vec<Key>,
    /// Immediate tasks in flight.
    pub(crate) immediate_in_flight: u32,
    /// Numbered PDUs that came too early, at most as many as the window is large.
    pub(crate) held: Vec<(CmdSn, Held)>,
    /// Tasks in `Stage::Transmit`, in order.
    pub(crate) waiting: VecDeque<Key>,
    /// Bytes asked of the storage that will be copied, not sent in place.
    pub(crate) copying_bytes: u64,
    /// Of the budget for write data.
    pub(crate) reserved_bytes: u64,
    /// A text exchange that is under way.
    pub(crate) text: Option<TextExchange>,
}

impl Session {
    /// A session without tasks.
    pub(crate) fn new(
        name: SessionName,
        tsih: u16,
        cid: u16,
        parameters: Agreed,
        rights: Rights,
        negotiation: Negotiation,
    ) -> Self {
        Self {
            discovery: name.discovery,
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

    /// Takes a PDU out of those that came too early.
    pub(crate) fn take_held(&mut self, cmd_sn: CmdSn) -> Option<Held> {
        let at = self.held.iter().position(|(held, _)| *held == cmd_sn)?;
        Some(self.held.swap_remove(at).1)
    }
}
