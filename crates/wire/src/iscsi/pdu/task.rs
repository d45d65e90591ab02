//! Task Management Function Request and Response (RFC 7143 sections 11.5 and 11.6).
use super::{FINAL, begin, emit_initiator_numbers, parse_initiator_numbers, wire_code};
use crate::iscsi::{BHS_LENGTH, Bhs, CmdSn, Itt, Lun, Opcode, StatSn, TargetNumbers, WireError};
use crate::octets::{put_u32, put_u64};

wire_code! {
    /// Task management function (section 11.5.1).
    TaskManagementFunction {
        /// Abort one task, named by its tag.
        AbortTask = 1,
        /// Abort all tasks of this session on the LU.
        AbortTaskSet = 2,
        /// Clear auto contingent allegiance.
        ClearAca = 3,
        /// Abort all tasks of all sessions on the LU.
        ClearTaskSet = 4,
        /// Reset the LU.
        LogicalUnitReset = 5,
        /// Reset the target.
        TargetWarmReset = 6,
        /// Reset the target and end all sessions.
        TargetColdReset = 7,
        /// Move a task to this connection (error recovery level 2).
        TaskReassign = 8,
    }
}

wire_code! {
    /// Result of a task management function (section 11.6.1).
    TaskManagementResult {
        /// Function complete.
        Complete = 0,
        /// Task does not exist.
        NoSuchTask = 1,
        /// LUN does not exist.
        NoSuchLun = 2,
        /// Task is still allegiant.
        StillAllegiant = 3,
        /// Task allegiance reassignment is not supported.
        ReassignNotSupported = 4,
        /// Function is not supported.
        NotSupported = 5,
        /// Function authorisation failed.
        NotAuthorized = 6,
        /// Function rejected.
        Rejected = 255,
    }
}

/// Request for a task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementRequest {
    /// For immediate delivery, as is usual.
    pub immediate: bool,
    /// Function.
    pub function: TaskManagementFunction,
    /// LU, if the function addresses one.
    pub lun: Lun,
    /// Tag of the request itself.
    pub itt: Itt,
    /// Tag of the addressed task; [`Itt::RESERVED`] except for abort and reassign.
    pub referenced_task_tag: Itt,
    /// Command number.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// CmdSN of the task to abort.
    pub ref_cmd_sn: CmdSn,
    /// Next DataSN or R2TSN expected of a reassigned task.
    pub exp_data_sn: u32,
}

impl TaskManagementRequest {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; a data segment (section 11.5).
    pub fn parse(bhs: &Bhs) -> Result<TaskManagementRequest, WireError> {
        bhs.expect(Opcode::TaskManagementRequest)?;
        if bhs.data_segment_length() != 0 {
            return Err(WireError::Field(
                "DataSegmentLength of a task management request",
            ));
        }
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        Ok(TaskManagementRequest {
            immediate: bhs.immediate(),
            function: TaskManagementFunction::from_code(bhs.flags()),
            lun: bhs.lun(),
            itt: bhs.itt(),
            referenced_task_tag: Itt(bhs.u32_at(20)),
            cmd_sn,
            exp_stat_sn,
            ref_cmd_sn: CmdSn(bhs.u32_at(32)),
            exp_data_sn: bhs.u32_at(36),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(
            out,
            Opcode::TaskManagementRequest,
            self.immediate,
            FINAL | (self.function.code() & 0x7f),
            0,
        );
        put_u64(out, 8, self.lun.0);
        put_u32(out, 16, self.itt.0);
        put_u32(out, 20, self.referenced_task_tag.0);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
        put_u32(out, 32, self.ref_cmd_sn.0);
        put_u32(out, 36, self.exp_data_sn);
    }
}

/// Answer to a task management request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// Result.
    pub result: TaskManagementResult,
    /// Tag of the request.
    pub itt: Itt,
    /// Numbers; the response consumes a StatSN.
    pub numbers: TargetNumbers,
}

impl TaskManagementResponse {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<TaskManagementResponse, WireError> {
        bhs.expect(Opcode::TaskManagementResponse)?;
        Ok(TaskManagementResponse {
            result: TaskManagementResult::from_code(bhs.byte(2)),
            itt: bhs.itt(),
            numbers: TargetNumbers::parse(bhs),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(out, Opcode::TaskManagementResponse, false, FINAL, 0);
        out[2] = self.result.code();
        put_u32(out, 16, self.itt.0);
        self.numbers.emit(out);
    }
}
