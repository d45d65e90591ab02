//! An LU whose parts of equal length are volumes of a pool: the cartridges of a tape library.
use hakaru_pool::VolumeId;
use hakaru_scsi_device::{Extent, IoOp};

/// The volumes of an LU's parts.
#[derive(Debug)]
pub struct VolumeParts {
    pool: usize,
    page_bytes: u64,
    part_bytes: u64,
    volumes: Vec<VolumeId>,
}

impl VolumeParts {
    /// Creates the store of an LU of which each `part_bytes` bytes are in one of these volumes of a
    /// pool with pages of `page_bytes`.
    ///
    /// # Panics
    /// If `part_bytes` is 0.
    #[must_use]
    pub fn new(
        pool: usize,
        page_bytes: u32,
        part_bytes: u64,
        volumes: Vec<VolumeId>,
    ) -> VolumeParts {
        assert!(part_bytes > 0, "a part has a length");
        VolumeParts {
            pool,
            page_bytes: page_bytes.into(),
            part_bytes,
            volumes,
        }
    }

    /// Returns the number of the pool.
    #[must_use]
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// Returns the volumes.
    #[must_use]
    pub fn volumes(&self) -> &[VolumeId] {
        &self.volumes
    }

    /// Returns the volume of an access to one part, and the access to the volume. `None` if there
    /// is no such part, or the access is none of read, write, [`IoOp::FlushPart`] and UNMAP.
    pub(crate) fn locate(&self, mut op: IoOp) -> Option<(VolumeId, IoOp)> {
        let offset = match &mut op {
            IoOp::Read { offset_bytes, .. }
            | IoOp::Write { offset_bytes, .. }
            | IoOp::FlushPart { offset_bytes } => offset_bytes,
            IoOp::Unmap { ranges } => match ranges.as_mut_slice() {
                [range] => &mut range.offset_bytes,
                _ => return None,
            },
            _ => return None,
        };
        let volume = *self.volumes.get((*offset / self.part_bytes) as usize)?;
        *offset %= self.part_bytes;
        if let IoOp::Unmap { ranges } = &mut op {
            for range in &mut *ranges {
                *range = self.whole_pages(*range);
            }
            ranges.retain(|range| range.length_bytes > 0);
        }
        Some((volume, op))
    }

    /// Returns the whole pages of a range. The page with the end of data stays: its rest need not be
    /// zeros. The last page of the range has nothing behind it.
    fn whole_pages(&self, range: Extent) -> Extent {
        let end = range.offset_bytes + range.length_bytes;
        let first = range.offset_bytes.next_multiple_of(self.page_bytes);
        let end = end.next_multiple_of(self.page_bytes);
        Extent {
            offset_bytes: first,
            length_bytes: end - first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> VolumeParts {
        VolumeParts::new(0, 4096, 10_240, vec![VolumeId(3), VolumeId(5)])
    }

    #[test]
    fn an_access_goes_to_the_volume_of_its_part() {
        let parts = parts();
        let flush = |offset_bytes| IoOp::FlushPart { offset_bytes };
        assert_eq!(
            parts.locate(flush(10_239)),
            Some((VolumeId(3), flush(10_239)))
        );
        assert_eq!(parts.locate(flush(10_240)), Some((VolumeId(5), flush(0))));
        assert_eq!(parts.locate(flush(20_480)), None);
        assert_eq!(parts.locate(IoOp::Flush), None);
    }

    #[test]
    fn only_whole_pages_are_given_back() {
        let parts = parts();
        let unmapped = |first: u64, length_bytes| {
            let offset_bytes = 10_240 + first;
            let range = Extent {
                offset_bytes,
                length_bytes,
            };
            let ranges = vec![range];
            match parts.locate(IoOp::Unmap { ranges }) {
                Some((VolumeId(5), IoOp::Unmap { ranges })) => ranges,
                other => panic!("{other:?}"),
            }
        };
        let pages = |offset_bytes, length_bytes| {
            vec![Extent {
                offset_bytes,
                length_bytes,
            }]
        };
        assert_eq!(unmapped(512, 9000), pages(4096, 8192));
        assert_eq!(unmapped(4096, 512), pages(4096, 4096));
        assert!(unmapped(512, 512).is_empty());
    }
}
