//! READ, WRITE, FLUSH and CLOSE (MS-SMB2 sections 2.2.15 to 2.2.22).
use std::ops::Range;

use super::create::{FileFacts, FileId};
use super::fields::{Emit, Fields, WireError};

/// Length of a READ response without its data, bytes.
pub const READ_HEAD_LENGTH: usize = 80;
/// Offset of the data of a READ response and of a WRITE request, bytes.
const READ_DATA_AT: u8 = READ_HEAD_LENGTH as u8;
const WRITE_DATA_AT: u16 = 112;

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// File.
    pub file: FileId,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
}

impl ReadRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .u16(49)
            .u8(READ_DATA_AT)
            .u8(0)
            .u32(self.length)
            .u64(self.offset)
            .bytes(&self.file.0)
            .zeros(16)
            .u8(0);
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<ReadRequest, WireError> {
        let fields = Fields(message);
        fields.structure(49)?;
        Ok(ReadRequest {
            file: FileId(fields.array(80)?),
            offset: fields.u64(72)?,
            length: fields.u32(68)?,
        })
    }
}

/// Appends the body of a READ response. For servers in tests.
pub fn emit_read_response(data: &[u8], out: &mut Vec<u8>) {
    let length = data.len() as u32;
    Emit(out)
        .u16(17)
        .u8(READ_DATA_AT)
        .u8(0)
        .u32(length)
        .u64(0)
        .buffer(data);
}

/// Returns the place of the data in a READ response of `length` bytes with its header. Only the
/// first [`READ_HEAD_LENGTH`] bytes are needed.
///
/// # Errors
/// The data is outside the message, or in its head.
pub fn parse_read_response(message: &[u8], length: usize) -> Result<Range<usize>, WireError> {
    let fields = Fields(message);
    fields.structure(17)?;
    let (at, count) = (usize::from(fields.u8(66)?), fields.u32(68)? as usize);
    if count == 0 {
        return Ok(0..0);
    }
    let end = at + count;
    if at < READ_HEAD_LENGTH {
        return Err(WireError::Invalid("the data of a read is in its header"));
    }
    if end > length {
        return Err(WireError::Truncated { end, length });
    }
    Ok(at..end)
}

/// A WRITE request without its data, which follows the body at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// File.
    pub file: FileId,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
}

impl WriteRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Emit(out)
            .u16(49)
            .u16(WRITE_DATA_AT)
            .u32(self.length)
            .u64(self.offset)
            .bytes(&self.file.0)
            .zeros(16);
    }

    /// Parses a message with its header. Returns the data, too.
    ///
    /// # Errors
    /// A field is outside the message.
    pub fn parse(message: &[u8]) -> Result<(WriteRequest, &[u8]), WireError> {
        let fields = Fields(message);
        fields.structure(49)?;
        let length = fields.u32(68)?;
        let data = fields.buffer(fields.u16(66)?.into(), length as usize)?;
        let request = WriteRequest {
            file: FileId(fields.array(80)?),
            offset: fields.u64(72)?,
            length,
        };
        Ok((request, data))
    }
}

/// Appends the body of a WRITE response. For servers in tests.
pub fn emit_write_response(count: u32, out: &mut Vec<u8>) {
    Emit(out).u16(17).u16(0).u32(count).zeros(8);
}

/// Returns the number of bytes written.
///
/// # Errors
/// The message is too short.
pub fn parse_write_response(message: &[u8]) -> Result<u32, WireError> {
    let fields = Fields(message);
    fields.structure(17)?;
    fields.u32(68)
}

/// Appends the body of a FLUSH.
pub fn emit_flush(file: FileId, out: &mut Vec<u8>) {
    Emit(out).u16(24).zeros(6).bytes(&file.0);
}

/// Appends the body of a CLOSE that requests no attributes.
pub fn emit_close(file: FileId, out: &mut Vec<u8>) {
    Emit(out).u16(24).zeros(6).bytes(&file.0);
}

/// Returns the file of a FLUSH or a CLOSE with its header.
///
/// # Errors
/// The message is too short.
pub fn parse_file(message: &[u8]) -> Result<FileId, WireError> {
    let fields = Fields(message);
    fields.structure(24)?;
    Ok(FileId(fields.array(72)?))
}

/// Appends the body of a CLOSE response. For servers in tests.
pub fn emit_close_response(out: &mut Vec<u8>) {
    Emit(out).u16(60).zeros(6);
    FileFacts::default().emit(out);
}

/// Checks a CLOSE response.
///
/// # Errors
/// The message is too short.
pub fn parse_close_response(message: &[u8]) -> Result<(), WireError> {
    let fields = Fields(message);
    fields.structure(60)?;
    FileFacts::parse(fields, 72).map(|_| ())
}
