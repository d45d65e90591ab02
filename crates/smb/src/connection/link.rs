//! The sending side of a connection: the send queue, message ids, credits, signatures and encryption.
use std::sync::Arc;

use crate::encryption::{Sealer, TRANSFORM_LENGTH};
use crate::op::WriteData;
use crate::signing::Signer;
use crate::transmit::Transmit;
use crate::wire::{
    Command, FLAG_ASYNC, FLAG_RELATED, FLAG_SIGNED, HEADER_LENGTH, Header, SIGNATURE_AT, Status,
};

/// Offset of NextCommand in a header, bytes.
const NEXT_COMMAND_AT: usize = 20;

/// State that every sender of messages needs.
#[derive(Debug)]
pub(super) struct Link {
    pub transmit: Transmit,
    pub session_id: u64,
    pub tree_id: u32,
    pub signer: Option<Signer>,
    /// Whether all messages are signed.
    pub sign_all: bool,
    pub sealer: Option<Sealer>,
    /// Whether all frames are encrypted, which replaces signatures.
    pub seal_all: bool,
    next_message_id: u64,
    credits: u32,
    /// Charges of the requests in flight.
    charged: u32,
    /// Number of credits to have, those in flight included.
    credits_wanted: u32,
    /// The compound being built, without the data of its writes.
    heads: Vec<u8>,
    /// Data of writes, each with its place in `heads`.
    data: Vec<(usize, WriteData)>,
    /// Begin of the last message of the compound in `heads`.
    begin: usize,
    message_ids: Vec<u64>,
}

/// Properties of a message to be sent.
#[derive(Clone, Copy)]
pub(super) struct Properties {
    pub command: Command,
    /// Number of credits that it costs.
    pub charge: u16,
    /// Whether it uses the file of the message before, in the same compound.
    pub related: bool,
    /// Whether another message of the compound follows.
    pub more: bool,
    /// Whether it is signed even if most messages are not.
    pub sign: bool,
}

impl Link {
    pub(super) fn new(credits_wanted: u16) -> Link {
        Link {
            transmit: Transmit::default(),
            session_id: 0,
            tree_id: 0,
            signer: None,
            sign_all: false,
            sealer: None,
            seal_all: false,
            next_message_id: 0,
            // A new connection has one credit (MS-SMB2 section 3.2.4.1.2).
            credits: 1,
            charged: 0,
            credits_wanted: credits_wanted.into(),
            heads: Vec::new(),
            data: Vec::new(),
            begin: 0,
            message_ids: Vec::new(),
        }
    }

    pub(super) fn credits(&self) -> u32 {
        self.credits
    }

    /// Accepts the credits of a response. A request in flight keeps its charge until its final
    /// response.
    pub(super) fn grant(&mut self, granted: u16, released: u16) {
        self.charged -= u32::from(released);
        // More than 65535 credits are of no use, and the sum must not overflow.
        self.credits = (self.credits + u32::from(granted)).min(u16::MAX.into());
    }

    /// Returns the number of credits to request with a message: its charge, and whatever is
    /// missing. At least 1, so the client is never left without.
    fn credits_to_request(&self, charge: u16) -> u16 {
        let missing = self
            .credits_wanted
            .saturating_sub(self.credits + self.charged);
        let request = u32::from(charge).max(1) + missing;
        request.min(u16::MAX.into()) as u16
    }

    /// Adds a message to the compound being built. Returns its message id and its bytes without
    /// `data`, which follows them.
    pub(super) fn add(
        &mut self,
        properties: Properties,
        data: Option<WriteData>,
        emit: impl FnOnce(&mut Vec<u8>),
    ) -> (u64, &[u8]) {
        let Properties {
            command, charge, ..
        } = properties;
        debug_assert!(charge >= 1 && u32::from(charge) <= self.credits);
        let message_id = self.next_message_id;
        let signer = self.signer.as_ref();
        let signer = signer.filter(|_| !self.seal_all && (self.sign_all || properties.sign));
        let mut flags = 0;
        if signer.is_some() {
            flags |= FLAG_SIGNED;
        }
        if properties.related {
            flags |= FLAG_RELATED;
        }
        let (tree_id, session_id) = match properties.related {
            true => (u32::MAX, u64::MAX),
            false => (self.tree_id, self.session_id),
        };
        let header = Header {
            credit_charge: charge,
            status: Status::SUCCESS,
            command,
            credits: self.credits_to_request(charge),
            flags,
            next_command: 0,
            message_id,
            tree_or_async: u64::from(tree_id) << 32,
            session_id,
            signature: [0; 16],
        };
        debug_assert!(!header.has(FLAG_ASYNC));
        self.begin = self.heads.len();
        header.emit(&mut self.heads);
        emit(&mut self.heads);
        let end = self.heads.len();
        let data_length = data.as_ref().map_or(0, |data| data.range.len());
        if properties.more {
            let length = end - self.begin + data_length;
            let padded = length.next_multiple_of(8);
            self.heads.resize(end + padded - length, 0);
            let at = self.begin + NEXT_COMMAND_AT;
            self.heads[at..at + 4].copy_from_slice(&(padded as u32).to_le_bytes());
        }
        if let Some(signer) = signer {
            let (head, padding) = self.heads[self.begin..].split_at(end - self.begin);
            let bytes = data.as_ref().map_or(&[][..], WriteData::bytes);
            let signature = signer.sign_request(message_id, head, &[bytes, padding]);
            let at = self.begin + SIGNATURE_AT;
            self.heads[at..at + 16].copy_from_slice(&signature);
        }
        if let Some(data) = data {
            self.data.push((end, data));
        }
        self.next_message_id += u64::from(charge);
        self.credits -= u32::from(charge);
        self.charged += u32::from(charge);
        self.message_ids.push(message_id);
        (message_id, &self.heads[self.begin..])
    }

    /// Queues the compound that was built, as one frame.
    pub(super) fn finish(&mut self) {
        let data: usize = self.data.iter().map(|(_, data)| data.range.len()).sum();
        let length = self.heads.len() + data;
        debug_assert!(length < 1 << 24 && self.heads.len() >= HEADER_LENGTH);
        match &mut self.sealer {
            Some(sealer) if self.seal_all => {
                let mut frame = Vec::with_capacity(TRANSFORM_LENGTH + length);
                frame.resize(TRANSFORM_LENGTH, 0);
                let mut begin = 0;
                for (end, data) in self.data.drain(..) {
                    frame.extend_from_slice(&self.heads[begin..end]);
                    frame.extend_from_slice(data.bytes());
                    begin = end;
                }
                frame.extend_from_slice(&self.heads[begin..]);
                sealer.seal(&mut frame);
                self.transmit.push(&prefix(frame.len()));
                let range = 0..frame.len();
                let buffer = Arc::new(frame);
                self.transmit.push_data(WriteData { buffer, range });
            }
            _ => {
                self.transmit.push(&prefix(length));
                let mut begin = 0;
                for (end, data) in self.data.drain(..) {
                    self.transmit.push(&self.heads[begin..end]);
                    self.transmit.push_data(data);
                    begin = end;
                }
                self.transmit.push(&self.heads[begin..]);
            }
        }
        self.heads.clear();
        self.message_ids
            .drain(..)
            .for_each(|id| self.transmit.mark(id));
    }
}

/// Returns the prefix of a frame: a zero byte and the length in 24 bits.
fn prefix(length: usize) -> [u8; 4] {
    (length as u32).to_be_bytes()
}
