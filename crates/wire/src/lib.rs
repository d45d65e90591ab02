//! iSCSI PDUs (RFC 7143), text keys and their negotiation, SCSI commands, sense data and pages (SPC-4, SBC-3): the formats and nothing else.
//!
//! Every format has two faces. A *view* ([`iscsi::Bhs`]) reads fields in place. A *repr* (one struct or enum per PDU, command or page) is small, owns
//! what it says, and has `parse` and `emit`. There is no state of a session here, no clock and no I/O; [`iscsi::frame::Framer`] keeps the state of one
//! byte stream and [`iscsi::keys::Negotiation`] that of one login. `target` and `initiator` are the callers.
//!
//! # Panics
//! `parse_*`, [`iscsi::frame::Framer`] and [`iscsi::keys::Negotiation`] never panic, whatever the bytes. `emit_*` panics only where a value does not fit
//! its field (a data segment of 2^24 bytes or more): that is a defect of the caller, and is said in its documentation.
#![forbid(unsafe_code)]

mod octets;

pub mod iscsi;
pub mod scsi;
