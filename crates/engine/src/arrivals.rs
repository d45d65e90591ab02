//! Arrivals of received data, from the kernel's stamps.
use hakaru_iscsi_session::Arrival;
use hakaru_runtime::net::{Stamp, StampClock};
use hakaru_units::Time;

/// Converts the stamps of received data.
#[derive(Default)]
pub struct Arrivals {
    clock: StampClock,
}

impl Arrivals {
    /// Returns the arrival of data that was received by `now`, from the stamps of its first and its
    /// last packet. A missing first stamp means that the data is of one packet. Without the last
    /// one, which the kernel lacks for packets on their way when stamps were enabled, data counts
    /// as arriving now.
    pub fn arrival(&mut self, first: Option<Stamp>, last: Option<Stamp>, now: Time) -> Arrival {
        let Some(last_stamp) = last else {
            return now.into();
        };
        let last = self.clock.instant_of(last_stamp, now);
        match first {
            Some(first) if first != last_stamp => Arrival {
                first: self.clock.instant_of(first, now).min(last),
                last,
            },
            _ => last.into(),
        }
    }
}
