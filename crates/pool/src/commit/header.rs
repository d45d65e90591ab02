//! The header of a group's file names its pool and group, so that files cannot be confused.
//!
//! Page 0 of each group holds two copies, at bytes 0 and 4096, and nothing else. Each opening of
//! the pool overwrites the older copy, so that a torn write leaves the other. `generation` is the
//! generation of the metadata at that time. Metadata older than a header has lost durable commits.

use std::io;

use crate::commit::metadata::frame::{FRAME_BYTES, Kind, Reader, RecordError, Writer};
use crate::disk::Disk;
use crate::place::GroupId;

/// Bytes between the copies.
const COPY_BYTES: u64 = 4096;

/// Smallest file that holds both copies, bytes.
pub(crate) const HEADERS_BYTES: u64 = 2 * COPY_BYTES;

/// The owner of a group's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Identifier of the pool.
    pub uuid: [u8; 16],
    /// Number of the group in the pool.
    pub group: GroupId,
    /// Page size, bytes.
    pub page_bytes: u32,
    /// Generation of the metadata when this header was written.
    pub generation: u64,
}

impl GroupHeader {
    fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new(Kind::GroupHeader);
        writer.bytes(&self.uuid);
        writer.u16(self.group.0);
        writer.u32(self.page_bytes);
        writer.u64(self.generation);
        let mut bytes = writer.finish();
        bytes.resize(512, 0);
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<GroupHeader, RecordError> {
        let mut reader = Reader::new(&bytes[..Self::record_bytes()], Kind::GroupHeader)?;
        let header = GroupHeader {
            uuid: reader.array()?,
            group: GroupId(reader.u16()?),
            page_bytes: reader.u32()?,
            generation: reader.u64()?,
        };
        reader.finish()?;
        Ok(header)
    }

    const fn record_bytes() -> usize {
        FRAME_BYTES + 16 + 2 + 4 + 8
    }

    /// Writes both copies and flushes, for a new group.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write_new(&self, disk: &dyn Disk) -> io::Result<()> {
        let bytes = self.emit();
        disk.write_at(0, &bytes)?;
        disk.write_at(COPY_BYTES, &bytes)?;
        disk.flush()
    }

    /// Overwrites the older copy and flushes.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn renew(&self, disk: &dyn Disk) -> io::Result<()> {
        let [first, second] = Self::copies(disk)?;
        let generation =
            |copy: Result<GroupHeader, RecordError>| copy.ok().map(|header| header.generation);
        let older = if generation(first) <= generation(second) {
            0
        } else {
            COPY_BYTES
        };
        disk.write_at(older, &self.emit())?;
        disk.flush()
    }

    /// Reads the newer intact copy.
    ///
    /// # Errors
    /// Errors of the disk. Returns `Ok(Err)` if neither copy is intact.
    pub fn read(disk: &dyn Disk) -> io::Result<Result<GroupHeader, RecordError>> {
        let [first, second] = Self::copies(disk)?;
        Ok(match (first, second) {
            (Ok(first), Ok(second)) if second.generation > first.generation => Ok(second),
            (Ok(first), _) => Ok(first),
            // A newer format is more informative than damage.
            (Err(_), Ok(second)) => Ok(second),
            (Err(first @ RecordError::Format { .. }), Err(_)) => Err(first),
            (Err(_), Err(second)) => Err(second),
        })
    }

    fn copies(disk: &dyn Disk) -> io::Result<[Result<GroupHeader, RecordError>; 2]> {
        let mut bytes = [0; 512];
        disk.read_at(0, &mut bytes)?;
        let first = GroupHeader::parse(&bytes);
        disk.read_at(COPY_BYTES, &mut bytes)?;
        Ok([first, GroupHeader::parse(&bytes)])
    }
}
