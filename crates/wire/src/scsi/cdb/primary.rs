//! INQUIRY, START STOP UNIT, READ CAPACITY.
use super::error::{CdbError, invalid};
use super::opcode;
use crate::octets::{put_u16, u16_at, u32_at};

/// START STOP UNIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartStopUnit {
    /// IMMED: complete the command before the operation.
    pub immediate: bool,
    /// POWER CONDITION; 0 if START and LOEJ decide.
    pub power_condition: u8,
    /// NO_FLUSH: leave the cache as it is.
    pub no_flush: bool,
    /// LOEJ: load or eject the medium.
    pub load_eject: bool,
    /// START: start (true) or stop.
    pub start: bool,
}

/// Returns the page (`None` for standard data) and the allocation length.
pub(super) fn parse_inquiry(cdb: &[u8]) -> Result<(Option<u8>, u16), CdbError> {
    let vital_product_data = cdb[1] & 1 != 0;
    if cdb[1] & 2 != 0 {
        return Err(invalid(1, 1)); // CMDDT, obsolete since SPC-3.
    }
    if !vital_product_data && cdb[2] != 0 {
        // A page without EVPD (SPC-4 section 6.6.1).
        return Err(CdbError::InvalidField { byte: 2, bit: None });
    }
    Ok((vital_product_data.then_some(cdb[2]), u16_at(cdb, 3)))
}

/// Checks READ CAPACITY(10). SBC-3 makes PMI and its LBA obsolete. An LBA without PMI is an error,
/// as in SBC-2.
pub(super) fn check_read_capacity_10(cdb: &[u8]) -> Result<(), CdbError> {
    let partial_medium = cdb[8] & 1 != 0;
    if partial_medium || u32_at(cdb, 2) == 0 {
        Ok(())
    } else {
        Err(CdbError::InvalidField { byte: 2, bit: None })
    }
}

pub(super) fn emit_inquiry(out: &mut [u8; 16], page: Option<u8>, allocation_length: u16) {
    out[..3].copy_from_slice(&[opcode::INQUIRY, u8::from(page.is_some()), page.unwrap_or(0)]);
    put_u16(out, 3, allocation_length);
}

impl StartStopUnit {
    pub(super) fn parse(cdb: &[u8]) -> StartStopUnit {
        StartStopUnit {
            immediate: cdb[1] & 1 != 0,
            power_condition: cdb[4] >> 4,
            no_flush: cdb[4] & 4 != 0,
            load_eject: cdb[4] & 2 != 0,
            start: cdb[4] & 1 != 0,
        }
    }

    pub(super) fn emit(self, out: &mut [u8; 16]) {
        out[..2].copy_from_slice(&[opcode::START_STOP_UNIT, u8::from(self.immediate)]);
        let flags =
            u8::from(self.no_flush) << 2 | u8::from(self.load_eject) << 1 | u8::from(self.start);
        out[4] = self.power_condition << 4 | flags;
    }
}
