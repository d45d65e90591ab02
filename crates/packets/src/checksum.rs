//! The Internet checksum (RFC 1071): a sum of 16-bit words in ones' complement.

/// Adds the big-endian words of `bytes`. An odd last byte is the upper half of a word. `bytes` has
/// at most 64 KiB, so the sum does not overflow.
pub(crate) fn sum_words(bytes: &[u8]) -> u32 {
    let (words, last) = bytes.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    sum + last.first().map_or(0, |byte| u32::from(*byte) << 8)
}

/// Adds the carries of a sum to its lower 16 bits.
pub(crate) fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_adds_up() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum_words(&bytes).into()), 0xddf2);
        assert_eq!(sum_words(&[1, 2, 3]), 0x0102 + 0x0300);
        assert_eq!(fold(0), 0);
    }
}
