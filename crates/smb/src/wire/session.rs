//! SESSION_SETUP, TREE_CONNECT and the messages without fields (MS-SMB2 sections 2.2.5 to 2.2.10,
//! 2.2.28 and 2.2.29).
use super::fields::{Emit, Fields, WireError};
use super::name::{from_utf16, utf16};

/// The session is a guest's.
pub const SESSION_GUEST: u16 = 1;
/// The session is anonymous.
pub const SESSION_ANONYMOUS: u16 = 2;
/// The session must be encrypted.
pub const SESSION_ENCRYPT: u16 = 4;
/// The share must be encrypted.
pub const SHARE_ENCRYPT: u32 = 0x8000;
/// The share has files.
pub const SHARE_TYPE_DISK: u8 = 1;

/// A SESSION_SETUP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSetupRequest {
    /// [`super::SIGNING_ENABLED`], [`super::SIGNING_REQUIRED`].
    pub security_mode: u8,
    /// SPNEGO token.
    pub token: Vec<u8>,
}

impl SessionSetupRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .u16(25)
            .u8(0)
            .u8(self.security_mode)
            .u32(0)
            .u32(0)
            .u16(88)
            .u16(self.token.len() as u16)
            .u64(0)
            .buffer(&self.token);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<SessionSetupRequest, WireError> {
        let fields = Fields(message);
        fields.structure(25)?;
        let (at, length) = (fields.u16(76)?, fields.u16(78)?);
        Ok(SessionSetupRequest {
            security_mode: fields.u8(67)?,
            token: fields.buffer(at.into(), length.into())?.to_vec(),
        })
    }
}

/// A SESSION_SETUP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSetupResponse {
    /// `SESSION_*`.
    pub flags: u16,
    /// SPNEGO token.
    pub token: Vec<u8>,
}

impl SessionSetupResponse {
    /// Appends the body. For servers in tests.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let length = self.token.len() as u16;
        Emit(out)
            .u16(9)
            .u16(self.flags)
            .u16(72)
            .u16(length)
            .buffer(&self.token);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<SessionSetupResponse, WireError> {
        let fields = Fields(message);
        fields.structure(9)?;
        let (at, length) = (fields.u16(68)?, fields.u16(70)?);
        Ok(SessionSetupResponse {
            flags: fields.u16(66)?,
            token: fields.buffer(at.into(), length.into())?.to_vec(),
        })
    }
}

/// A TREE_CONNECT request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConnectRequest {
    /// `\\server\share`.
    pub path: String,
}

impl TreeConnectRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let path = utf16(&self.path);
        let length = path.len() as u16;
        Emit(out).u16(9).u16(0).u16(72).u16(length).buffer(&path);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<TreeConnectRequest, WireError> {
        let fields = Fields(message);
        fields.structure(9)?;
        let (at, length) = (fields.u16(68)?, fields.u16(70)?);
        let path = fields.buffer(at.into(), length.into())?;
        Ok(TreeConnectRequest {
            path: from_utf16(path),
        })
    }
}

/// A TREE_CONNECT response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConnectResponse {
    /// Type of the share, such as [`SHARE_TYPE_DISK`].
    pub share_type: u8,
    /// `SHARE_*`.
    pub share_flags: u32,
    /// Access that the share allows to the user at most.
    pub access_max: u32,
}

impl TreeConnectResponse {
    /// Appends the body. For servers in tests.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .u16(16)
            .u8(self.share_type)
            .u8(0)
            .u32(self.share_flags)
            .u32(0)
            .u32(self.access_max);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<TreeConnectResponse, WireError> {
        let fields = Fields(message);
        fields.structure(16)?;
        Ok(TreeConnectResponse {
            share_type: fields.u8(66)?,
            share_flags: fields.u32(68)?,
            access_max: fields.u32(76)?,
        })
    }
}

/// Appends the body of LOGOFF, TREE_DISCONNECT and ECHO, and of the responses to them and to FLUSH.
pub fn emit_empty(out: &mut Vec<u8>) {
    Emit(out).u16(4).u16(0);
}

/// Appends the body of an error response. For servers in tests.
pub fn emit_error(out: &mut Vec<u8>) {
    Emit(out).u16(9).zeros(7);
}
