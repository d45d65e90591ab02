//! The header of every message (MS-SMB2 section 2.2.1).
use super::fields::{Emit, Fields, WireError};
use super::status::Status;

/// Length of a header, bytes.
pub const HEADER_LENGTH: usize = 64;
/// Offset of the signature in the header, bytes.
pub const SIGNATURE_AT: usize = 48;
/// MessageId of a message that a server sends without a request (an oplock break).
pub const UNSOLICITED: u64 = u64::MAX;

/// The message is a response.
pub const FLAG_RESPONSE: u32 = 0x1;
/// The header has an AsyncId instead of a TreeId.
pub const FLAG_ASYNC: u32 = 0x2;
/// The request uses session, tree and file of the previous one in its compound.
pub const FLAG_RELATED: u32 = 0x4;
/// The message is signed.
pub const FLAG_SIGNED: u32 = 0x8;

/// Commands of MS-SMB2 section 2.2.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Command {
    Negotiate = 0,
    SessionSetup = 1,
    Logoff = 2,
    TreeConnect = 3,
    TreeDisconnect = 4,
    Create = 5,
    Close = 6,
    Flush = 7,
    Read = 8,
    Write = 9,
    Lock = 10,
    Ioctl = 11,
    Cancel = 12,
    Echo = 13,
    QueryDirectory = 14,
    ChangeNotify = 15,
    QueryInfo = 16,
    SetInfo = 17,
    OplockBreak = 18,
}

impl Command {
    const ALL: [Command; 19] = {
        use Command::*;
        [
            Negotiate,
            SessionSetup,
            Logoff,
            TreeConnect,
            TreeDisconnect,
            Create,
            Close,
            Flush,
            Read,
            Write,
            Lock,
            Ioctl,
            Cancel,
            Echo,
            QueryDirectory,
            ChangeNotify,
            QueryInfo,
            SetInfo,
            OplockBreak,
        ]
    };

    /// Returns the name in MS-SMB2.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Command::Negotiate => "NEGOTIATE",
            Command::SessionSetup => "SESSION_SETUP",
            Command::Logoff => "LOGOFF",
            Command::TreeConnect => "TREE_CONNECT",
            Command::TreeDisconnect => "TREE_DISCONNECT",
            Command::Create => "CREATE",
            Command::Close => "CLOSE",
            Command::Flush => "FLUSH",
            Command::Read => "READ",
            Command::Write => "WRITE",
            Command::Lock => "LOCK",
            Command::Ioctl => "IOCTL",
            Command::Cancel => "CANCEL",
            Command::Echo => "ECHO",
            Command::QueryDirectory => "QUERY_DIRECTORY",
            Command::ChangeNotify => "CHANGE_NOTIFY",
            Command::QueryInfo => "QUERY_INFO",
            Command::SetInfo => "SET_INFO",
            Command::OplockBreak => "OPLOCK_BREAK",
        }
    }

    fn parse(code: u16) -> Result<Command, WireError> {
        let command = Command::ALL.get(usize::from(code)).copied();
        command.ok_or(WireError::Invalid("unknown command"))
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of message ids, and of credits, that the message uses.
    pub credit_charge: u16,
    /// Status of a response; 0 in a request.
    pub status: Status,
    /// Command.
    pub command: Command,
    /// Number of credits requested, or granted.
    pub credits: u16,
    /// `FLAG_*`.
    pub flags: u32,
    /// Offset of the next message of a compound from this header; 0 in the last one.
    pub next_command: u32,
    /// Number of the request.
    pub message_id: u64,
    /// TreeId in the upper half, or AsyncId if the flags have [`FLAG_ASYNC`].
    pub tree_or_async: u64,
    /// Number of the session.
    pub session_id: u64,
    /// Signature; zeros in an unsigned message.
    pub signature: [u8; 16],
}

impl Header {
    /// Parses the header at the begin of `message`.
    ///
    /// # Errors
    /// The message is too short, or not an SMB 2 message.
    pub fn parse(message: &[u8]) -> Result<Header, WireError> {
        let fields = Fields(message);
        match fields.array(0)? {
            [0xfe, b'S', b'M', b'B'] => {}
            [0xfd, b'S', b'M', b'B'] => return Err(WireError::Invalid("the message is encrypted")),
            [0xfc, b'S', b'M', b'B'] => {
                return Err(WireError::Invalid("the message is compressed"));
            }
            [0xff, b'S', b'M', b'B'] => return Err(WireError::Invalid("the message is SMB 1")),
            _ => return Err(WireError::Invalid("not an SMB message")),
        }
        fields.slice(0, HEADER_LENGTH)?;
        if fields.u16(4)? != 64 {
            return Err(WireError::Invalid("unexpected length of the header"));
        }
        Ok(Header {
            credit_charge: fields.u16(6)?,
            status: Status(fields.u32(8)?),
            command: Command::parse(fields.u16(12)?)?,
            credits: fields.u16(14)?,
            flags: fields.u32(16)?,
            next_command: fields.u32(20)?,
            message_id: fields.u64(24)?,
            tree_or_async: fields.u64(32)?,
            session_id: fields.u64(40)?,
            signature: fields.array(SIGNATURE_AT)?,
        })
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .bytes(&[0xfe, b'S', b'M', b'B'])
            .u16(64)
            .u16(self.credit_charge)
            .u32(self.status.0)
            .u16(self.command as u16)
            .u16(self.credits)
            .u32(self.flags)
            .u32(self.next_command)
            .u64(self.message_id)
            .u64(self.tree_or_async)
            .u64(self.session_id)
            .bytes(&self.signature);
    }

    /// Returns whether all bits of `flag` are set.
    #[must_use]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }
}

/// Splits a frame into the messages of a compound. Each message includes its padding, which its
/// signature covers.
///
/// # Errors
/// A header is invalid, or its NextCommand does not lead to a later header in the frame.
pub fn split_compound(
    mut frame: &[u8],
) -> impl Iterator<Item = Result<(Header, &[u8]), WireError>> {
    std::iter::from_fn(move || {
        if frame.is_empty() {
            return None;
        }
        let header = match Header::parse(frame) {
            Ok(header) => header,
            Err(error) => {
                frame = &[];
                return Some(Err(error));
            }
        };
        let next = header.next_command as usize;
        let length = if next == 0 { frame.len() } else { next };
        if length < HEADER_LENGTH || length > frame.len() || (next != 0 && length == frame.len()) {
            frame = &[];
            return Some(Err(WireError::Invalid(
                "NextCommand leads out of the frame",
            )));
        }
        let (message, rest) = frame.split_at(length);
        frame = rest;
        Some(Ok((header, message)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(next_command: u32) -> Header {
        Header {
            credit_charge: 1,
            status: Status(0),
            command: Command::Echo,
            credits: 2,
            flags: FLAG_RESPONSE,
            next_command,
            message_id: 3,
            tree_or_async: 4 << 32,
            session_id: 5,
            signature: [6; 16],
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            (charge, status, command, credits) in (any::<u16>(), any::<u32>(), 0u16..19, any::<u16>()),
            (flags, next_command, message_id) in (any::<u32>(), any::<u32>(), any::<u64>()),
            (tree_or_async, session_id, signature) in (any::<u64>(), any::<u64>(), any::<[u8; 16]>()),
        ) {
            let header = Header {
                credit_charge: charge,
                status: Status(status),
                command: Command::parse(command).unwrap(),
                credits, flags, next_command, message_id, tree_or_async, session_id, signature,
            };
            let mut bytes = Vec::new();
            header.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), HEADER_LENGTH);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }
    }

    #[test]
    fn a_compound_is_split_at_its_next_commands() {
        let mut frame = Vec::new();
        header(72).emit(&mut frame);
        frame.extend([0; 8]);
        header(0).emit(&mut frame);
        frame.extend([1; 4]);
        let messages: Vec<usize> = split_compound(&frame).map(|m| m.unwrap().1.len()).collect();
        assert_eq!(messages, [72, 68]);
        // An offset into the header, behind the frame, or to its end is refused.
        for next in [8u32, 63, 140, 141, u32::MAX] {
            frame[20..24].copy_from_slice(&next.to_le_bytes());
            let split: Vec<_> = split_compound(&frame).collect();
            assert_eq!(split.len(), 1);
            assert!(split[0].is_err(), "{next}");
        }
    }

    #[test]
    fn other_protocols_are_named() {
        for (first, text) in [
            (0xfd, "encrypted"),
            (0xfc, "compressed"),
            (0xff, "SMB 1"),
            (0x47, "not an SMB"),
        ] {
            let mut bytes = [0; 64];
            bytes[..4].copy_from_slice(&[first, b'S', b'M', b'B']);
            let error = Header::parse(&bytes).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
