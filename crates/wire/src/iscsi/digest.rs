//! Padding and digests (RFC 7143 sections 11.2.3 and 13.1).
//!
//! A data segment is padded with zeros to four bytes, outside DataSegmentLength; its digest covers
//! the padding. A header digest covers BHS and AHS. Digests are CRC32C, sent least significant byte
//! first, as in the vectors of RFC 3720 appendix B.4 (which RFC 7143 keeps).

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::{Digest, crc32_iscsi};

/// Length of a digest in bytes.
pub const DIGEST_LENGTH: usize = 4;

/// Returns the number of padding bytes after a data segment of `length` bytes, 0 to 3.
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Returns the digest of a header (BHS and AHS together), as sent.
pub fn header_digest(header: &[u8]) -> [u8; DIGEST_LENGTH] {
    crc32_iscsi(header).to_le_bytes()
}

/// Digest of a data segment that arrives in pieces of any size.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataDigest {
    crc: u32,
    length: usize,
}

impl DataDigest {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc = append(self.crc, bytes);
        self.length += bytes.len();
    }

    /// Returns the digest of all pieces and of the padding after them, as sent.
    pub fn finish(self) -> [u8; DIGEST_LENGTH] {
        append(self.crc, &[0; 3][..padding(self.length)]).to_le_bytes()
    }
}

/// Returns the CRC32C `crc` extended by `bytes`. The CRC32C of no bytes is 0.
fn append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// Appends the padding and digest after a contiguous data segment, 0 to 7 bytes, to `out`.
pub fn emit_data_trailer(data: &[u8], with_digest: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 3][..padding(data.len())]);
    if with_digest {
        let mut digest = DataDigest::default();
        digest.update(data);
        out.extend_from_slice(&digest.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4.
    #[test]
    fn digests_match_the_vectors_of_the_rfc() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        let read_command = [
            0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0,
            0, 0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(header_digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(header_digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(header_digest(&ascending), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(header_digest(&descending), [0x5c, 0xdb, 0x3f, 0x11]);
        assert_eq!(header_digest(&read_command), [0x56, 0x3a, 0x96, 0xd9]);
    }

    #[test]
    fn data_digest_covers_the_padding_however_the_data_is_split() {
        for length in 0..40usize {
            let data: Vec<u8> = (0..length as u8).collect();
            let mut padded = data.clone();
            padded.resize(length + padding(length), 0);
            for cut in 0..=length {
                let mut digest = DataDigest::default();
                digest.update(&data[..cut]);
                digest.update(&data[cut..]);
                assert_eq!(digest.finish(), header_digest(&padded));
            }
            let mut trailer = Vec::new();
            emit_data_trailer(&data, true, &mut trailer);
            assert_eq!((data.len() + trailer.len()) % 4, 0);
            assert_eq!(trailer[trailer.len() - 4..], header_digest(&padded));
        }
    }
}
