//! Identifying information of a device (SPC-4 sections 5.6 and 6.32): texts that administrators give
//! to a logical unit.
use crate::octets::{put_u16, u16_at};

/// Kind of identifying information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IdentifyingKind {
    /// Peripheral device identifying information: any bytes.
    Device = 0x00,
    /// Peripheral device text identifying information: UTF-8 with a null byte at its end.
    Text = 0x02,
}

impl IdentifyingKind {
    /// All kinds, ascending by code.
    pub const ALL: [IdentifyingKind; 2] = [IdentifyingKind::Device, IdentifyingKind::Text];

    /// INFORMATION TYPE that requests the list of the supported kinds.
    pub const SUPPORTED: u8 = 0x7f;

    /// Returns the kind with this INFORMATION TYPE.
    #[must_use]
    pub fn from_code(code: u8) -> Option<IdentifyingKind> {
        let mut all = IdentifyingKind::ALL.into_iter();
        all.find(|kind| *kind as u8 == code)
    }

    /// Returns the longest information of the kind that SPC-4 admits, bytes.
    #[must_use]
    pub const fn bytes_max(self) -> u16 {
        match self {
            IdentifyingKind::Device => 512,
            IdentifyingKind::Text => 256,
        }
    }

    /// Whether bytes have the format of the kind. No bytes remove the information, and always do.
    #[must_use]
    pub fn admits(self, information: &[u8]) -> bool {
        match (self, information) {
            (IdentifyingKind::Device, _) | (_, []) => true,
            (IdentifyingKind::Text, [text @ .., 0]) => {
                !text.contains(&0) && std::str::from_utf8(text).is_ok()
            }
            (IdentifyingKind::Text, _) => false,
        }
    }
}

/// Bytes before information or a list of kinds.
const HEAD_BYTES: usize = 4;

/// Writes the answer of REPORT IDENTIFYING INFORMATION with information of at most 65 535 bytes.
#[must_use]
pub fn emit_identifying(information: &[u8]) -> Vec<u8> {
    let mut out = vec![0; HEAD_BYTES];
    put_u16(&mut out, 2, information.len() as u16);
    out.extend_from_slice(information);
    out
}

/// Writes the answer of REPORT IDENTIFYING INFORMATION that lists all kinds and their longest
/// information.
#[must_use]
pub fn emit_supported_identifying() -> Vec<u8> {
    let list = IdentifyingKind::ALL.iter().flat_map(|kind| {
        let [high, low] = kind.bytes_max().to_be_bytes();
        [(*kind as u8) << 1, 0, high, low]
    });
    emit_identifying(&list.collect::<Vec<u8>>())
}

/// Returns the received part of the information in an answer.
#[must_use]
pub fn parse_identifying(bytes: &[u8]) -> &[u8] {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        return &[];
    };
    &rest[..rest.len().min(usize::from(u16_at(head, 2)))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_laid_out_as_in_spc() {
        assert_eq!(emit_identifying(&[]), [0; 4]);
        assert_eq!(emit_identifying(b"ab"), [0, 0, 0, 2, b'a', b'b']);
        let supported = [0, 0, 0, 8, 0, 0, 2, 0, 4, 0, 1, 0];
        assert_eq!(emit_supported_identifying(), supported);
    }

    #[test]
    fn truncated_answer_has_the_information_that_was_received() {
        let answer = emit_identifying(b"name");
        for length in 0..=answer.len() {
            let received = parse_identifying(&answer[..length]);
            assert_eq!(received, &b"name"[..length.saturating_sub(HEAD_BYTES)]);
        }
        // Bytes after the information.
        assert_eq!(parse_identifying(&[0, 0, 0, 1, 7, 8]), [7]);
    }

    #[test]
    fn text_is_utf_8_with_one_null_byte_at_its_end() {
        let admits = |text: &[u8]| IdentifyingKind::Text.admits(text);
        for text in [&b""[..], b"\0", b"drive 1\0", "ドライブ\0".as_bytes()] {
            assert!(admits(text), "{text:02x?}");
        }
        for text in [
            &b"drive 1"[..],
            b"a\0b\0",
            b"a\0\0",
            b"\xff\0",
            b"\xe3\x83\0",
        ] {
            assert!(!admits(text), "{text:02x?}");
            assert!(IdentifyingKind::Device.admits(text));
        }
    }

    #[test]
    fn kinds_are_found_by_their_codes() {
        let known = (0..=u8::MAX).filter_map(IdentifyingKind::from_code);
        assert_eq!(known.collect::<Vec<_>>(), IdentifyingKind::ALL);
    }
}
