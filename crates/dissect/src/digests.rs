//! Knowledge of whether the PDUs of a connection carry digests.
//!
//! A completely captured login settles it. Without one, a header digest is recognised by its value,
//! and a data digest by the place of the next header. If that header was not captured, one of the
//! two possibilities is tried. Either the next captured header confirms it, or the reader falls out
//! of step and tries the other.
use crate::login::Digests;

/// Number of consecutive losses of step after which digests that were detected, not negotiated, are
/// detected again.
const LOSSES_MAX: u32 = 8;

/// Digests of a connection as far as they are known. They are the same in both directions.
#[derive(Debug, Default)]
pub(crate) struct DigestKnowledge {
    header: Option<bool>,
    data: Option<bool>,
    agreed: bool,
    guess: bool,
    losses: u32,
}

impl DigestKnowledge {
    /// Adopts the result of a completely captured login.
    pub(crate) fn agree(&mut self, digests: Digests) {
        (self.header, self.data) = (Some(digests.header), Some(digests.data));
        self.agreed = true;
    }

    /// Returns whether headers have digests; `None` if unknown.
    pub(crate) fn header(&self) -> Option<bool> {
        self.header
    }

    /// Returns whether data segments have digests; `None` if unknown.
    pub(crate) fn data(&self) -> Option<bool> {
        self.data
    }

    /// Returns whether data segments are read as if they had digests.
    pub(crate) fn data_or_guess(&self) -> bool {
        self.data.unwrap_or(self.guess)
    }

    /// Records that header digests, or their absence, were detected.
    pub(crate) fn detect_header(&mut self, digest: bool) {
        self.header.get_or_insert(digest);
    }

    /// Records that data digests, or their absence, were detected.
    pub(crate) fn detect_data(&mut self, digest: bool) {
        self.data.get_or_insert(digest);
    }

    /// Handles a direction that fell out of step.
    pub(crate) fn handle_lost(&mut self) {
        self.guess ^= self.data.is_none();
        self.losses += 1;
        if self.losses >= LOSSES_MAX && !self.agreed {
            (self.header, self.data, self.losses) = (None, None, 0);
        }
    }

    /// Handles a header that was seen in its place.
    pub(crate) fn handle_header(&mut self) {
        self.losses = 0;
    }

    /// Returns both digests, if both are known.
    pub(crate) fn known(&self) -> Option<Digests> {
        Some(Digests {
            header: self.header?,
            data: self.data?,
        })
    }
}
