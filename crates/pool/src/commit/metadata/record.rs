//! Records of the store: the pool, its groups, its volumes, and the leaves of their maps.

use super::frame::{Kind, Reader, RecordError, Writer};
use crate::alloc::group::Group;
use crate::map::{LEAF_ENTRIES, Leaf, PageId};
use crate::place::GroupId;
use crate::volume::{Volume, VolumeId};

/// The record of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identifier of the pool.
    pub uuid: [u8; 16],
    /// Page size, bytes.
    pub page_bytes: u32,
    /// Number of commits.
    pub generation: u64,
    /// Number of the next volume.
    pub volume_next: u32,
    /// Number of groups.
    pub groups: u16,
    /// Number of volumes.
    pub volumes: u32,
}

impl Superblock {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new(Kind::Superblock);
        writer.bytes(&self.uuid);
        writer.u32(self.page_bytes);
        writer.u64(self.generation);
        writer.u32(self.volume_next);
        writer.u16(self.groups);
        writer.u32(self.volumes);
        writer.finish()
    }

    pub(crate) fn parse(record: &[u8]) -> Result<Superblock, RecordError> {
        let mut reader = Reader::new(record, Kind::Superblock)?;
        let superblock = Superblock {
            uuid: reader.array()?,
            page_bytes: reader.u32()?,
            generation: reader.u64()?,
            volume_next: reader.u32()?,
            groups: reader.u16()?,
            volumes: reader.u32()?,
        };
        reader.finish()?;
        if !crate::config::page_bytes_are_valid(superblock.page_bytes) {
            return Err(RecordError::Field {
                field: "the page size",
            });
        }
        Ok(superblock)
    }
}

/// The record of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Name of the group.
    pub name: String,
    /// Total number of pages, including the header's.
    pub pages: u32,
}

impl GroupRecord {
    pub(crate) fn of(group: &Group) -> GroupRecord {
        GroupRecord {
            name: group.name.clone(),
            pages: group.pages(),
        }
    }

    pub(crate) fn emit(&self, id: GroupId) -> Vec<u8> {
        let mut writer = Writer::new(Kind::Group);
        writer.u16(id.0);
        writer.name(&self.name);
        writer.u32(self.pages);
        writer.finish()
    }

    pub(crate) fn parse(record: &[u8], id: GroupId) -> Result<GroupRecord, RecordError> {
        let mut reader = Reader::new(record, Kind::Group)?;
        if reader.u16()? != id.0 {
            return Err(RecordError::Kind);
        }
        let record = GroupRecord {
            name: reader.name()?,
            pages: reader.u32()?,
        };
        reader.finish()?;
        if record.pages < 2 {
            return Err(RecordError::Field { field: "its size" });
        }
        Ok(record)
    }
}

/// The record of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Name of the volume.
    pub name: String,
    /// Virtual size, bytes.
    pub size_bytes: u64,
    /// Quota, bytes.
    pub quota_bytes: Option<u64>,
    /// Whether the volume is a read-only snapshot.
    pub read_only: bool,
    /// The volume from which this one was copied.
    pub origin: Option<VolumeId>,
    /// The first volume in the chain of origins.
    pub family: VolumeId,
    /// Number of mapped pages: the sum over all leaves of the volume.
    pub mapped: u64,
}

impl VolumeRecord {
    pub(crate) fn of(volume: &Volume) -> VolumeRecord {
        VolumeRecord {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            quota_bytes: volume.quota_bytes,
            read_only: volume.read_only,
            origin: volume.origin,
            family: volume.family,
            mapped: volume.map.mapped(),
        }
    }

    pub(crate) fn emit(&self, id: VolumeId) -> Vec<u8> {
        let mut writer = Writer::new(Kind::Volume);
        writer.u32(id.0);
        writer.name(&self.name);
        writer.u64(self.size_bytes);
        writer.u8(self.quota_bytes.is_some().into());
        writer.u64(self.quota_bytes.unwrap_or(0));
        writer.u8(self.read_only.into());
        writer.u8(self.origin.is_some().into());
        writer.u32(self.origin.map_or(0, |origin| origin.0));
        writer.u32(self.family.0);
        writer.u64(self.mapped);
        writer.finish()
    }

    pub(crate) fn parse(record: &[u8], id: VolumeId) -> Result<VolumeRecord, RecordError> {
        let mut reader = Reader::new(record, Kind::Volume)?;
        if reader.u32()? != id.0 {
            return Err(RecordError::Kind);
        }
        let name = reader.name()?;
        let size_bytes = reader.u64()?;
        let has_quota = reader.flag("its quota")?;
        let quota_bytes = reader.u64()?;
        let read_only = reader.flag("its read-only flag")?;
        let has_origin = reader.flag("its origin")?;
        let origin = VolumeId(reader.u32()?);
        let family = VolumeId(reader.u32()?);
        let mapped = reader.u64()?;
        reader.finish()?;
        if !crate::config::size_is_valid(size_bytes) {
            return Err(RecordError::Field { field: "its size" });
        }
        Ok(VolumeRecord {
            name,
            size_bytes,
            quota_bytes: has_quota.then_some(quota_bytes),
            read_only,
            origin: has_origin.then_some(origin),
            family,
            mapped,
        })
    }
}

/// Bytes of the bitmap of a leaf's slots.
const BITMAP_BYTES: usize = LEAF_ENTRIES / 8;

/// Encodes a leaf: its volume and number, a bitmap of the mapped slots, and 6 bytes (group, page)
/// for each of them. At most 3.2 KB, so that it fits one page of redb.
pub(crate) fn emit_leaf(leaf: &Leaf, volume: VolumeId, index: u32) -> Vec<u8> {
    let mut writer = Writer::new(Kind::Leaf);
    writer.u32(volume.0);
    writer.u32(index);
    let mut bitmap = [0; BITMAP_BYTES];
    for (slot, _) in leaf.iter() {
        bitmap[slot / 8] |= 1 << (slot % 8);
    }
    writer.bytes(&bitmap);
    for (_, page) in leaf.iter() {
        writer.u16(page.group.0);
        writer.u32(page.page);
    }
    writer.finish()
}

pub(crate) fn parse_leaf(record: &[u8], volume: VolumeId, index: u32) -> Result<Leaf, RecordError> {
    let mut reader = Reader::new(record, Kind::Leaf)?;
    if (reader.u32()?, reader.u32()?) != (volume.0, index) {
        return Err(RecordError::Kind);
    }
    let bitmap: [u8; BITMAP_BYTES] = reader.array()?;
    let mut leaf = Leaf::default();
    for slot in (0..LEAF_ENTRIES).filter(|slot| bitmap[slot / 8] & (1 << (slot % 8)) != 0) {
        let page = PageId {
            group: GroupId(reader.u16()?),
            page: reader.u32()?,
        };
        if page.page == 0 {
            return Err(RecordError::Field {
                field: "a page's number",
            });
        }
        leaf.set(slot, Some(page));
    }
    reader.finish()?;
    if leaf.mapped() == 0 {
        return Err(RecordError::Field {
            field: "its number of pages",
        });
    }
    Ok(leaf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_survives_encoding_and_decoding() {
        let mut leaf = Leaf::default();
        for slot in 0..LEAF_ENTRIES {
            let page = PageId {
                group: GroupId(slot as u16),
                page: u32::MAX - slot as u32,
            };
            leaf.set(slot, Some(page));
        }
        leaf.set(3, None);
        let record = emit_leaf(&leaf, VolumeId(7), 9);
        assert!(
            record.len() < 3200,
            "{} bytes do not fit a page of redb",
            record.len()
        );
        assert_eq!(parse_leaf(&record, VolumeId(7), 9), Ok(leaf));
        assert_eq!(parse_leaf(&record, VolumeId(7), 8), Err(RecordError::Kind));
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_detected() {
        let record = VolumeRecord {
            name: "a".into(),
            size_bytes: 512,
            quota_bytes: None,
            read_only: true,
            origin: Some(VolumeId(1)),
            family: VolumeId(0),
            mapped: 3,
        };
        let bytes = record.emit(VolumeId(2));
        assert_eq!(VolumeRecord::parse(&bytes, VolumeId(2)), Ok(record));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                VolumeRecord::parse(&damaged, VolumeId(2)),
                Err(RecordError::Checksum)
            );
        }
    }

    #[test]
    fn a_newer_format_is_distinguished_from_damage() {
        let mut bytes = Writer::new(Kind::Superblock).finish();
        bytes.truncate(bytes.len() - 4);
        bytes[1] = 2;
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        assert_eq!(
            Superblock::parse(&bytes),
            Err(RecordError::Format { format: 2 })
        );
    }
}
