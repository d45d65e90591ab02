//! Parameter data of logical block provisioning: the list of UNMAP and the answer of GET LBA STATUS
//! (SBC-3 sections 5.28 and 5.6).
use super::Sense;
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// A range of consecutive blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
}

const UNMAP_HEADER: usize = 8;
const UNMAP_DESCRIPTOR: usize = 16;

/// Reads an UNMAP parameter list, whose descriptors follow a header of 8 bytes. An empty list
/// unmaps nothing.
///
/// # Errors
/// The sense data of a list shorter than its stated lengths or with more than `descriptors_max`
/// ranges. `bytes` has the length stated in the CDB; both lengths in the header are checked against
/// it.
pub fn parse_unmap_list(bytes: &[u8], descriptors_max: usize) -> Result<Vec<Blocks>, Sense> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let Some((header, rest)) = bytes.split_at_checked(UNMAP_HEADER) else {
        return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
    };
    let data_length = usize::from(u16_at(header, 0));
    // An incomplete descriptor is ignored (SBC-3 section 5.28.2).
    let descriptors = usize::from(u16_at(header, 2)) / UNMAP_DESCRIPTOR;
    let described = descriptors * UNMAP_DESCRIPTOR;
    if described > rest.len() || described + UNMAP_HEADER - 2 > data_length {
        return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
    }
    if descriptors > descriptors_max {
        return Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
    }
    let descriptors = rest[..described].chunks_exact(UNMAP_DESCRIPTOR);
    Ok(descriptors
        .map(|descriptor| Blocks {
            lba: u64_at(descriptor, 0),
            blocks: u32_at(descriptor, 8),
        })
        .collect())
}

/// Writes an UNMAP parameter list.
///
/// # Panics
/// Panics if there are more than 4095 ranges: the length of the list has 16 bits.
pub fn emit_unmap_list(ranges: &[Blocks]) -> Vec<u8> {
    let described = ranges.len() * UNMAP_DESCRIPTOR;
    let mut out = vec![0; UNMAP_HEADER + described];
    let length = u16::try_from(described + UNMAP_HEADER - 2).expect("at most 4095 ranges");
    put_u16(&mut out, 0, length);
    put_u16(&mut out, 2, described as u16);
    for (descriptor, range) in out[UNMAP_HEADER..]
        .chunks_exact_mut(UNMAP_DESCRIPTOR)
        .zip(ranges)
    {
        put_u64(descriptor, 0, range.lba);
        put_u32(descriptor, 8, range.blocks);
    }
    out
}

/// PROVISIONING STATUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ProvisioningStatus {
    /// Mapped: space is allocated.
    #[default]
    Mapped = 0,
    /// No space is allocated.
    Deallocated = 1,
    /// No space is allocated, but space is reserved.
    Anchored = 2,
}

/// Blocks of one status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LbaStatus {
    /// Blocks.
    pub range: Blocks,
    /// Status of all these blocks.
    pub status: ProvisioningStatus,
}

/// Writes the answer to GET LBA STATUS: 8 bytes, and 16 for each descriptor.
pub fn emit_lba_status(descriptors: &[LbaStatus]) -> Vec<u8> {
    let mut out = vec![0; 8 + 16 * descriptors.len()];
    let length = out.len() as u32 - 4;
    put_u32(&mut out, 0, length);
    for (bytes, descriptor) in out[8..].chunks_exact_mut(16).zip(descriptors) {
        put_u64(bytes, 0, descriptor.range.lba);
        put_u32(bytes, 8, descriptor.range.blocks);
        bytes[12] = descriptor.status as u8;
    }
    out
}

/// Reads the complete descriptors of an answer to GET LBA STATUS, within its stated length. An
/// unknown status counts as mapped.
pub fn parse_lba_status(bytes: &[u8]) -> Vec<LbaStatus> {
    let Some((header, rest)) = bytes.split_at_checked(8) else {
        return Vec::new();
    };
    let stated_length = (u32_at(header, 0) as usize).saturating_sub(4);
    let descriptors = rest[..rest.len().min(stated_length)].chunks_exact(16);
    descriptors
        .map(|bytes| LbaStatus {
            range: Blocks {
                lba: u64_at(bytes, 0),
                blocks: u32_at(bytes, 8),
            },
            status: match bytes[12] & 0x0f {
                1 => ProvisioningStatus::Deallocated,
                2 => ProvisioningStatus::Anchored,
                _ => ProvisioningStatus::Mapped,
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<Blocks>> {
        let range = any::<(u64, u32)>().prop_map(|(lba, blocks)| Blocks { lba, blocks });
        proptest::collection::vec(range, 0..20)
    }

    proptest! {
        #[test]
        fn unmap_lists_survive_a_round_trip_and_never_exceed_their_limit(ranges in ranges()) {
            let bytes = emit_unmap_list(&ranges);
            prop_assert_eq!(parse_unmap_list(&bytes, ranges.len()), Ok(ranges.clone()));
            if let Some(fewer) = ranges.len().checked_sub(1) {
                prop_assert_eq!(parse_unmap_list(&bytes, fewer), Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST));
            }
        }

        #[test]
        fn a_truncated_unmap_list_is_refused(ranges in ranges(), cut in 1usize..400) {
            let bytes = emit_unmap_list(&ranges);
            let left = bytes.len().saturating_sub(cut);
            if left > 0 && !ranges.is_empty() {
                prop_assert_eq!(parse_unmap_list(&bytes[..left], 20), Err(Sense::PARAMETER_LIST_LENGTH_ERROR));
            }
        }

        #[test]
        fn invalid_lists_never_panic_and_yield_no_more_than_they_hold(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(ranges) = parse_unmap_list(&bytes, usize::MAX) {
                prop_assert!(ranges.len() * 16 <= bytes.len());
            }
            prop_assert!(parse_lba_status(&bytes).len() * 16 <= bytes.len());
        }
    }

    #[test]
    fn lba_status_is_laid_out_as_in_sbc() {
        let descriptors = [
            LbaStatus {
                range: Blocks { lba: 5, blocks: 3 },
                status: ProvisioningStatus::Mapped,
            },
            LbaStatus {
                range: Blocks { lba: 8, blocks: 2 },
                status: ProvisioningStatus::Deallocated,
            },
        ];
        let bytes = emit_lba_status(&descriptors);
        assert_eq!(bytes[..8], [0, 0, 0, 36, 0, 0, 0, 0]);
        assert_eq!(
            bytes[24..],
            [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 2, 1, 0, 0, 0]
        );
        assert_eq!(parse_lba_status(&bytes), descriptors);
        assert_eq!(parse_lba_status(&bytes[..30]), descriptors[..1]);
    }
}
