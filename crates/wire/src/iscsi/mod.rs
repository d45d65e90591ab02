//! iSCSI (RFC 7143): header view, one repr per PDU, framing, text keys.
//!
//! ```
//! use hakaru_wire::iscsi::{Bhs, Itt, NopOut, Opcode, Ttt};
//!
//! let ping = NopOut { itt: Itt(7), ttt: Ttt::RESERVED, ..NopOut::default() };
//! let mut header = [0; 48];
//! ping.emit(&mut header);
//! let bhs = Bhs::new(header);
//! assert_eq!(bhs.opcode(), Some(Opcode::NopOut));
//! assert_eq!(NopOut::parse(&bhs), Ok(ping));
//! ```

pub mod ahs;
mod bhs;
pub mod chap;
pub mod digest;
pub mod frame;
pub mod keys;
mod lun;
mod number;
mod opcode;
mod pdu;

pub mod text;

pub use bhs::{BHS_LENGTH, Bhs, DATA_SEGMENT_LENGTH_MAX, WireError};
pub use lun::Lun;
pub use number::{CmdSn, Isid, Itt, StatSn, TargetNumbers, Ttt};
pub use opcode::Opcode;
pub use pdu::*;
