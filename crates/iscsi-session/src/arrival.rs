//! The time in which received bytes arrived.
use hakaru_units::Time;

/// The instants at which the first and the last packet of a piece of the stream arrived. A piece
/// that arrived in one packet has the same instant twice, which is what a [`Time`] converts to.
///
/// A PDU counts as arriving in one packet, and the packets between the first and the last one as
/// arriving at a constant rate. The instants of these packets are therefore estimates, and the
/// error is less than `last - first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival of the first packet.
    pub first: Time,
    /// Arrival of the last packet, not before `first`.
    pub last: Time,
}

impl Arrival {
    /// Returns the arrival of the PDU, or the part of one, in bytes `begin` to `end` of a piece of
    /// `total` bytes.
    #[inline]
    #[must_use]
    pub(crate) fn of(self, begin: usize, end: usize, total: usize) -> Time {
        if self.first == self.last || end >= total {
            return self.last;
        }
        let span_ns = u128::from(self.last.ns_since(self.first));
        let rest = total - (end - begin);
        Time(self.first.as_ns() + (span_ns * begin as u128 / rest as u128) as u64)
    }
}

impl From<Time> for Arrival {
    fn from(at: Time) -> Arrival {
        Arrival {
            first: at,
            last: at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdus_arrive_one_per_packet_at_a_constant_rate() {
        let arrival = Arrival {
            first: Time(1000),
            last: Time(3000),
        };
        let of = |pdu: usize| arrival.of(pdu * 48, pdu * 48 + 48, 5 * 48).as_ns();
        assert_eq!([0, 1, 2, 3, 4].map(of), [1000, 1500, 2000, 2500, 3000]);
        // A part of a PDU at the end arrives last.
        assert_eq!(arrival.of(48, 60, 60), Time(3000));
        assert_eq!(Arrival::from(Time(7)).of(0, 1, 4), Time(7));
    }
}
