//! Asynchronous Message (RFC 7143 section 11.9) and Reject (section 11.17): PDUs that a target
//! sends unrequested.
use super::{FINAL, begin, wire_code};
use crate::iscsi::{BHS_LENGTH, Bhs, Itt, Lun, Opcode, TargetNumbers, WireError};
use crate::octets::{put_u16, put_u32, put_u64};

wire_code! {
    /// Event of an Asynchronous Message (section 11.9.1).
    AsyncEvent {
        /// A SCSI asynchronous event; sense data is in the data segment.
        ScsiEvent = 0,
        /// The target requests a logout within Parameter3 seconds.
        LogoutRequested = 1,
        /// The target will drop, or has dropped, connection Parameter1.
        ConnectionDropped = 2,
        /// The target will drop all connections of the session.
        SessionDropped = 3,
        /// The target requests a new negotiation of parameters within Parameter3 seconds.
        NegotiationRequested = 4,
        /// The target is terminating all tasks of the LU (RFC 7143's FastAbort).
        TasksTerminated = 5,
        /// Vendor-specific.
        Vendor = 255,
    }
}

/// A message that the target sends without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMessage {
    /// Event.
    pub event: AsyncEvent,
    /// Vendor-specific code of the event.
    pub vendor_code: u8,
    /// LU of a SCSI event; otherwise 0.
    pub lun: Lun,
    /// Numbers; the message consumes a StatSN.
    pub numbers: TargetNumbers,
    /// Parameter1 to Parameter3; for a dropped connection: CID, Time2Wait, Time2Retain.
    pub parameters: [u16; 3],
    /// Length of the data segment (sense data of a SCSI event), bytes.
    pub data_segment_length: u32,
}

impl AsyncMessage {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<AsyncMessage, WireError> {
        bhs.expect(Opcode::AsyncMessage)?;
        Ok(AsyncMessage {
            event: AsyncEvent::from_code(bhs.byte(36)),
            vendor_code: bhs.byte(37),
            lun: bhs.lun(),
            numbers: TargetNumbers::parse(bhs),
            parameters: [bhs.u16_at(38), bhs.u16_at(40), bhs.u16_at(42)],
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(
            out,
            Opcode::AsyncMessage,
            false,
            FINAL,
            self.data_segment_length,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, Itt::RESERVED.0);
        self.numbers.emit(out);
        out[36] = self.event.code();
        out[37] = self.vendor_code;
        for (i, parameter) in self.parameters.into_iter().enumerate() {
            put_u16(out, 38 + 2 * i, parameter);
        }
    }
}

wire_code! {
    /// Reason of a Reject (section 11.17.1).
    RejectReason {
        /// Data digest error.
        DataDigestError = 0x02,
        /// SNACK rejected.
        SnackReject = 0x03,
        /// Protocol error.
        ProtocolError = 0x04,
        /// Command not supported.
        CommandNotSupported = 0x05,
        /// Too many immediate commands.
        ImmediateCommandReject = 0x06,
        /// Task in progress.
        TaskInProgress = 0x07,
        /// Invalid data acknowledgement.
        InvalidDataAck = 0x08,
        /// Invalid PDU field.
        InvalidPduField = 0x09,
        /// Out of resources for a long operation; to be retried with a new tag.
        LongOperationReject = 0x0a,
        /// Deprecated by RFC 7143.
        NegotiationReset = 0x0b,
        /// Waiting for logout.
        WaitingForLogout = 0x0c,
    }
}

/// Rejection of a PDU. The data segment begins with the 48 bytes of the rejected header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Reason.
    pub reason: RejectReason,
    /// Numbers; the Reject consumes a StatSN.
    pub numbers: TargetNumbers,
    /// For a rejected SNACK: next DataSN or R2TSN; otherwise 0.
    pub data_sn: u32,
    /// Length of the data segment, at least 48 bytes.
    pub data_segment_length: u32,
}

impl Reject {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<Reject, WireError> {
        bhs.expect(Opcode::Reject)?;
        Ok(Reject {
            reason: RejectReason::from_code(bhs.byte(2)),
            numbers: TargetNumbers::parse(bhs),
            data_sn: bhs.u32_at(36),
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(out, Opcode::Reject, false, FINAL, self.data_segment_length);
        out[2] = self.reason.code();
        put_u32(out, 16, Itt::RESERVED.0);
        self.numbers.emit(out);
        put_u32(out, 36, self.data_sn);
    }
}
