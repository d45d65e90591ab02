//! The frame of every record: format, kind and checksum; encoder and decoder of its fields.
//!
//! ```text
//! 0        2      3                     n-4      n
//! | format | kind | fields, big-endian  | CRC32C |
//! ```
//! In every format, the format number comes first and the checksum of all bytes before it comes
//! last, so that an older version can distinguish a newer pool from a damaged one.

/// The only format that this version writes and reads.
pub const FORMAT: u16 = 1;

/// Bytes of a record besides its fields.
pub(crate) const FRAME_BYTES: usize = 7;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Superblock = 1,
    Group = 2,
    Volume = 3,
    Leaf = 4,
    GroupHeader = 5,
}

/// Reason why a record is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The checksum is wrong, or the record is too short for one.
    #[error("its checksum is wrong")]
    Checksum,
    /// The record has a format that this version does not read.
    #[error("it has format {format}; this version reads format {FORMAT}")]
    Format {
        /// Format of the record.
        format: u16,
    },
    /// The checksum is right, but the record does not belong under this key.
    #[error("it does not belong under this key")]
    Kind,
    /// The checksum is right, but a field has an invalid value.
    #[error("{field} has an invalid value")]
    Field {
        /// Name of the field.
        field: &'static str,
    },
}

/// Encoder of a record.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: Kind) -> Writer {
        let mut writer = Writer(Vec::with_capacity(128));
        writer.u16(FORMAT);
        writer.0.push(kind as u8);
        writer
    }
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }
    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }
    pub(super) fn name(&mut self, name: &str) {
        self.u8(name.len() as u8);
        self.bytes(name.as_bytes());
    }
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = crc_fast::crc32_iscsi(&self.0);
        self.u32(sum);
        self.0
    }
}

/// Decoder of a record with valid checksum, format and kind.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(record: &'a [u8], kind: Kind) -> Result<Reader<'a>, RecordError> {
        if record.len() < FRAME_BYTES {
            return Err(RecordError::Checksum);
        }
        let (body, sum) = record.split_at(record.len() - 4);
        if crc_fast::crc32_iscsi(body).to_be_bytes() != sum {
            return Err(RecordError::Checksum);
        }
        let mut reader = Reader(body);
        let format = reader.u16()?;
        if format != FORMAT {
            return Err(RecordError::Format { format });
        }
        if reader.u8()? != kind as u8 {
            return Err(RecordError::Kind);
        }
        Ok(reader)
    }
    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordError::Field {
            field: "its length",
        })?;
        self.0 = rest;
        Ok(taken)
    }
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        Ok(self.take(N)?.try_into().expect("`take` returns N bytes"))
    }
    pub(crate) fn u8(&mut self) -> Result<u8, RecordError> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn u16(&mut self) -> Result<u16, RecordError> {
        Ok(u16::from_be_bytes(self.array()?))
    }
    pub(crate) fn u32(&mut self) -> Result<u32, RecordError> {
        Ok(u32::from_be_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, RecordError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RecordError::Field { field }),
        }
    }
    pub(super) fn name(&mut self) -> Result<String, RecordError> {
        let length = self.u8()?;
        let name = core::str::from_utf8(self.take(length.into())?).ok();
        name.filter(|name| crate::config::name_is_valid(name))
            .map(str::to_owned)
            .ok_or(RecordError::Field { field: "its name" })
    }
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(RecordError::Field {
                field: "its length",
            })
        }
    }
}
