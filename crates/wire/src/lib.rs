//! Wire formats of iSCSI and SCSI: PDUs (RFC 7143), text keys and their negotiation, SCSI commands,
//! sense data and pages (SPC-4, SBC-3).
//!
//! The crate holds no state of a session, no clock and no I/O. [`iscsi::frame::Framer`] keeps the
//! state of one byte stream and [`iscsi::keys::Negotiation`] that of one login. The target and the
//! initiator call this crate; it calls nothing back.
//!
//! # Grammar
//! - A *view* reads fields in place: [`iscsi::Bhs`] over the 48 bytes of a basic header segment.
//! - A *repr* is a small struct or enum that owns its fields; there is one per PDU, command,
//!   parameter list or page. `parse` takes bytes (for a PDU a [`iscsi::Bhs`]) and returns the repr
//!   or an error ([`iscsi::WireError`], [`scsi::CdbError`], [`scsi::Sense`]). `emit` writes bytes:
//!   a PDU into `&mut [u8; 48]`, a command into the 16 bytes of an iSCSI PDU, parameter data at its
//!   full length.
//! - [`iscsi::frame::Framer::next`] consumes the front of a piece of any size and returns one
//!   `Frame::Header`, then any number of `Frame::Data`, then `Frame::End` per PDU. Payload is
//!   passed on in place and never collected. Lengths are checked against a limit
//!   before anything is stored. Digests and limits may change between PDUs, after `End`.
//! - [`iscsi::text`] reads and writes `key=value` lists. [`iscsi::keys`] has the rules of every key
//!   and the [`iscsi::keys::Negotiation`] of either side: `declare_*` and `offer_*` write,
//!   `receive(stage, text, &mut reply)` answers, `conclude()` ends a login and `agreed()` returns
//!   the values in effect.
//! - [`iscsi::chap`] has algorithms, secrets, challenges and responses for both sides.
//!
//! # Panics
//! `parse_*`, [`iscsi::frame::Framer`] and [`iscsi::keys::Negotiation`] never panic, for any input.
//! `emit_*` panics only if a value does not fit its field (a data segment of 2^24 bytes or more).
//! This is a defect of the caller. The documentation of each function states its panics.
#![forbid(unsafe_code)]

mod octets;

pub mod iscsi;
pub mod scsi;
