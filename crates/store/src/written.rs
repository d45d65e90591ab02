//! Bitmap of the written granules of an LU in RAM.
use hakaru_scsi_device::Extent;

/// Allocation unit, bytes. It is a multiple of both logical block lengths, 512 and 4096.
pub const GRANULE_BYTES: u64 = 4096;
/// Granules per chunk of the map: 128 MiB.
const CHUNK_GRANULES: u64 = 1 << 15;
/// Words per chunk.
const CHUNK_WORDS: usize = (CHUNK_GRANULES / 64) as usize;

/// Bitmap with a bit for each granule, in chunks that exist only if one of their bits was set.
#[derive(Debug)]
pub(crate) struct Written {
    chunks: Vec<Option<Box<[u64; CHUNK_WORDS]>>>,
    /// Number of bits set.
    granules: u64,
}

impl Written {
    pub(crate) fn new(size_bytes: u64) -> Written {
        let chunks = size_bytes.div_ceil(CHUNK_GRANULES * GRANULE_BYTES);
        Written {
            chunks: (0..chunks).map(|_| None).collect(),
            granules: 0,
        }
    }

    /// Sets every granule that the range touches.
    pub(crate) fn set(&mut self, offset_bytes: u64, length_bytes: u64) {
        let first = offset_bytes / GRANULE_BYTES;
        let end = (offset_bytes + length_bytes).div_ceil(GRANULE_BYTES);
        for granule in first..end {
            let chunk = self.chunks[(granule / CHUNK_GRANULES) as usize]
                .get_or_insert_with(|| Box::new([0; CHUNK_WORDS]));
            let word = &mut chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let bit = 1 << (granule % 64);
            self.granules += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Clears every granule that lies completely in the range.
    pub(crate) fn clear(&mut self, offset_bytes: u64, length_bytes: u64) {
        let first = offset_bytes.div_ceil(GRANULE_BYTES);
        let end = (offset_bytes + length_bytes) / GRANULE_BYTES;
        for granule in first..end {
            let Some(chunk) = &mut self.chunks[(granule / CHUNK_GRANULES) as usize] else {
                continue;
            };
            let word = &mut chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let bit = 1 << (granule % 64);
            self.granules -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    fn is_set(&self, granule: u64) -> bool {
        self.chunks[(granule / CHUNK_GRANULES) as usize]
            .as_ref()
            .is_some_and(|chunk| {
                chunk[(granule % CHUNK_GRANULES / 64) as usize] >> (granule % 64) & 1 == 1
            })
    }

    /// Returns the bytes of the granules that are set.
    pub(crate) fn bytes(&self) -> u64 {
        self.granules * GRANULE_BYTES
    }

    /// Returns the first granule from `granule` on, before `end`, that is set (or clear, if not
    /// `set`); otherwise `end`.
    pub(crate) fn find(&self, mut granule: u64, end: u64, set: bool) -> u64 {
        while granule < end {
            let Some(chunk) = &self.chunks[(granule / CHUNK_GRANULES) as usize] else {
                if !set {
                    return granule;
                }
                granule = (granule / CHUNK_GRANULES + 1) * CHUNK_GRANULES;
                continue;
            };
            let word = chunk[(granule % CHUNK_GRANULES / 64) as usize];
            let wanted = (if set { word } else { !word }) >> (granule % 64);
            if wanted != 0 {
                return (granule + u64::from(wanted.trailing_zeros())).min(end);
            }
            granule = (granule / 64 + 1) * 64;
        }
        end
    }

    /// Returns the next allocated range from `at` on, before `end`, as (start, end); both `end` if
    /// no range is allocated. Searches at most `within_bytes` beyond its start.
    pub(crate) fn next(&self, at: u64, end: u64, within_bytes: u64) -> (u64, u64) {
        let last = end.div_ceil(GRANULE_BYTES);
        let first = self.find(at / GRANULE_BYTES, last, true);
        let bound = last.min(first + within_bytes / GRANULE_BYTES);
        let after = self.find(first, bound, false);
        let bytes = |granule: u64| (granule * GRANULE_BYTES).clamp(at, end);
        (bytes(first), bytes(after))
    }

    /// Returns consecutive extents from the start of the range, each with whether it is allocated.
    /// Neighbours differ.
    pub(crate) fn extents(&self, range: Extent, extents_max: usize) -> Vec<(Extent, bool)> {
        let end = range.offset_bytes + range.length_bytes;
        let last = end.div_ceil(GRANULE_BYTES);
        let mut extents = Vec::new();
        let mut at = range.offset_bytes;
        while at < end && extents.len() < extents_max {
            let granule = at / GRANULE_BYTES;
            let is_set = self.is_set(granule);
            let until = (self.find(granule, last, !is_set) * GRANULE_BYTES).min(end);
            let extent = Extent {
                offset_bytes: at,
                length_bytes: until - at,
            };
            extents.push((extent, is_set));
            at = until;
        }
        extents
    }
}
