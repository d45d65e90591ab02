//! Lists of `key=value` pairs, each ended by NUL (RFC 7143 section 6.1): the data of login and text
//! PDUs.
//!
//! This file handles the form of the lists: limits are checked first, and nothing is copied. The
//! meaning and the values of keys are in [`super::keys`].

/// Longest key, bytes (RFC 7143 section 6.1).
pub const KEY_LENGTH_MAX: usize = 63;
/// Longest value, bytes. [`super::keys`] enforces the RFC's limit of 255 bytes for simple values.
/// Lists and binary values may be longer, up to this limit.
pub const VALUE_LENGTH_MAX: usize = 8192;
/// Longest text of one exchange, bytes, summed over all PDUs joined by the C bit.
pub const TEXT_LENGTH_MAX: usize = 64 * 1024;
/// Maximum number of PDUs joined by the C bit.
pub const SEQUENCE_LENGTH_MAX: usize = 16;

/// Errors of a list of `key=value` pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The last pair is not ended by NUL.
    #[error("text is not ended by NUL")]
    Unterminated,
    /// A pair contains no `=`.
    #[error("key without =")]
    MissingEquals,
    /// The key before `=` is empty.
    #[error("empty key")]
    EmptyKey,
    /// The key is longer than [`KEY_LENGTH_MAX`].
    #[error("key of more than 63 bytes")]
    KeyTooLong,
    /// The key does not begin with a capital letter, or holds something other than letters, digits
    /// and `.-+@_`.
    ///
    /// A lower-case first letter is accepted too, because the RFC's own key `iSCSIProtocolLevel`
    /// has one.
    #[error("key with an invalid character")]
    KeyCharacter,
    /// The value is longer than [`VALUE_LENGTH_MAX`].
    #[error("value of more than 8192 bytes")]
    ValueTooLong,
    /// The value is not UTF-8, or holds control characters.
    #[error("value is not UTF-8 text or contains control characters")]
    ValueCharacter,
    /// More than [`TEXT_LENGTH_MAX`] bytes.
    #[error("text of more than 64 KiB")]
    TooLong,
    /// More than [`SEQUENCE_LENGTH_MAX`] PDUs.
    #[error("text in more than 16 PDUs")]
    TooManyPdus,
}

/// A key and its value.
pub type Pair<'a> = (&'a str, &'a str);

/// Iterates over the pairs. The first error ends the iteration. NULs after the last pair are
/// skipped, because some initiators count their padding as text.
pub fn parse_pairs(bytes: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, TextError>> {
    let mut rest = match bytes.iter().rposition(|&byte| byte != 0) {
        Some(last) => &bytes[..bytes.len().min(last + 2)],
        None => &[],
    };
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = rest.iter().position(|&byte| byte == 0) else {
            rest = &[];
            return Some(Err(TextError::Unterminated));
        };
        let pair = parse_pair(&rest[..end]);
        rest = if pair.is_ok() { &rest[end + 1..] } else { &[] };
        Some(pair)
    })
}

fn parse_pair(bytes: &[u8]) -> Result<Pair<'_>, TextError> {
    let equals = bytes
        .iter()
        .position(|&byte| byte == b'=')
        .ok_or(TextError::MissingEquals)?;
    let (key, value) = (&bytes[..equals], &bytes[equals + 1..]);
    if key.is_empty() {
        return Err(TextError::EmptyKey);
    }
    if key.len() > KEY_LENGTH_MAX {
        return Err(TextError::KeyTooLong);
    }
    let valid = key[0].is_ascii_alphabetic()
        && key
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b".-+@_".contains(b));
    if !valid {
        return Err(TextError::KeyCharacter);
    }
    if value.len() > VALUE_LENGTH_MAX {
        return Err(TextError::ValueTooLong);
    }
    let key = std::str::from_utf8(key).map_err(|_| TextError::KeyCharacter)?;
    let value = std::str::from_utf8(value).map_err(|_| TextError::ValueCharacter)?;
    if value.chars().any(char::is_control) {
        return Err(TextError::ValueCharacter);
    }
    Ok((key, value))
}

/// Appends one pair.
///
/// # Panics
/// Panics if key or value contains NUL, or if the key contains `=`.
pub fn emit_pair(out: &mut Vec<u8>, key: &str, value: &str) {
    assert!(
        !key.contains(['=', '\0']) && !value.contains('\0'),
        "{key:?}={value:?} cannot be encoded as a text key"
    );
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// Collects a text that arrives in pieces and in several PDUs.
#[derive(Clone, Debug, Default)]
pub struct TextBuffer {
    bytes: Vec<u8>,
    pdus: usize,
}

impl TextBuffer {
    /// Counts a PDU. Called at its header, before its data.
    ///
    /// # Errors
    /// [`TextError::TooManyPdus`].
    pub fn begin_pdu(&mut self) -> Result<(), TextError> {
        self.pdus += 1;
        if self.pdus > SEQUENCE_LENGTH_MAX {
            Err(TextError::TooManyPdus)
        } else {
            Ok(())
        }
    }

    /// Adds a piece of data.
    ///
    /// # Errors
    /// [`TextError::TooLong`]; the piece is discarded.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), TextError> {
        if bytes.len() > TEXT_LENGTH_MAX - self.bytes.len() {
            return Err(TextError::TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the number of bytes collected so far.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the collected text and resets the buffer, which keeps no memory. Called at the end
    /// of a PDU without C bit.
    pub fn take(&mut self) -> Vec<u8> {
        self.pdus = 0;
        std::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Result<Vec<Pair<'_>>, TextError> {
        parse_pairs(bytes).collect()
    }

    #[test]
    fn pairs_come_in_order_and_values_may_be_empty_or_hold_equals() {
        assert_eq!(
            parsed(b"A=1\0SendTargets=\0X-a.b=c=d\0"),
            Ok(vec![("A", "1"), ("SendTargets", ""), ("X-a.b", "c=d")])
        );
        assert_eq!(parsed(b""), Ok(vec![]));
        assert_eq!(parsed(b"A=1\0\0\0"), Ok(vec![("A", "1")]));
    }

    #[test]
    fn every_fault_of_form_has_its_own_error() {
        let long_key = [&[b'K'; 64][..], b"=v\0"].concat();
        let long_value = [b"K=", &[b'v'; 8193][..], b"\0"].concat();
        for (bytes, error) in [
            (&b"Key\0"[..], TextError::MissingEquals),
            (b"=value\0", TextError::EmptyKey),
            (b"Key=value", TextError::Unterminated),
            (b"A=b\0\0C=d\0", TextError::MissingEquals),
            (b"Key=va\0lue\0", TextError::MissingEquals),
            (b"Key=\xff\xfe\0", TextError::ValueCharacter),
            (b"Key=a\nb\0", TextError::ValueCharacter),
            (b"K\xff=a\0", TextError::KeyCharacter),
            (b"9K=a\0", TextError::KeyCharacter),
            (b"K y=a\0", TextError::KeyCharacter),
            (&long_key, TextError::KeyTooLong),
            (&long_value, TextError::ValueTooLong),
        ] {
            assert_eq!(
                parsed(bytes),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(&bytes[..bytes.len().min(20)])
            );
        }
        assert!(parsed(&long_key[1..]).is_ok(), "63 bytes are a key");
    }

    #[test]
    fn buffer_refuses_the_17th_pdu_and_the_byte_after_64_kib() {
        let mut buffer = TextBuffer::default();
        for _ in 0..16 {
            assert_eq!(buffer.begin_pdu(), Ok(()));
            assert_eq!(buffer.extend(&[b'a'; 4096]), Ok(()));
        }
        assert_eq!(buffer.extend(b"a"), Err(TextError::TooLong));
        assert_eq!(buffer.begin_pdu(), Err(TextError::TooManyPdus));
        assert_eq!(buffer.take().len(), TEXT_LENGTH_MAX);
        assert_eq!(buffer.begin_pdu(), Ok(()));
    }

    proptest! {
        #[test]
        fn emitted_pairs_survive_parsing(pairs in proptest::collection::vec(("[A-Z][A-Za-z0-9.+@_-]{0,62}", "[ -~]{0,300}"), 0..20)) {
            let mut bytes = Vec::new();
            pairs.iter().for_each(|(key, value)| emit_pair(&mut bytes, key, value));
            let expected: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            prop_assert_eq!(parsed(&bytes), Ok(expected));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(b'='), Just(b'A')], 0..200)) {
            let _ = parsed(&bytes);
        }
    }
}
