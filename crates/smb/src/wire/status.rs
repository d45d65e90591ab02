//! Status codes of responses (MS-ERREF section 2.3).
use std::fmt;

/// An NTSTATUS. Codes from 0xC0000000 are errors, from 0x80000000 warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($code);)*

            /// Returns the name in MS-ERREF without the prefix `STATUS_`, if this crate knows it.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Status::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// Success.
    SUCCESS = 0x0000_0000,
    /// The request is being executed; the final response follows.
    PENDING = 0x0000_0103,
    /// The answer was longer than the buffer.
    BUFFER_OVERFLOW = 0x8000_0005,
    /// A listing has ended.
    NO_MORE_FILES = 0x8000_0006,
    /// The path leads through a symbolic link.
    STOPPED_ON_SYMLINK = 0x8000_002d,
    /// A field of the request is invalid.
    INVALID_PARAMETER = 0xc000_000d,
    /// No file matches the pattern of a listing.
    NO_SUCH_FILE = 0xc000_000f,
    /// A read begins at or behind the end of the file.
    END_OF_FILE = 0xc000_0011,
    /// Login: another message is needed.
    MORE_PROCESSING_REQUIRED = 0xc000_0016,
    /// No permission.
    ACCESS_DENIED = 0xc000_0022,
    /// The name is not valid.
    OBJECT_NAME_INVALID = 0xc000_0033,
    /// No such file.
    OBJECT_NAME_NOT_FOUND = 0xc000_0034,
    /// The file exists.
    OBJECT_NAME_COLLISION = 0xc000_0035,
    /// A folder of the path does not exist.
    OBJECT_PATH_NOT_FOUND = 0xc000_003a,
    /// Another open of the file does not share it.
    SHARING_VIOLATION = 0xc000_0043,
    /// The file is being deleted.
    DELETE_PENDING = 0xc000_0056,
    /// Wrong user or password.
    LOGON_FAILURE = 0xc000_006d,
    /// The account may not log in in this way.
    ACCOUNT_RESTRICTION = 0xc000_006e,
    /// The account is disabled.
    ACCOUNT_DISABLED = 0xc000_0072,
    /// The disk is full.
    DISK_FULL = 0xc000_007f,
    /// The server lacks resources.
    INSUFFICIENT_RESOURCES = 0xc000_009a,
    /// The object is a folder.
    FILE_IS_A_DIRECTORY = 0xc000_00ba,
    /// The request is not supported.
    NOT_SUPPORTED = 0xc000_00bb,
    /// The tree connection has ended.
    NETWORK_NAME_DELETED = 0xc000_00c9,
    /// No such share.
    BAD_NETWORK_NAME = 0xc000_00cc,
    /// The server accepts no further sessions.
    REQUEST_NOT_ACCEPTED = 0xc000_00d0,
    /// The folder is not empty.
    DIRECTORY_NOT_EMPTY = 0xc000_0101,
    /// The object is not a folder.
    NOT_A_DIRECTORY = 0xc000_0103,
    /// The request was cancelled.
    CANCELLED = 0xc000_0120,
    /// The file was closed.
    FILE_CLOSED = 0xc000_0128,
    /// The session has ended.
    USER_SESSION_DELETED = 0xc000_0203,
    /// The session has expired.
    NETWORK_SESSION_EXPIRED = 0xc000_035c,
}

impl Status {
    /// Returns whether the request failed: the severity is "error".
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 >= 0xc000_0000
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "STATUS_{name} ({:08x}h)", self.0),
            None => write!(f, "status {:08x}h", self.0),
        }
    }
}
