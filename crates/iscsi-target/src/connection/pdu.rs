//! PDUs as they are received: header segments, and the part of the data segment that is kept.

use hakaru_send_queue::Key;
use hakaru_wire::iscsi::Bhs;

/// The kept part of a PDU's data segment.
#[derive(Debug, Default)]
pub(crate) enum Payload {
    /// The PDU has no data segment, or its data is not needed.
    #[default]
    Nothing,
    /// The write budget had no room; the data was discarded.
    Refused,
    /// The whole data segment. A write command's immediate data becomes the buffer of its task.
    /// `reserved_bytes` of the write budget belong to it.
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

/// Destination of the data segment of the PDU being received.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The PDU's own payload.
    Payload(Payload),
    /// The buffer of a write, which takes at most `keep` bytes of the segment.
    Task { task: Key, keep: u32 },
}

impl Sink {
    pub(crate) const DISCARD: Sink = Sink::Payload(Payload::Nothing);
}

/// A complete PDU.
#[derive(Debug)]
pub(crate) struct Pdu<'a> {
    pub(crate) bhs: &'a Bhs,
    pub(crate) ahs: &'a [u8],
    /// A handler that needs the payload takes it out. Otherwise its buffer returns to the pool.
    pub(crate) payload: Payload,
}

impl Pdu<'_> {
    /// Moves the PDU out of the receive buffer to keep it.
    pub(crate) fn take(&mut self) -> EarlyPdu {
        EarlyPdu {
            bhs: *self.bhs,
            ahs: self.ahs.to_vec(),
            payload: core::mem::take(&mut self.payload),
        }
    }
}

/// A PDU kept until the ones before it have arrived.
#[derive(Debug)]
pub(crate) struct EarlyPdu {
    pub(crate) bhs: Bhs,
    pub(crate) ahs: Vec<u8>,
    pub(crate) payload: Payload,
}

/// An entry for a command number beyond ExpCmdSN.
#[derive(Debug)]
pub(crate) enum Held {
    /// The PDU with this number.
    Pdu(EarlyPdu),
    /// The command with this number was aborted before it was delivered.
    Aborted,
}
