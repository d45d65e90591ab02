//! CREATE (MS-SMB2 sections 2.2.13 and 2.2.14).
use super::fields::{Emit, Fields, WireError};
use super::name::Path;

/// Number of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub [u8; 16]);

impl FileId {
    /// The file of the previous request in a compound.
    pub const RELATED: FileId = FileId([0xff; 16]);
}

/// Access rights (MS-SMB2 section 2.2.13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Reads data and attributes, and lists a folder.
    pub const READ: Access = Access(0x0012_0089);
    /// Writes data and attributes.
    pub const WRITE: Access = Access(0x0012_0116);
    /// Reads attributes.
    pub const ATTRIBUTES: Access = Access(0x0010_0080);
    /// Deletes or renames.
    pub const DELETE: Access = Access(0x0011_0080);

    /// Returns the rights of both.
    #[must_use]
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Action if the file exists, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Disposition {
    /// Replaces an existing file, or creates one.
    Supersede = 0,
    /// Opens an existing file only.
    Open = 1,
    /// Creates a file, and fails if it exists.
    Create = 2,
    /// Opens an existing file, or creates one.
    OpenIf = 3,
    /// Truncates an existing file only.
    Overwrite = 4,
    /// Truncates an existing file, or creates one.
    OverwriteIf = 5,
}

/// Attribute of a folder.
pub const ATTRIBUTE_DIRECTORY: u32 = 0x10;
/// The object must be a folder, or is created as one.
pub const OPTION_DIRECTORY: u32 = 0x1;
/// The object must not be a folder.
pub const OPTION_FILE: u32 = 0x40;
/// The object is deleted when it is closed.
pub const OPTION_DELETE_ON_CLOSE: u32 = 0x1000;
const ATTRIBUTE_NORMAL: u32 = 0x80;
const IMPERSONATION: u32 = 2;
const NAME_AT: u16 = 120;

/// Accesses that other opens of the file may have meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing(pub u32);

impl Sharing {
    /// No other open.
    pub const NONE: Sharing = Sharing(0);
    /// Opens for reading.
    pub const READ: Sharing = Sharing(1);
    /// All opens, also for writing and deleting.
    pub const ALL: Sharing = Sharing(7);
}

/// A CREATE request, without an oplock and without create contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// Path below the share.
    pub path: Path,
    /// Rights requested.
    pub access: Access,
    /// Accesses of others.
    pub sharing: Sharing,
    /// Action.
    pub disposition: Disposition,
    /// `OPTION_*`.
    pub options: u32,
}

impl CreateRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let name = self.path.as_bytes();
        let attributes = match self.options & OPTION_DIRECTORY {
            0 => ATTRIBUTE_NORMAL,
            _ => ATTRIBUTE_DIRECTORY,
        };
        Emit(out)
            .u16(57)
            .u8(0)
            .u8(0)
            .u32(IMPERSONATION)
            .u64(0)
            .u64(0)
            .u32(self.access.0)
            .u32(attributes)
            .u32(self.sharing.0)
            .u32(self.disposition as u32)
            .u32(self.options)
            .u16(NAME_AT)
            .u16(name.len() as u16)
            .u32(0)
            .u32(0)
            .buffer(name);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message, or the disposition is unknown.
    pub fn parse(message: &[u8]) -> Result<CreateRequest, WireError> {
        let fields = Fields(message);
        fields.structure(57)?;
        let (at, length) = (fields.u16(108)?, fields.u16(110)?);
        let disposition = match fields.u32(100)? {
            0 => Disposition::Supersede,
            1 => Disposition::Open,
            2 => Disposition::Create,
            3 => Disposition::OpenIf,
            4 => Disposition::Overwrite,
            5 => Disposition::OverwriteIf,
            _ => return Err(WireError::Invalid("unknown disposition")),
        };
        Ok(CreateRequest {
            path: Path::from_utf16_bytes(fields.buffer(at.into(), length.into())?),
            access: Access(fields.u32(88)?),
            sharing: Sharing(fields.u32(96)?),
            disposition,
            options: fields.u32(104)?,
        })
    }
}

/// Times, sizes and attributes of a file. Times are in 100 ns from 1601-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Creation.
    pub created: u64,
    /// Last access.
    pub accessed: u64,
    /// Last change of the data.
    pub written: u64,
    /// Last change of data or attributes.
    pub changed: u64,
    /// Space allocated, bytes.
    pub allocated_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u64,
    /// `ATTRIBUTE_*`.
    pub attributes: u32,
}

impl FileFacts {
    /// Returns whether the object is a folder.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes & ATTRIBUTE_DIRECTORY != 0
    }

    /// Appends the fields in the order of CREATE, CLOSE and FileNetworkOpenInformation.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .u64(self.created)
            .u64(self.accessed)
            .u64(self.written)
            .u64(self.changed)
            .u64(self.allocated_bytes)
            .u64(self.length_bytes)
            .u32(self.attributes);
    }

    pub(super) fn parse(fields: Fields<'_>, at: usize) -> Result<FileFacts, WireError> {
        Ok(FileFacts {
            created: fields.u64(at)?,
            accessed: fields.u64(at + 8)?,
            written: fields.u64(at + 16)?,
            changed: fields.u64(at + 24)?,
            allocated_bytes: fields.u64(at + 32)?,
            length_bytes: fields.u64(at + 40)?,
            attributes: fields.u32(at + 48)?,
        })
    }
}

/// A CREATE response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateResponse {
    /// Action taken: 0 superseded, 1 opened, 2 created, 3 overwritten.
    pub action: u32,
    /// Times, sizes and attributes.
    pub facts: FileFacts,
    /// Number of the open file.
    pub file: FileId,
}

impl CreateResponse {
    /// Appends the body. For servers in tests.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out).u16(89).u16(0).u32(self.action);
        self.facts.emit(out);
        Emit(out).u32(0).bytes(&self.file.0).u32(0).u32(0);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<CreateResponse, WireError> {
        let fields = Fields(message);
        fields.structure(89)?;
        Ok(CreateResponse {
            action: fields.u32(68)?,
            facts: FileFacts::parse(fields, 72)?,
            file: FileId(fields.array(128)?),
        })
    }
}
