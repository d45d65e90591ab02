//! Login and Logout, Request and Response (RFC 7143 sections 11.12 to 11.15).
use super::text::parse_sequence;
use super::{
    CONTINUE, FINAL, begin, bit, emit_initiator_numbers, parse_initiator_numbers, wire_code,
};
use crate::iscsi::{BHS_LENGTH, Bhs, CmdSn, Isid, Itt, Opcode, StatSn, TargetNumbers, WireError};
use crate::octets::{put_u16, put_u32};

/// Stage of the login phase (CSG, NSG; section 11.12.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// SecurityNegotiation.
    #[default]
    SecurityNegotiation = 0,
    /// LoginOperationalNegotiation.
    OperationalNegotiation = 1,
    /// FullFeaturePhase.
    FullFeaturePhase = 3,
}

impl Stage {
    fn from_code(code: u8) -> Result<Stage, WireError> {
        match code & 3 {
            0 => Ok(Stage::SecurityNegotiation),
            1 => Ok(Stage::OperationalNegotiation),
            3 => Ok(Stage::FullFeaturePhase),
            _ => Err(WireError::Field("login stage")),
        }
    }
}

/// Parses byte 1 of both login PDUs: (C, CSG, NSG if T is set).
fn parse_stages(bhs: &Bhs) -> Result<(bool, Stage, Option<Stage>), WireError> {
    let (transit, more) = parse_sequence(bhs)?;
    let current = Stage::from_code(bhs.flags() >> 2)?;
    // NSG is reserved if T is not set.
    let next = if transit {
        Some(Stage::from_code(bhs.flags())?)
    } else {
        None
    };
    if current == Stage::FullFeaturePhase || next.is_some_and(|next| next <= current) {
        return Err(WireError::Field("login stage"));
    }
    Ok((more, current, next))
}

fn stage_flags(more: bool, current: Stage, next: Option<Stage>) -> u8 {
    bit(next.is_some(), FINAL)
        | bit(more, CONTINUE)
        | (current as u8) << 2
        | next.map_or(0, |stage| stage as u8)
}

fn isid(bhs: &Bhs) -> Isid {
    let b = bhs.as_bytes();
    Isid([b[8], b[9], b[10], b[11], b[12], b[13]])
}

/// An initiator's login PDU. Its I bit is always set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginRequest {
    /// C: the list of keys continues in the next request.
    pub more: bool,
    /// CSG: never full feature phase.
    pub current_stage: Stage,
    /// NSG if the initiator requests a transition (T bit): later than `current_stage`.
    pub next_stage: Option<Stage>,
    /// Highest version supported; RFC 7143 is 0.
    pub version_max: u8,
    /// Lowest version supported.
    pub version_min: u8,
    /// Initiator's part of the session's identity.
    pub isid: Isid,
    /// Target's part of the session's identity; 0 for a new session.
    pub tsih: u16,
    /// Tag, constant throughout a login.
    pub itt: Itt,
    /// Connection ID, unique within the session.
    pub cid: u16,
    /// In the leading login: first command number of the session.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
    /// Length of the text, bytes.
    pub data_segment_length: u32,
}

impl LoginRequest {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; an undefined stage, or a next stage that is not later than the current one;
    /// T with C; C without text.
    pub fn parse(bhs: &Bhs) -> Result<LoginRequest, WireError> {
        bhs.expect(Opcode::LoginRequest)?;
        let (more, current_stage, next_stage) = parse_stages(bhs)?;
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        Ok(LoginRequest {
            more,
            current_stage,
            next_stage,
            version_max: bhs.byte(2),
            version_min: bhs.byte(3),
            isid: isid(bhs),
            tsih: bhs.u16_at(14),
            itt: bhs.itt(),
            cid: bhs.u16_at(20),
            cmd_sn,
            exp_stat_sn,
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let flags = stage_flags(self.more, self.current_stage, self.next_stage);
        begin(
            out,
            Opcode::LoginRequest,
            true,
            flags,
            self.data_segment_length,
        );
        out[2] = self.version_max;
        out[3] = self.version_min;
        out[8..14].copy_from_slice(&self.isid.0);
        put_u16(out, 14, self.tsih);
        put_u32(out, 16, self.itt.0);
        put_u16(out, 20, self.cid);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
    }
}

/// Status-Class and Status-Detail of a Login Response (section 11.13.5), as `class << 8 | detail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginStatus(pub u16);

impl LoginStatus {
    /// Success: the login continues or is complete.
    pub const SUCCESS: LoginStatus = LoginStatus(0x0000);
    /// The target has moved temporarily, to TargetAddress.
    pub const TARGET_MOVED_TEMPORARILY: LoginStatus = LoginStatus(0x0101);
    /// The target has moved permanently, to TargetAddress.
    pub const TARGET_MOVED_PERMANENTLY: LoginStatus = LoginStatus(0x0102);
    /// Miscellaneous error of the initiator.
    pub const INITIATOR_ERROR: LoginStatus = LoginStatus(0x0200);
    /// The initiator could not be authenticated.
    pub const AUTHENTICATION_FAILURE: LoginStatus = LoginStatus(0x0201);
    /// The initiator may not use this target.
    pub const AUTHORIZATION_FAILURE: LoginStatus = LoginStatus(0x0202);
    /// The target does not exist.
    pub const NOT_FOUND: LoginStatus = LoginStatus(0x0203);
    /// The target was removed.
    pub const TARGET_REMOVED: LoginStatus = LoginStatus(0x0204);
    /// The two sides have no version in common.
    pub const UNSUPPORTED_VERSION: LoginStatus = LoginStatus(0x0205);
    /// Too many connections in the session.
    pub const TOO_MANY_CONNECTIONS: LoginStatus = LoginStatus(0x0206);
    /// A mandatory key is missing (such as InitiatorName).
    pub const MISSING_PARAMETER: LoginStatus = LoginStatus(0x0207);
    /// This session cannot include this connection.
    pub const CANNOT_INCLUDE_IN_SESSION: LoginStatus = LoginStatus(0x0208);
    /// The session type is not supported.
    pub const SESSION_TYPE_NOT_SUPPORTED: LoginStatus = LoginStatus(0x0209);
    /// TSIH identifies no session.
    pub const SESSION_DOES_NOT_EXIST: LoginStatus = LoginStatus(0x020a);
    /// The PDU is invalid during login.
    pub const INVALID_DURING_LOGIN: LoginStatus = LoginStatus(0x020b);
    /// Miscellaneous error of the target.
    pub const TARGET_ERROR: LoginStatus = LoginStatus(0x0300);
    /// The target is temporarily unavailable.
    pub const SERVICE_UNAVAILABLE: LoginStatus = LoginStatus(0x0301);
    /// Out of resources.
    pub const OUT_OF_RESOURCES: LoginStatus = LoginStatus(0x0302);

    /// Returns the class: 0 success, 1 redirection, 2 initiator error, 3 target error.
    pub const fn class(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the detail within the class.
    pub const fn detail(self) -> u8 {
        self.0 as u8
    }
}

/// A target's login PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginResponse {
    /// C: the list of keys continues in the next response.
    pub more: bool,
    /// CSG.
    pub current_stage: Stage,
    /// NSG if the target agrees to the transition (T bit).
    pub next_stage: Option<Stage>,
    /// Highest version supported.
    pub version_max: u8,
    /// Version in effect on the connection.
    pub version_active: u8,
    /// ISID of the request.
    pub isid: Isid,
    /// TSIH of the request. In the final response of a new session, the handle assigned to it.
    pub tsih: u16,
    /// Tag of the request.
    pub itt: Itt,
    /// Numbers; each response consumes a StatSN.
    pub numbers: TargetNumbers,
    /// Result. The numbers are valid only for class 0.
    pub status: LoginStatus,
    /// Length of the text, bytes.
    pub data_segment_length: u32,
}

impl LoginResponse {
    /// Reads the header. A refusal (class other than 0) is read leniently: undefined stages are
    /// replaced by the first stage.
    ///
    /// # Errors
    /// Another opcode; in a response of class 0 an undefined stage or a next stage that is not
    /// later than the current one; T with C; C without text.
    pub fn parse(bhs: &Bhs) -> Result<LoginResponse, WireError> {
        bhs.expect(Opcode::LoginResponse)?;
        let status = LoginStatus(bhs.u16_at(36));
        let (more, current_stage, next_stage) = match parse_stages(bhs) {
            Ok(stages) => stages,
            Err(_) if status.class() != 0 => (false, Stage::default(), None),
            Err(error) => return Err(error),
        };
        Ok(LoginResponse {
            more,
            current_stage,
            next_stage,
            version_max: bhs.byte(2),
            version_active: bhs.byte(3),
            isid: isid(bhs),
            tsih: bhs.u16_at(14),
            itt: bhs.itt(),
            numbers: TargetNumbers::parse(bhs),
            status,
            data_segment_length: bhs.data_segment_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        let flags = stage_flags(self.more, self.current_stage, self.next_stage);
        begin(
            out,
            Opcode::LoginResponse,
            false,
            flags,
            self.data_segment_length,
        );
        out[2] = self.version_max;
        out[3] = self.version_active;
        out[8..14].copy_from_slice(&self.isid.0);
        put_u16(out, 14, self.tsih);
        put_u32(out, 16, self.itt.0);
        self.numbers.emit(out);
        put_u16(out, 36, self.status.0);
    }
}

wire_code! {
    /// Reason of a logout (section 11.14.1).
    LogoutReason {
        /// The session with all its connections.
        CloseSession = 0,
        /// One connection.
        CloseConnection = 1,
        /// One connection, whose tasks will be reassigned (error recovery level 2).
        RemoveForRecovery = 2,
    }
}

wire_code! {
    /// Result of a logout (section 11.15.1).
    LogoutResult {
        /// Closed.
        Success = 0,
        /// CID identifies no connection.
        CidNotFound = 1,
        /// Connection recovery is not supported.
        RecoveryNotSupported = 2,
        /// Cleanup failed.
        CleanupFailed = 3,
    }
}

/// Request to close a session or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// For immediate delivery.
    pub immediate: bool,
    /// Scope of the logout.
    pub reason: LogoutReason,
    /// Tag of the request.
    pub itt: Itt,
    /// Connection to close; unused if the session is closed.
    pub cid: u16,
    /// Command number.
    pub cmd_sn: CmdSn,
    /// Next status number that the initiator expects.
    pub exp_stat_sn: StatSn,
}

impl LogoutRequest {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode; a data segment.
    pub fn parse(bhs: &Bhs) -> Result<LogoutRequest, WireError> {
        bhs.expect(Opcode::LogoutRequest)?;
        if bhs.data_segment_length() != 0 {
            return Err(WireError::Field("DataSegmentLength of a logout"));
        }
        let (cmd_sn, exp_stat_sn) = parse_initiator_numbers(bhs);
        Ok(LogoutRequest {
            immediate: bhs.immediate(),
            reason: LogoutReason::from_code(bhs.flags()),
            itt: bhs.itt(),
            cid: bhs.u16_at(20),
            cmd_sn,
            exp_stat_sn,
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(
            out,
            Opcode::LogoutRequest,
            self.immediate,
            FINAL | (self.reason.code() & 0x7f),
            0,
        );
        put_u32(out, 16, self.itt.0);
        put_u16(out, 20, self.cid);
        emit_initiator_numbers(out, self.cmd_sn, self.exp_stat_sn);
    }
}

/// Answer to a logout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutResponse {
    /// Result.
    pub result: LogoutResult,
    /// Tag of the request.
    pub itt: Itt,
    /// Numbers; the response consumes a StatSN.
    pub numbers: TargetNumbers,
    /// Seconds to wait before reconnecting.
    pub time2wait: u16,
    /// Seconds after `time2wait` for which tasks are kept.
    pub time2retain: u16,
}

impl LogoutResponse {
    /// Reads the header.
    ///
    /// # Errors
    /// Another opcode.
    pub fn parse(bhs: &Bhs) -> Result<LogoutResponse, WireError> {
        bhs.expect(Opcode::LogoutResponse)?;
        Ok(LogoutResponse {
            result: LogoutResult::from_code(bhs.byte(2)),
            itt: bhs.itt(),
            numbers: TargetNumbers::parse(bhs),
            time2wait: bhs.u16_at(40),
            time2retain: bhs.u16_at(42),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; BHS_LENGTH]) {
        begin(out, Opcode::LogoutResponse, false, FINAL, 0);
        out[2] = self.result.code();
        put_u32(out, 16, self.itt.0);
        self.numbers.emit(out);
        put_u16(out, 40, self.time2wait);
        put_u16(out, 42, self.time2retain);
    }
}
