//! EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 sections 6.3 and 6.20).
use super::error::invalid;
use super::{Cdb, CdbError, opcode};
use crate::octets::{put_u32, u32_at};

/// What RECEIVE COPY RESULTS asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CopyResults {
    /// How a copy stands.
    Status = 0x00,
    /// What copies may be.
    OperatingParameters = 0x03,
    /// Which segment failed.
    FailedSegmentDetails = 0x04,
}

pub(super) fn parse_extended_copy(cdb: &[u8]) -> Result<Cdb, CdbError> {
    // Service action 01h, LID4, and the tokens of POPULATE TOKEN and WRITE USING TOKEN are not there.
    match cdb[1] & 0x1f {
        0 => Ok(Cdb::ExtendedCopy {
            parameter_list_length: u32_at(cdb, 10),
        }),
        _ => Err(invalid(1, 4)),
    }
}

pub(super) fn emit_extended_copy(out: &mut [u8; 16], parameter_list_length: u32) {
    out[0] = opcode::EXTENDED_COPY;
    put_u32(out, 10, parameter_list_length);
}

pub(super) fn parse_receive_copy_results(cdb: &[u8]) -> Result<Cdb, CdbError> {
    let results = match cdb[1] & 0x1f {
        0x00 => CopyResults::Status,
        0x03 => CopyResults::OperatingParameters,
        0x04 => CopyResults::FailedSegmentDetails,
        _ => return Err(invalid(1, 4)),
    };
    Ok(Cdb::ReceiveCopyResults {
        results,
        list: cdb[2],
        allocation_length: u32_at(cdb, 10),
    })
}

pub(super) fn emit_receive_copy_results(
    out: &mut [u8; 16],
    results: CopyResults,
    list: u8,
    allocation_length: u32,
) {
    out[..3].copy_from_slice(&[opcode::RECEIVE_COPY_RESULTS, results as u8, list]);
    put_u32(out, 10, allocation_length);
}
