//! QUERY_DIRECTORY, QUERY_INFO and SET_INFO with the information classes in use (MS-SMB2 sections
//! 2.2.33 to 2.2.40, MS-FSCC sections 2.4 and 2.5).
use super::create::{FileFacts, FileId};
use super::fields::{Emit, Fields, WireError};
use super::name::{Path, from_utf16, utf16};

const TYPE_FILE: u8 = 1;
const TYPE_FILE_SYSTEM: u8 = 2;
/// FileDirectoryInformation.
const CLASS_DIRECTORY: u8 = 1;
/// FileNetworkOpenInformation.
const CLASS_NETWORK_OPEN: u8 = 34;
/// FileFsFullSizeInformation.
const CLASS_FULL_SIZE: u8 = 7;
const CLASS_RENAME: u8 = 10;
const CLASS_DISPOSITION: u8 = 13;
const CLASS_END_OF_FILE: u8 = 20;
/// The listing begins again.
const FLAG_RESTART: u8 = 1;

/// A QUERY_DIRECTORY request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryDirectoryRequest {
    /// Folder.
    pub file: FileId,
    /// Pattern with `*` and `?`. The server uses that of the first request of a listing.
    pub pattern: String,
    /// Whether the listing begins again.
    pub restart: bool,
    /// Limit of the answer, bytes.
    pub length_max: u32,
}

impl QueryDirectoryRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let pattern = utf16(&self.pattern);
        Emit(out)
            .u16(33)
            .u8(CLASS_DIRECTORY)
            .u8(if self.restart { FLAG_RESTART } else { 0 })
            .u32(0)
            .bytes(&self.file.0)
            .u16(96)
            .u16(pattern.len() as u16)
            .u32(self.length_max)
            .buffer(&pattern);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message, or the class is another one.
    pub fn parse(message: &[u8]) -> Result<QueryDirectoryRequest, WireError> {
        let fields = Fields(message);
        fields.structure(33)?;
        if fields.u8(66)? != CLASS_DIRECTORY {
            return Err(WireError::Invalid("unknown class of information"));
        }
        let (at, length) = (fields.u16(88)?, fields.u16(90)?);
        Ok(QueryDirectoryRequest {
            file: FileId(fields.array(72)?),
            pattern: from_utf16(fields.buffer(at.into(), length.into())?),
            restart: fields.u8(67)? & FLAG_RESTART != 0,
            length_max: fields.u32(92)?,
        })
    }
}

/// Returns the buffer of a QUERY_DIRECTORY or QUERY_INFO response with its header.
///
/// # Errors
/// The buffer is outside the message.
pub fn parse_buffer_response(message: &[u8]) -> Result<&[u8], WireError> {
    let fields = Fields(message);
    fields.structure(9)?;
    fields.buffer(fields.u16(66)?.into(), fields.u32(68)? as usize)
}

/// Appends the body of a QUERY_DIRECTORY or QUERY_INFO response. For servers in tests.
pub fn emit_buffer_response(buffer: &[u8], out: &mut Vec<u8>) {
    let length = buffer.len() as u32;
    Emit(out).u16(9).u16(72).u32(length).buffer(buffer);
}

/// A file or folder of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name, without its folder.
    pub name: String,
    /// Times, sizes and attributes.
    pub facts: FileFacts,
}

/// Parses the entries of an answer to QUERY_DIRECTORY (FileDirectoryInformation). The entries `.`
/// and `..` are left out.
///
/// # Errors
/// An entry is outside the buffer, reaches into the next one, or does not lead to a later one.
pub fn parse_entries(mut buffer: &[u8]) -> Result<Vec<DirectoryEntry>, WireError> {
    let mut entries = Vec::new();
    while !buffer.is_empty() {
        let fields = Fields(buffer);
        let next = fields.u32(0)? as usize;
        let name_length = fields.u32(60)? as usize;
        // Names that overlap would take more memory than the response.
        if next >= 64 && name_length > next - 64 {
            return Err(WireError::Invalid(
                "a name in a listing reaches into the next entry",
            ));
        }
        let name = from_utf16(fields.slice(64, name_length)?);
        let facts = FileFacts {
            created: fields.u64(8)?,
            accessed: fields.u64(16)?,
            written: fields.u64(24)?,
            changed: fields.u64(32)?,
            length_bytes: fields.u64(40)?,
            allocated_bytes: fields.u64(48)?,
            attributes: fields.u32(56)?,
        };
        // A name with a separator would lead out of the folder.
        if name.contains(['\\', '/', '\0']) {
            return Err(WireError::Invalid("a name in a listing has a separator"));
        }
        if name != "." && name != ".." {
            entries.push(DirectoryEntry { name, facts });
        }
        buffer = match next {
            0 => &[],
            1..64 => return Err(WireError::Invalid("NextEntryOffset leads into its entry")),
            _ => fields.slice(next, buffer.len().saturating_sub(next).max(1))?,
        };
    }
    Ok(entries)
}

/// Appends entries as FileDirectoryInformation. For servers in tests.
pub fn emit_entries(entries: &[DirectoryEntry], out: &mut Vec<u8>) {
    for (n, entry) in entries.iter().enumerate() {
        let name = utf16(&entry.name);
        let length = (64 + name.len()).next_multiple_of(8);
        let next = if n + 1 < entries.len() { length } else { 0 };
        let facts = &entry.facts;
        Emit(out)
            .u32(next as u32)
            .u32(0)
            .u64(facts.created)
            .u64(facts.accessed)
            .u64(facts.written)
            .u64(facts.changed)
            .u64(facts.length_bytes)
            .u64(facts.allocated_bytes)
            .u32(facts.attributes)
            .u32(name.len() as u32)
            .bytes(&name);
        if next > 0 {
            Emit(out).zeros(length - 64 - name.len());
        }
    }
}

/// Information that QUERY_INFO requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Times, sizes and attributes of a file.
    File,
    /// Space of the file system of a share.
    Space,
}

/// Space of a file system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size.
    pub total_bytes: u64,
    /// Space that the user may still use.
    pub available_bytes: u64,
}

/// Appends the body of a QUERY_INFO.
pub fn emit_query_info(file: FileId, query: Query, out: &mut Vec<u8>) {
    let (info_type, class, length) = match query {
        Query::File => (TYPE_FILE, CLASS_NETWORK_OPEN, 56),
        Query::Space => (TYPE_FILE_SYSTEM, CLASS_FULL_SIZE, 32),
    };
    Emit(out)
        .u16(41)
        .u8(info_type)
        .u8(class)
        .u32(length)
        .u16(104)
        .u16(0)
        .u32(0)
        .u32(0)
        .u32(0)
        .bytes(&file.0)
        .u8(0);
}

/// Returns file and query of a QUERY_INFO with its header.
///
/// # Errors
/// The message is too short, or requests other information.
pub fn parse_query_info(message: &[u8]) -> Result<(FileId, Query), WireError> {
    let fields = Fields(message);
    fields.structure(41)?;
    let query = match (fields.u8(66)?, fields.u8(67)?) {
        (TYPE_FILE, CLASS_NETWORK_OPEN) => Query::File,
        (TYPE_FILE_SYSTEM, CLASS_FULL_SIZE) => Query::Space,
        _ => return Err(WireError::Invalid("unknown class of information")),
    };
    Ok((FileId(fields.array(88)?), query))
}

/// Parses FileNetworkOpenInformation.
///
/// # Errors
/// The buffer is too short.
pub fn parse_facts(buffer: &[u8]) -> Result<FileFacts, WireError> {
    FileFacts::parse(Fields(buffer), 0)
}

/// Appends FileNetworkOpenInformation. For servers in tests.
pub fn emit_facts(facts: &FileFacts, out: &mut Vec<u8>) {
    facts.emit(out);
    Emit(out).u32(0);
}

/// Parses FileFsFullSizeInformation. Sizes saturate.
///
/// # Errors
/// The buffer is too short.
pub fn parse_space(buffer: &[u8]) -> Result<Space, WireError> {
    let fields = Fields(buffer);
    let unit = u64::from(fields.u32(24)?).saturating_mul(fields.u32(28)?.into());
    Ok(Space {
        total_bytes: fields.u64(0)?.saturating_mul(unit),
        available_bytes: fields.u64(8)?.saturating_mul(unit),
    })
}

/// A change that SET_INFO makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Moves the file to another path below the share.
    Rename {
        /// New path.
        to: Path,
        /// Whether an existing file is replaced.
        replace: bool,
    },
    /// Deletes the file when it is closed.
    Delete,
    /// Truncates or extends the file.
    Length {
        /// New length, bytes.
        bytes: u64,
    },
}

/// Appends the body of a SET_INFO.
pub fn emit_set_info(file: FileId, change: &Change, out: &mut Vec<u8>) {
    let mut buffer = Vec::new();
    let class = match change {
        Change::Rename { to, replace } => {
            let name = to.as_bytes();
            Emit(&mut buffer)
                .u8((*replace).into())
                .zeros(15)
                .u32(name.len() as u32)
                .bytes(name);
            // Windows requires at least 24 bytes, even for a short name.
            buffer.resize(buffer.len().max(24), 0);
            CLASS_RENAME
        }
        Change::Delete => {
            buffer.push(1);
            CLASS_DISPOSITION
        }
        Change::Length { bytes } => {
            buffer.extend(bytes.to_le_bytes());
            CLASS_END_OF_FILE
        }
    };
    Emit(out)
        .u16(33)
        .u8(TYPE_FILE)
        .u8(class)
        .u32(buffer.len() as u32)
        .u16(96)
        .u16(0)
        .u32(0)
        .bytes(&file.0)
        .bytes(&buffer);
}

/// Returns file and change of a SET_INFO with its header.
///
/// # Errors
/// A field is outside the message, or the change is another one.
pub fn parse_set_info(message: &[u8]) -> Result<(FileId, Change), WireError> {
    let fields = Fields(message);
    fields.structure(33)?;
    let buffer = fields.buffer(fields.u16(72)?.into(), fields.u32(68)? as usize)?;
    let inner = Fields(buffer);
    let change = match fields.u8(67)? {
        CLASS_RENAME => Change::Rename {
            to: Path::from_utf16_bytes(inner.slice(20, inner.u32(16)? as usize)?),
            replace: inner.u8(0)? != 0,
        },
        CLASS_DISPOSITION => Change::Delete,
        CLASS_END_OF_FILE => Change::Length {
            bytes: inner.u64(0)?,
        },
        _ => return Err(WireError::Invalid("unknown change")),
    };
    Ok((FileId(fields.array(80)?), change))
}

/// Appends the body of a SET_INFO response. For servers in tests.
pub fn emit_set_info_response(out: &mut Vec<u8>) {
    Emit(out).u16(2);
}
