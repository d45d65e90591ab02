//! Digest of a block in 128 bits (XXH3). Two blocks that differ by accident have the same digest
//! with a probability of 2^-128. It does not protect against forgery.
use twox_hash::XxHash3_128;

/// Digest of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(XxHash3_128::oneshot(bytes))
    }
}
