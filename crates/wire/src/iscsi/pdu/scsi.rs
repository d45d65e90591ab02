//! SCSI Command and SCSI Response (RFC 7143 sections 11.3 and 11.4).
use super::{FINAL, begin, bit, emit_initiator_numbers, parse_initiator_numbers, wire_code};
use crate::iscsi::{BHS_LENGTH, Bhs, CmdSn, Itt, Lun, Opcode, StatSn, TargetNumbers, WireError};
use crate::octets::{put_u32, put_u64};

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

wire_code! {
    /// Task attribute (ATTR, section 11.3.1).
    TaskAttribute {
        /// Untagged.
        Untagged = 0,
        /// Simple.
        Simple = 1,
        /// Ordered.
        Ordered = 2,
        /// Head of queue.
        HeadOfQueue = 3,
        /// Auto contingent allegiance.
        Aca = 4,
    }
}

wire_code! {
    /// iSCSI service response (section 11.4.3).
    ScsiResponseCode {
        /// Command completed at the target; the SCSI status is valid.
        Completed = 0x00,
        /// Target failure; no SCSI status.
        TargetFailure = 0x01,
    }
}

/// A SCSI command. Immediate data follows in the same PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiCommand {
    /// For immediate delivery.
    pub immediate: bool,
    /// F: no unsolicited Data-Out PDUs follow.
    pub is_final: bool,
    /// R: data goes to the initiator.
    pub read: bool,
    /// W: data goes to the target.
    pub write: bool,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Addressed logical unit.
    pub lun: Lun,
    /// Tag of the new task.
    pub itt: Itt,
    /// Bytes that the initiator expects to transfer (to the target if both R and W are set).
    pub expected_data_transfer_length: u32,
    /// Command number.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// Command descriptor block; bytes past the 16th are in an extended-CDB AHS.
    pub cdb: [u8; 16],
    /// Length of the immediate data, bytes.
    pub data_segment_length: u32,
}

impl ScsiCommand {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; neither F nor W (section 11.3.1: only writes have further PDUs); a data
    /// segment without W.
    pub fn parse(bhs: &Bhs) -> Result<ScsiCommand, WireError> {
        bhs.expect(Opcode::ScsiCommand)?;
        let (is_final, write) = (bhs.is_final(), bhs.flags() & WRITE != 0);
        let data_segment_length = bhs.data_segment_length();
        if !is_final && !write {
            return Err(WireError::Field(
                "F bit of a command without data to follow",
            ));
        }
        if data_segment_length > 0 && !write {
            return Err(WireError::Field(
                "immediate data of a command that does not write",
            ));
        }
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        let mut cdb = [0; 16];
        cdb.copy_from_slice(&bhs.as_bytes()[32..48]);
        Ok(ScsiCommand {
            immediate: bhs.immediate(),
            is_final,
            read: bhs.flags() & READ != 0,
            write,
            attribute: TaskAttribute::from_code(bhs.flags() & 0x07),
            lun: bhs.lun(),
            itt: bhs.itt(),
            expected_data_transfer_length: bhs.u32_at(20),
            cmd_sn,
            exp_stat_sn,
            cdb,
            data_segment_length,
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let flags = bit(self.is_final, FINAL)
            | bit(self.read, READ)
            | bit(self.write, WRITE)
            | (self.attribute.code() & 0x07);
        begin(
            out,
            Opcode::ScsiCommand,
            self.immediate,
            flags,
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.expected_data_transfer_length);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
        out[32..48].copy_from_slice(&self.cdb);
    }
}

/// Difference between available and expected bytes of a command (section 11.4.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// No difference.
    #[default]
    None,
    /// O: this many bytes beyond those expected were available and not transferred.
    Overflow(u32),
    /// U: this many bytes fewer than expected were transferred.
    Underflow(u32),
}

impl Residual {
    /// Returns the residual of a command with `available` bytes to transfer and `expected` bytes
    /// requested.
    pub fn between(expected: u32, available: u64) -> Residual {
        match available.cmp(&u64::from(expected)) {
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Less => Residual::Underflow(expected - available as u32),
            std::cmp::Ordering::Greater => Residual::Overflow(
                u32::try_from(available - u64::from(expected)).unwrap_or(u32::MAX),
            ),
        }
    }

    pub(super) fn parse(flags: u8, count: u32) -> Result<Residual, WireError> {
        match (flags & OVERFLOW != 0, flags & UNDERFLOW != 0) {
            (false, false) => Ok(Residual::None),
            (true, false) => Ok(Residual::Overflow(count)),
            (false, true) => Ok(Residual::Underflow(count)),
            (true, true) => Err(WireError::Field("combination of O and U bits")),
        }
    }

    /// Returns the bits of byte 1 and the count.
    pub(super) fn fields(self) -> (u8, u32) {
        match self {
            Residual::None => (0, 0),
            Residual::Overflow(count) => (OVERFLOW, count),
            Residual::Underflow(count) => (UNDERFLOW, count),
        }
    }
}

/// Completion of a task. The data segment is a two-byte length and sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiResponse {
    /// Residual count, of the write part if the command is bidirectional.
    pub residual: Residual,
    /// Residual count of the read part of a bidirectional command.
    pub bidirectional_read_residual: Residual,
    /// Service response.
    pub response: ScsiResponseCode,
    /// SCSI status (SAM-5); see [`crate::scsi::Status`].
    pub status: u8,
    /// Tag of the completed task.
    pub itt: Itt,
    /// SNACK tag; 0 at error recovery level 0.
    pub snack_tag: u32,
    /// Numbers; the status consumes a StatSN.
    pub numbers: TargetNumbers,
    /// Number of Data-In and R2T PDUs that were sent for the task.
    pub exp_data_sn: u32,
    /// Length of the data segment, bytes.
    pub data_segment_length: u32,
}

impl ScsiResponse {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; both O and U (or o and u) set.
    pub fn parse(bhs: &Bhs) -> Result<ScsiResponse, WireError> {
        bhs.expect(Opcode::ScsiResponse)?;
        Ok(ScsiResponse {
            residual: Residual::parse(bhs.flags(), bhs.u32_at(44))?,
            // The bits o and u lie two above O and U.
            bidirectional_read_residual: Residual::parse(bhs.flags() >> 2, bhs.u32_at(40))?,
            response: ScsiResponseCode::from_code(bhs.byte(2)),
            status: bhs.byte(3),
            itt: bhs.itt(),
            snack_tag: bhs.u32_at(20),
            numbers: TargetNumbers::parse(bhs),
            exp_data_sn: bhs.u32_at(36),
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let (flags, count) = self.residual.fields();
        let (read_flags, read_count) = self.bidirectional_read_residual.fields();
        begin(
            out,
            Opcode::ScsiResponse,
            false,
            FINAL | flags | read_flags << 2,
            self.data_segment_length,
        );
        out[2] = self.response.code();
        out[3] = self.status;
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.snack_tag);
        self.numbers.emit(out);
        put_u32(out, 36, self.exp_data_sn);
        put_u32(out, 40, read_count);
        put_u32(out, 44, count);
    }
}

impl Default for ScsiResponse {
    /// Returns a response with status GOOD, no residual and no data.
    fn default() -> Self {
        ScsiResponse {
            residual: Residual::None,
            bidirectional_read_residual: Residual::None,
            response: ScsiResponseCode::Completed,
            status: 0,
            itt: Itt(0),
            snack_tag: 0,
            numbers: TargetNumbers::default(),
            exp_data_sn: 0,
            data_segment_length: 0,
        }
    }
}
