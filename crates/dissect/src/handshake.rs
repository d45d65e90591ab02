//! The TCP handshake, which shows the round-trip time and the place of the capture.
//!
//! ```text
//! initiator      place of capture        target
//!     | ------ SYN ----> | ----------------> |
//!     |                  |  target side      |
//!     | <--------------- | <--- SYN-ACK ---- |
//!     |  initiator side  |                   |
//!     | ------ ACK ----> | ----------------> |
//! ```
use crate::clock::Stamp;
use crate::packet::Segment;

/// Shortest time after which TCP retransmits a SYN, ns (RFC 6298 section 2). An answer that took
/// longer may belong to a SYN that is not in the capture.
const SYN_TIMEOUT_NS: u64 = 1_000_000_000;

/// The segments of a handshake, as far as they were seen.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    syn: Option<(Stamp, u32)>,
    syn_ack: Option<(Stamp, u32)>,
    ack: Option<Stamp>,
    /// A segment followed the SYN-ACK, so the handshake is over.
    over: bool,
    pub(crate) retransmissions: u64,
}

/// Durations of a handshake, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    pub(crate) target_side: u64,
    pub(crate) initiator_side: u64,
}

impl Handshake {
    /// Handles a segment of the connection.
    pub(crate) fn handle_segment(&mut self, now: Stamp, segment: &Segment<'_>) {
        match (segment.syn, segment.acknowledged) {
            (true, None) if self.syn.is_none() => self.syn = Some((now, segment.sequence)),
            (true, Some(_)) if self.syn_ack.is_none() => {
                self.syn_ack = Some((now, segment.sequence));
            }
            (true, _) => self.retransmissions += 1,
            (false, _) if self.over || self.ack.is_some() => {}
            (false, acknowledged) => self.handle_ack(now, segment, acknowledged),
        }
    }

    /// Recognises the third segment by its sequence numbers and its lack of data. Without it the
    /// end of the handshake is unknown.
    fn handle_ack(&mut self, now: Stamp, segment: &Segment<'_>, acknowledged: Option<u32>) {
        let (Some((_, syn)), Some((_, syn_ack))) = (self.syn, self.syn_ack) else {
            return;
        };
        let is_third = segment.payload_length == 0
            && segment.sequence == syn.wrapping_add(1)
            && acknowledged == Some(syn_ack.wrapping_add(1));
        if is_third {
            self.ack = Some(now);
        }
        self.over = true;
    }

    /// Marks the time of packet `packet`, the newest so far, as wrong.
    pub(crate) fn distrust(&mut self, packet: u64) {
        let stamps = [
            self.syn.as_mut().map(|syn| &mut syn.0),
            self.syn_ack.as_mut().map(|syn_ack| &mut syn_ack.0),
            self.ack.as_mut(),
        ];
        for stamp in stamps.into_iter().flatten() {
            stamp.exact &= stamp.packet != packet;
        }
    }

    /// Returns the time from the first SYN to the ACK, ns.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        self.ack?.ns_since(self.syn?.0)
    }

    /// Returns both halves of the round trip. `None` if a segment was retransmitted, because it is
    /// unknown which copy was answered.
    pub(crate) fn round_trip(&self) -> Option<RoundTrip> {
        let (syn, syn_ack) = (self.syn?.0, self.syn_ack?.0);
        let trip = RoundTrip {
            target_side: syn_ack.ns_since(syn)?,
            initiator_side: self.ack?.ns_since(syn_ack)?,
        };
        let plausible = self.retransmissions == 0
            && trip.target_side < SYN_TIMEOUT_NS
            && trip.initiator_side < SYN_TIMEOUT_NS;
        plausible.then_some(trip)
    }
}
