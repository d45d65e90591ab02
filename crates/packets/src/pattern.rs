//! The bytes that follow the tag in every frame. They are the same at the same offset in every
//! frame, so a sender writes them once and a receiver only compares them.

/// Longest frame with FCS, bytes.
pub const FRAME_BYTES_MAX: u16 = 9216;

const LENGTH: usize = FRAME_BYTES_MAX as usize;
static PATTERN: [u8; LENGTH] = pattern();
/// Sum of the first `n` words of the pattern, for every `n`.
static SUMS: [u32; LENGTH / 2 + 1] = sums();

/// Returns the first `length` bytes of the pattern.
///
/// # Panics
/// If `length` exceeds [`FRAME_BYTES_MAX`].
pub(crate) fn bytes(length: usize) -> &'static [u8] {
    &PATTERN[..length]
}

/// Returns the sum of the words of `bytes(length)`, as [`crate::checksum::sum_words`] does.
pub(crate) fn sum(length: usize) -> u32 {
    let odd = if length % 2 == 1 {
        u32::from(PATTERN[length - 1]) << 8
    } else {
        0
    };
    SUMS[length / 2] + odd
}

/// Generates bytes without a short period, so that a block of a frame copied to another place, or
/// to another frame's place, is recognised.
const fn pattern() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut state = 0x9e37_79b9_u32;
    let mut at = 0;
    while at < LENGTH {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes[at] = (state >> 24) as u8;
        at += 1;
    }
    bytes
}

const fn sums() -> [u32; LENGTH / 2 + 1] {
    let pattern = pattern();
    let mut sums = [0; LENGTH / 2 + 1];
    let mut word = 0;
    while word < LENGTH / 2 {
        let value = (pattern[2 * word] as u32) << 8 | pattern[2 * word + 1] as u32;
        sums[word + 1] = sums[word] + value;
        word += 1;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::sum_words;

    #[test]
    fn the_sums_are_those_of_the_bytes() {
        for length in [0, 1, 2, 3, 59, 60, 1474, 1475, LENGTH - 1, LENGTH] {
            assert_eq!(sum(length), sum_words(bytes(length)), "{length}");
        }
    }
}
