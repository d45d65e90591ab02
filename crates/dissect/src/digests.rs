//! Whether the PDUs of a connection carry digests.
//!
//! A login that was captured whole settles it. Without it, a header digest is recognised by its
//! value, and a data digest by where the next header is. Where that header was not captured, one of
//! the two is tried: the next header that is seen confirms it, or the reader falls out of step and
//! tries the other.
use crate::login::Digests;

/// Losses of step in a row after which digests that were only detected are detected anew.
const LOSSES_MAX: u32 = 8;

/// Known digests of a connection; they hold in both directions.
#[derive(Debug, Default)]
pub(crate) struct DigestKnowledge {
    header: Option<bool>,
    data: Option<bool>,
    agreed: bool,
    guess: bool,
    losses: u32,
}

impl DigestKnowledge {
    /// The login was captured whole, and this is its result.
    pub(crate) fn agree(&mut self, digests: Digests) {
        (self.header, self.data) = (Some(digests.header), Some(digests.data));
        self.agreed = true;
    }

    /// Headers have digests.
    pub(crate) fn header(&self) -> Option<bool> {
        self.header
    }

    /// Data segments have digests.
    pub(crate) fn data(&self) -> Option<bool> {
        self.data
    }

    /// Data segments are read as if they had digests.
    pub(crate) fn data_or_guess(&self) -> bool {
        self.data.unwrap_or(self.guess)
    }

    /// Header digests were detected, or their absence.
    pub(crate) fn detect_header(&mut self, digest: bool) {
        self.header.get_or_insert(digest);
    }

    /// Data digests were detected, or their absence.
    pub(crate) fn detect_data(&mut self, digest: bool) {
        self.data.get_or_insert(digest);
    }

    /// A direction fell out of step.
    pub(crate) fn handle_lost(&mut self) {
        self.guess ^= self.data.is_none();
        self.losses += 1;
        if self.losses >= LOSSES_MAX && !self.agreed {
            (self.header, self.data, self.losses) = (None, None, 0);
        }
    }

    /// A header was seen in its place.
    pub(crate) fn handle_header(&mut self) {
        self.losses = 0;
    }

    /// Both, if both are known.
    pub(crate) fn known(&self) -> Option<Digests> {
        Some(Digests {
            header: self.header?,
            data: self.data?,
        })
    }
}
