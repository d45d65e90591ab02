//! What a block held, in 128 bits (XXH3): two blocks that differ by accident agree with a chance of
//! 2^-128. No protection against forgers.
use twox_hash::XxHash3_128;

/// Of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(XxHash3_128::oneshot(bytes))
    }
}
