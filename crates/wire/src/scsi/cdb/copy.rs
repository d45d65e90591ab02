//! EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 sections 6.3 and 6.20).
use super::error::{CdbError, invalid};
use super::opcode;
use crate::octets::{put_u32, u32_at};

/// Service action of RECEIVE COPY RESULTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CopyResults {
    /// Status of a copy.
    Status = 0x00,
    /// Limits of copies.
    OperatingParameters = 0x03,
    /// The segment that failed.
    FailedSegmentDetails = 0x04,
}

/// Returns the length of the parameter list. Only LID1 (service action 0) is supported, not LID4
/// nor the tokens of POPULATE TOKEN and WRITE USING TOKEN.
pub(super) fn parse_extended_copy(cdb: &[u8]) -> Result<u32, CdbError> {
    match cdb[1] & 0x1f {
        0 => Ok(u32_at(cdb, 10)),
        _ => Err(invalid(1, 4)),
    }
}

pub(super) fn emit_extended_copy(out: &mut [u8; 16], parameter_list_length: u32) {
    out[0] = opcode::EXTENDED_COPY;
    put_u32(out, 10, parameter_list_length);
}

impl CopyResults {
    pub(super) fn parse(cdb: &[u8]) -> Result<CopyResults, CdbError> {
        match cdb[1] & 0x1f {
            0x00 => Ok(CopyResults::Status),
            0x03 => Ok(CopyResults::OperatingParameters),
            0x04 => Ok(CopyResults::FailedSegmentDetails),
            _ => Err(invalid(1, 4)),
        }
    }
}
