//! Binary values in text keys (RFC 7143 section 6.1): hexadecimal after `0x`, base64 after `0b`.
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

/// Senders differ on whether the padding of base64 is written.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Errors of a binary value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryError {
    /// The prefix is neither `0x` nor `0b`.
    #[error("neither hexadecimal nor base64")]
    Prefix,
    /// No digits follow the prefix.
    #[error("empty")]
    Empty,
    /// More bytes than the limit. Checked against the length of the text before it is decoded.
    #[error("too long")]
    TooLong,
    /// An odd number of hexadecimal digits, an invalid digit, incomplete base64.
    #[error("malformed")]
    Malformed,
}

/// Decodes a value of at most `length_max` bytes.
///
/// # Errors
/// See [`BinaryError`].
pub fn decode_binary(text: &str, length_max: usize) -> Result<Vec<u8>, BinaryError> {
    // `split_at` would panic within a multi-byte character.
    let (prefix, digits) = text.split_at_checked(2).ok_or(BinaryError::Prefix)?;
    match prefix {
        _ if !["0x", "0X", "0b", "0B"].contains(&prefix) => Err(BinaryError::Prefix),
        _ if digits.is_empty() => Err(BinaryError::Empty),
        "0x" | "0X" => decode_hex(digits.as_bytes(), length_max),
        _ => decode_base64(digits.as_bytes(), length_max),
    }
}

fn decode_hex(digits: &[u8], length_max: usize) -> Result<Vec<u8>, BinaryError> {
    if digits.len() > 2 * length_max {
        return Err(BinaryError::TooLong);
    }
    let value = |digit: u8| char::from(digit).to_digit(16).ok_or(BinaryError::Malformed);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(BinaryError::Malformed);
    }
    pairs
        .iter()
        .map(|[high, low]| Ok((value(*high)? << 4 | value(*low)?) as u8))
        .collect()
}

fn decode_base64(digits: &[u8], length_max: usize) -> Result<Vec<u8>, BinaryError> {
    if digits.len() > 4 * length_max.div_ceil(3) {
        return Err(BinaryError::TooLong);
    }
    let bytes = BASE64.decode(digits).map_err(|_| BinaryError::Malformed)?;
    match bytes.len() {
        0 => Err(BinaryError::Empty),
        length if length > length_max => Err(BinaryError::TooLong),
        _ => Ok(bytes),
    }
}

/// Encodes a value in hexadecimal, which every implementation reads.
#[must_use]
pub fn encode_binary(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text
}
