//! The Basic Header Segment (RFC 7143 section 11.2.1): 48 bytes that begin every PDU, read in
//! place.
use super::{Itt, Lun, Opcode, Ttt};
use crate::octets::{u16_at, u24_at, u32_at, u64_at};

/// Length of a BHS in bytes.
pub const BHS_LENGTH: usize = 48;

/// Maximum DataSegmentLength that the 24-bit field holds, bytes.
pub const DATA_SEGMENT_LENGTH_MAX: u32 = (1 << 24) - 1;

/// Errors of parsing a header or parameter data. A peer's header gets a Reject in answer (RFC 7143
/// section 11.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The header belongs to another PDU.
    #[error("opcode {found:#04x} instead of {expected:?}")]
    Opcode {
        /// Opcode of the repr that parsed the header.
        expected: Opcode,
        /// The 6-bit code in the header.
        found: u8,
    },
    /// A field holds a value that RFC 7143 forbids.
    #[error("{0} is invalid")]
    Field(&'static str),
    /// Fewer bytes than the format needs.
    #[error("{0} is truncated")]
    Short(&'static str),
}

/// A view of the 48 bytes that begin a PDU.
///
/// Getters read the fields that RFC 7143 defines for *every* PDU. The repr of a PDU reads the
/// fields that depend on the opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bhs([u8; BHS_LENGTH]);

impl Bhs {
    /// Wraps the bytes without checking them.
    pub const fn new(bytes: [u8; BHS_LENGTH]) -> Bhs {
        Bhs(bytes)
    }

    /// Returns all 48 bytes, as a Reject carries them.
    pub const fn as_bytes(&self) -> &[u8; BHS_LENGTH] {
        &self.0
    }

    /// Returns the opcode. `None` for reserved and vendor-specific ones.
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_code(self.opcode_code())
    }

    /// Returns the 6-bit opcode, known or not.
    pub fn opcode_code(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Returns the I bit: immediate delivery, outside the order of CmdSN.
    pub fn immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Returns the F bit (T in login PDUs): the last PDU of a sequence.
    pub fn is_final(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Returns the seven opcode-specific bits below F.
    pub fn flags(&self) -> u8 {
        self.0[1] & 0x7f
    }

    /// Returns the length of all additional header segments in bytes: TotalAHSLength times four, 0
    /// to 1020.
    pub fn ahs_length(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Returns DataSegmentLength in bytes without padding, 0 to 2^24 - 1.
    pub fn data_segment_length(&self) -> u32 {
        u24_at(&self.0, 5)
    }

    /// Returns bytes 8 to 15 as a LUN. Some PDUs use them for other fields.
    pub fn lun(&self) -> Lun {
        Lun(u64_at(&self.0, 8))
    }

    /// Returns the Initiator Task Tag.
    pub fn itt(&self) -> Itt {
        Itt(u32_at(&self.0, 16))
    }

    /// Returns bytes 20 to 23 as a Target Transfer Tag. Some PDUs use them for other fields.
    pub fn ttt(&self) -> Ttt {
        Ttt(u32_at(&self.0, 20))
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16_at(&self.0, at)
    }

    /// Returns the big-endian number in the four bytes at `at`.
    ///
    /// # Panics
    /// Panics if they do not lie within the header.
    pub fn u32_at(&self, at: usize) -> u32 {
        u32_at(&self.0, at)
    }

    /// Refuses a header of another opcode.
    pub(crate) fn expect(&self, expected: Opcode) -> Result<(), WireError> {
        let found = self.opcode_code();
        if found == expected.code() {
            Ok(())
        } else {
            Err(WireError::Opcode { expected, found })
        }
    }
}

impl std::fmt::Debug for Bhs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bhs")
            .field(
                "opcode",
                &format_args!("{:#04x} {:?}", self.opcode_code(), self.opcode()),
            )
            .field("final", &self.is_final())
            .field("itt", &self.itt())
            .field("ahs_length", &self.ahs_length())
            .field("data_segment_length", &self.data_segment_length())
            .finish_non_exhaustive()
    }
}
