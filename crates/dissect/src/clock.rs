//! Clock of a capture, which may step.
//!
//! A capture carries the clock of the machine that made it. The clock may be set while the capture
//! runs, and one packet may carry a wrong time (several queues of one interface, several capturing
//! processors). A packet that is earlier than the one before it reveals this, and one packet later
//! it is clear which of the two was wrong:
//!
//! ```text
//! one packet ahead     1  2  9* 3  4      3 is not before 2: the packet before it is wrong
//! one packet behind    3  4  1* 5  6      1 is before 3, and 5 is back where the clock was: 1 is wrong
//! clock set back       7  8  2  3  4      no single packet is wrong; commands in flight span two clocks
//! ```
use hakaru_units::Time;

/// The instant of an event in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Capture time of the packet that completed the event.
    pub(crate) at: Time,
    /// Number of that packet, from 1.
    pub(crate) packet: u64,
    /// Number of clock steps so far; times of two epochs cannot be subtracted.
    pub(crate) epoch: u32,
    /// Whether `at` is the instant of the event. Otherwise `at` is a bound, because the event was
    /// in no captured packet or its packet waited behind a hole.
    pub(crate) exact: bool,
}

impl Stamp {
    pub(crate) fn inexact(self) -> Stamp {
        Stamp {
            exact: false,
            ..self
        }
    }

    /// Returns the time from `earlier` to this, ns; `None` if the two cannot be subtracted.
    pub(crate) fn ns_since(self, earlier: Stamp) -> Option<u64> {
        let comparable = self.exact && earlier.exact && self.epoch == earlier.epoch;
        self.at.0.checked_sub(earlier.at.0).filter(|_| comparable)
    }
}

/// A run of times below an earlier peak.
#[derive(Clone, Copy, Debug)]
struct Dip {
    peak: Time,
    /// First packet below the peak.
    begin: u64,
    /// Whether only the peak itself was out of order.
    after_one_ahead: bool,
}

/// Tracks the times of packets.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Stamp,
    before_last: Time,
    dip: Option<Dip>,
    /// Number of packets with an earlier time than the previous packet.
    pub(crate) packets_back: u64,
}

impl Clock {
    /// Returns the stamp of the next packet, and whether the packet before it proved to carry a
    /// wrong time.
    pub(crate) fn handle_packet(&mut self, at: Time) -> (Stamp, bool) {
        let packet = self.last.packet + 1;
        let mut epoch = self.last.epoch;
        let mut last_is_wrong = false;
        if let Some(dip) = self.dip {
            let one_packet = dip.begin + 1 == packet;
            if at >= dip.peak {
                last_is_wrong = one_packet;
                epoch += u32::from(!one_packet);
                self.dip = None;
            } else if dip.after_one_ahead {
                self.dip = None;
            }
        }
        if packet > 1 && at < self.last.at {
            self.packets_back += 1;
            let after_one_ahead = packet > 2 && at >= self.before_last;
            last_is_wrong |= after_one_ahead;
            epoch = epoch.saturating_add(u32::from(!after_one_ahead));
            self.dip.get_or_insert(Dip {
                peak: self.last.at,
                begin: packet,
                after_one_ahead,
            });
        }
        self.before_last = self.last.at;
        self.last = Stamp {
            at,
            packet,
            epoch,
            exact: true,
        };
        (self.last, last_is_wrong)
    }

    /// Returns the stamp of the newest packet.
    pub(crate) fn last(&self) -> Stamp {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the epoch of each packet, and the numbers of the packets with a wrong time.
    fn follow(times: &[u64]) -> (Vec<u32>, Vec<u64>) {
        let mut clock = Clock::default();
        let (mut epochs, mut wrong) = (Vec::new(), Vec::new());
        for &at in times {
            let (stamp, last_is_wrong) = clock.handle_packet(Time(at));
            epochs.push(stamp.epoch);
            if last_is_wrong {
                wrong.push(stamp.packet - 1);
            }
        }
        (epochs, wrong)
    }

    #[test]
    fn a_packet_ahead_of_its_time_is_found_by_the_next_one() {
        assert_eq!(follow(&[1, 2, 9, 3, 4]), (vec![0; 5], vec![3]));
        // The clock passes the wrong time later without a step.
        assert_eq!(follow(&[1, 2, 9, 3, 4, 10, 11]), (vec![0; 7], vec![3]));
    }

    #[test]
    fn a_packet_behind_its_time_is_found_by_the_return_of_the_clock() {
        assert_eq!(follow(&[3, 4, 1, 5, 6]), (vec![0, 0, 1, 1, 1], vec![3]));
    }

    #[test]
    fn a_clock_that_was_set_back_begins_a_new_epoch() {
        assert_eq!(follow(&[7, 8, 2, 3, 4]), (vec![0, 0, 1, 1, 1], vec![]));
        // The return of the clock begins another epoch.
        assert_eq!(
            follow(&[7, 8, 2, 3, 8, 9]),
            (vec![0, 0, 1, 1, 2, 2], vec![])
        );
    }
}
