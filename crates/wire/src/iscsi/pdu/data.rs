//! Data-Out, Data-In, R2T (RFC 7143 sections 11.7 and 11.8) and SNACK (section 11.16): data and
//! requests for data.
use super::{FINAL, Residual, begin, bit, wire_code};
use crate::iscsi::{BHS_LENGTH, Bhs, Itt, Lun, Opcode, StatSn, TargetNumbers, Ttt, WireError};
use crate::octets::{put_u32, put_u64};

const ACKNOWLEDGE: u8 = 0x40;
const STATUS: u8 = 0x01;

/// Data for the target, unsolicited or requested by an R2T.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataOut {
    /// F: last PDU of the sequence (of the R2T, or of the unsolicited data).
    pub is_final: bool,
    /// The command's LUN if `ttt` is valid.
    pub lun: Lun,
    /// Task that the data belongs to.
    pub itt: Itt,
    /// Tag of the R2T; [`Ttt::RESERVED`] for unsolicited data.
    pub ttt: Ttt,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// Number within the sequence, from 0.
    pub data_sn: u32,
    /// Offset of the data in the command's whole buffer, bytes.
    pub buffer_offset: u32,
    /// Length of the data, bytes.
    pub data_segment_length: u32,
}

impl DataOut {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; data that reaches beyond 2^32 bytes.
    pub fn parse(bhs: &Bhs) -> Result<DataOut, WireError> {
        bhs.expect(Opcode::DataOut)?;
        Ok(DataOut {
            is_final: bhs.is_final(),
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            exp_stat_sn: StatSn(bhs.u32_at(28)),
            data_sn: bhs.u32_at(36),
            buffer_offset: checked_offset(bhs)?,
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(
            out,
            Opcode::DataOut,
            false,
            bit(self.is_final, FINAL),
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        put_u32(out, 28, self.exp_stat_sn.0);
        put_u32(out, 36, self.data_sn);
        put_u32(out, 40, self.buffer_offset);
    }
}

/// Returns Buffer Offset, unless the data would end beyond 2^32 bytes.
fn checked_offset(bhs: &Bhs) -> Result<u32, WireError> {
    let offset = bhs.u32_at(40);
    match offset.checked_add(bhs.data_segment_length()) {
        Some(_) => Ok(offset),
        None => Err(WireError::Field("Buffer Offset")),
    }
}

/// Status in the last Data-In PDU (S bit), which saves a SCSI Response. Cannot carry sense data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataInStatus {
    /// SCSI status.
    pub status: u8,
    /// Residual count.
    pub residual: Residual,
}

/// Data for the initiator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataIn {
    /// F: last PDU of the sequence (no more than MaxBurstLength).
    pub is_final: bool,
    /// A: requests an acknowledgement by SNACK (error recovery level 1 and above).
    pub acknowledge: bool,
    /// S: status of the completed task. Requires `is_final`.
    pub status: Option<DataInStatus>,
    /// LUN if `ttt` is valid (A bit); otherwise 0.
    pub lun: Lun,
    /// Task that the data belongs to.
    pub itt: Itt,
    /// Valid with the A bit; otherwise [`Ttt::RESERVED`].
    pub ttt: Ttt,
    /// Numbers. StatSN is valid only with a status.
    pub numbers: TargetNumbers,
    /// Number within the command's data, from 0.
    pub data_sn: u32,
    /// Offset of the data in the command's whole buffer, bytes.
    pub buffer_offset: u32,
    /// Length of the data, bytes.
    pub data_segment_length: u32,
}

impl DataIn {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; S without F; both O and U; data that reaches beyond 2^32 bytes.
    pub fn parse(bhs: &Bhs) -> Result<DataIn, WireError> {
        bhs.expect(Opcode::DataIn)?;
        let status = if bhs.flags() & STATUS == 0 {
            None
        } else if bhs.is_final() {
            Some(DataInStatus {
                status: bhs.byte(3),
                residual: Residual::parse(bhs.flags(), bhs.u32_at(44))?,
            })
        } else {
            return Err(WireError::Field("S bit without F"));
        };
        Ok(DataIn {
            is_final: bhs.is_final(),
            acknowledge: bhs.flags() & ACKNOWLEDGE != 0,
            status,
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            numbers: TargetNumbers::parse(bhs),
            data_sn: bhs.u32_at(36),
            buffer_offset: checked_offset(bhs)?,
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let mut flags = bit(self.is_final, FINAL) | bit(self.acknowledge, ACKNOWLEDGE);
        let mut count = 0;
        if let Some(DataInStatus { residual, .. }) = self.status {
            let (residual_flags, residual_count) = residual.fields();
            flags |= STATUS | residual_flags;
            count = residual_count;
        }
        begin(out, Opcode::DataIn, false, flags, self.data_segment_length);
        out[3] = self.status.map_or(0, |s| s.status);
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        self.numbers.emit(out);
        put_u32(out, 36, self.data_sn);
        put_u32(out, 40, self.buffer_offset);
        put_u32(out, 44, count);
    }
}

/// Ready To Transfer: the target requests a part of a write's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct R2t {
    /// The command's LUN.
    pub lun: Lun,
    /// Task whose data is requested.
    pub itt: Itt,
    /// Tag that the Data-Out PDUs repeat; never [`Ttt::RESERVED`].
    pub ttt: Ttt,
    /// Numbers. StatSN is the next number and is not consumed.
    pub numbers: TargetNumbers,
    /// Number of the R2T within the command, from 0.
    pub r2t_sn: u32,
    /// Offset of the first byte requested in the command's whole buffer, bytes.
    pub buffer_offset: u32,
    /// Bytes requested: 1 to MaxBurstLength.
    pub desired_data_transfer_length: u32,
}

impl R2t {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; a reserved tag; a length of 0; a range beyond 2^32 bytes; a data segment.
    pub fn parse(bhs: &Bhs) -> Result<R2t, WireError> {
        bhs.expect(Opcode::R2t)?;
        let (buffer_offset, desired_data_transfer_length) = (bhs.u32_at(40), bhs.u32_at(44));
        if bhs.ttt() == Ttt::RESERVED {
            return Err(WireError::Field("Target Transfer Tag of an R2T"));
        }
        if desired_data_transfer_length == 0
            || buffer_offset
                .checked_add(desired_data_transfer_length)
                .is_none()
        {
            return Err(WireError::Field("Desired Data Transfer Length"));
        }
        if bhs.data_segment_length() != 0 {
            return Err(WireError::Field("DataSegmentLength of an R2T"));
        }
        Ok(R2t {
            lun: bhs.lun(),
            itt: bhs.itt(),
            ttt: bhs.ttt(),
            numbers: TargetNumbers::parse(bhs),
            r2t_sn: bhs.u32_at(36),
            buffer_offset,
            desired_data_transfer_length,
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(out, Opcode::R2t, false, FINAL, 0);
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.ttt.0);
        self.numbers.emit(out);
        put_u32(out, 36, self.r2t_sn);
        put_u32(out, 40, self.buffer_offset);
        put_u32(out, 44, self.desired_data_transfer_length);
    }
}

wire_code! {
    /// Type of a SNACK (section 11.16.1).
    SnackKind {
        /// Requests Data-In or R2T PDUs again.
        DataOrR2t = 0,
        /// Requests status PDUs again.
        Status = 1,
        /// Acknowledges Data-In PDUs.
        DataAck = 2,
        /// Requests Data-In PDUs again, resegmented.
        RData = 3,
    }
}

/// Selective negative acknowledgement. It is a protocol error at error recovery level 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snack {
    /// Type of the SNACK.
    pub kind: SnackKind,
    /// LUN of the Data-In PDU that is acknowledged; otherwise 0.
    pub lun: Lun,
    /// Task; [`Itt::RESERVED`] for status and acknowledgement.
    pub itt: Itt,
    /// Target Transfer Tag of an acknowledgement or SNACK tag of an R-Data SNACK.
    pub tag: u32,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// First missing DataSN, R2TSN or StatSN.
    pub beg_run: u32,
    /// Number of missing PDUs; 0 means all from `beg_run`.
    pub run_length: u32,
}

impl Snack {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; a data segment.
    pub fn parse(bhs: &Bhs) -> Result<Snack, WireError> {
        bhs.expect(Opcode::Snack)?;
        if bhs.data_segment_length() != 0 {
            return Err(WireError::Field("DataSegmentLength of a SNACK"));
        }
        Ok(Snack {
            kind: SnackKind::from_code(bhs.flags() & 0x0f),
            lun: bhs.lun(),
            itt: bhs.itt(),
            tag: bhs.u32_at(20),
            exp_stat_sn: StatSn(bhs.u32_at(28)),
            beg_run: bhs.u32_at(40),
            run_length: bhs.u32_at(44),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(
            out,
            Opcode::Snack,
            false,
            FINAL | (self.kind.code() & 0x0f),
            0,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.tag);
        put_u32(out, 28, self.exp_stat_sn.0);
        put_u32(out, 40, self.beg_run);
        put_u32(out, 44, self.run_length);
    }
}
