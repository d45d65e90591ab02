//! REPORT LUNS parameter data (SPC-4 section 6.33).
use crate::iscsi::{Lun, WireError};
use crate::octets::{put_u32, u32_at, u64_at};

/// Writes the list: an eight-byte header, then eight bytes for each LUN.
///
/// # Panics
/// Panics if there are 2^29 LUNs or more.
pub fn emit_luns(luns: impl IntoIterator<Item = Lun>) -> Vec<u8> {
    let mut out = vec![0; 8];
    for lun in luns {
        out.extend_from_slice(&lun.0.to_be_bytes());
    }
    let length = u32::try_from(out.len() - 8).expect("fewer than 2^29 LUNs");
    put_u32(&mut out, 0, length);
    out
}

/// Reads the received part of the list, within its stated length. The second value is the number of
/// LUNs of the device, which is larger if the allocation length was too small.
///
/// # Errors
/// Fewer than eight bytes; a length that is not a multiple of eight.
pub fn parse_luns(bytes: &[u8]) -> Result<(Vec<Lun>, u32), WireError> {
    let (header, list) = bytes
        .split_at_checked(8)
        .ok_or(WireError::Short("REPORT LUNS data"))?;
    let length = u32_at(header, 0);
    if !length.is_multiple_of(8) {
        return Err(WireError::Field("LUN LIST LENGTH"));
    }
    let list = &list[..list.len().min(length as usize)];
    Ok((
        list.chunks_exact(8)
            .map(|lun| Lun(u64_at(lun, 0)))
            .collect(),
        length / 8,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_survive_a_round_trip_and_truncation(luns in proptest::collection::vec(any::<u64>().prop_map(Lun), 0..20), cut in 8usize..200) {
            let bytes = emit_luns(luns.iter().copied());
            let (read, total) = parse_luns(crate::scsi::truncated(&bytes, cut as u32)).unwrap();
            prop_assert_eq!(total as usize, luns.len());
            prop_assert_eq!(&read[..], &luns[..luns.len().min((cut - 8) / 8)]);
        }

        #[test]
        fn no_list_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_luns(&bytes);
        }
    }
}
