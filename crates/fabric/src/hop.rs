//! The changes that routers make to the headers of a train.
use crate::headers;

/// New Ethernet addresses, and the number of routers passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) destination: [u8; 6],
    pub(crate) source: [u8; 6],
    /// Number of routers, by which the time to live is reduced.
    pub(crate) hops: u8,
}

impl Hop {
    /// Writes the changes into the headers of a frame.
    pub(crate) fn apply(&self, frame: &mut [u8]) {
        if let Some(addresses) = frame.first_chunk_mut::<12>() {
            addresses[..6].copy_from_slice(&self.destination);
            addresses[6..].copy_from_slice(&self.source);
        }
        headers::age(frame, self.hops);
    }
}
