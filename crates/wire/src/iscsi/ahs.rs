//! Additional Header Segments (RFC 7143 section 11.2.2): at most 1020 bytes between BHS and data.
use super::{BHS_LENGTH, WireError};
use crate::octets::{put_u16, u16_at, u32_at};

/// Maximum length of all segments of one PDU, bytes.
pub const AHS_LENGTH_MAX: usize = 255 * 4;

/// One additional header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahs<'a> {
    /// CDB bytes from the 17th on: 1 to 244 of them, padding not included.
    ExtendedCdb(&'a [u8]),
    /// Expected read data transfer length of a bidirectional command, bytes.
    BidirectionalReadLength(u32),
    /// A segment of a type that RFC 7143 does not define.
    Unknown {
        /// AHSType.
        kind: u8,
        /// AHS-specific bytes.
        bytes: &'a [u8],
    },
}

const EXTENDED_CDB: u8 = 1;
const BIDIRECTIONAL_READ_LENGTH: u8 = 2;

/// Iterates over the segments of one PDU, at most 255. A segment longer than the remaining bytes
/// ends the iteration with an error.
pub fn parse_all(bytes: &[u8]) -> impl Iterator<Item = Result<Ahs<'_>, WireError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parsed = parse_first(rest);
        rest = match parsed {
            Ok((_, used)) => &rest[used..],
            Err(_) => &[],
        };
        Some(parsed.map(|(ahs, _)| ahs))
    })
}

/// Returns the first segment of `bytes` and its length in bytes, padding included.
///
/// AHSLength counts the bytes after AHSType without padding. The AHS-specific part begins at byte
/// 3, or at byte 4 after a reserved byte in the two types that are defined; AHSLength counts that
/// reserved byte.
fn parse_first(bytes: &[u8]) -> Result<(Ahs<'_>, usize), WireError> {
    if bytes.len() < 4 {
        return Err(WireError::Short("additional header segment"));
    }
    let kind = bytes[2];
    let end = 3 + usize::from(u16_at(bytes, 0));
    let body = bytes
        .get(3..end)
        .ok_or(WireError::Short("additional header segment"))?;
    let ahs = match (kind, body) {
        (EXTENDED_CDB, [_reserved, cdb @ ..]) if !cdb.is_empty() => Ahs::ExtendedCdb(cdb),
        (BIDIRECTIONAL_READ_LENGTH, [_reserved, length @ ..]) if length.len() == 4 => {
            Ahs::BidirectionalReadLength(u32_at(length, 0))
        }
        (EXTENDED_CDB | BIDIRECTIONAL_READ_LENGTH, _) => return Err(WireError::Field("AHSLength")),
        _ => Ahs::Unknown { kind, bytes: body },
    };
    Ok((ahs, end.next_multiple_of(4).min(bytes.len())))
}

/// Writes TotalAHSLength into a header that a repr has emitted.
///
/// # Panics
/// Panics if `length` (bytes, padding included) is not a multiple of 4 or is above 1020.
pub fn emit_total_length(out: &mut [u8; BHS_LENGTH], length: usize) {
    assert!(
        length.is_multiple_of(4) && length <= AHS_LENGTH_MAX,
        "TotalAHSLength cannot encode {length} bytes"
    );
    out[4] = (length / 4) as u8;
}

impl Ahs<'_> {
    /// Appends the segment, padded to four bytes.
    ///
    /// # Panics
    /// Panics if the body is longer than 1016 bytes, which no PDU can carry.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 3]);
        let kind = match self {
            Ahs::ExtendedCdb(cdb) => {
                out.push(0);
                out.extend_from_slice(cdb);
                EXTENDED_CDB
            }
            Ahs::BidirectionalReadLength(length) => {
                out.push(0);
                out.extend_from_slice(&length.to_be_bytes());
                BIDIRECTIONAL_READ_LENGTH
            }
            Ahs::Unknown { kind, bytes } => {
                out.extend_from_slice(bytes);
                *kind
            }
        };
        let length = out.len() - begin - 3;
        assert!(
            length <= 1017,
            "an additional header segment of {length} bytes does not fit a PDU"
        );
        put_u16(out, begin, length as u16);
        out[begin + 2] = kind;
        out.resize(begin + (3 + length).next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_survive_a_round_trip_side_by_side() {
        let all = [
            Ahs::ExtendedCdb(&[1, 2, 3, 4, 5]),
            Ahs::BidirectionalReadLength(65_536),
            Ahs::Unknown {
                kind: 9,
                bytes: &[7; 6],
            },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|ahs| ahs.emit(&mut bytes));
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(
            parse_all(&bytes).collect::<Result<Vec<_>, _>>(),
            Ok(all.to_vec())
        );
    }

    #[test]
    fn bidirectional_length_lies_where_the_rfc_puts_it() {
        let mut bytes = Vec::new();
        Ahs::BidirectionalReadLength(0x0102_0304).emit(&mut bytes);
        assert_eq!(bytes, [0, 5, 2, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn segment_longer_than_the_bytes_ends_the_iteration() {
        for length in 0..=u16::MAX {
            let [high, low] = length.to_be_bytes();
            for kind in 0..4 {
                let mut bytes = [0u8; 64];
                bytes[..3].copy_from_slice(&[high, low, kind]);
                let walked: Vec<_> = parse_all(&bytes).collect();
                assert!(walked.len() <= 16, "{walked:?}");
                if usize::from(length) > 61 {
                    assert_eq!(walked, [Err(WireError::Short("additional header segment"))]);
                }
            }
        }
    }
}
