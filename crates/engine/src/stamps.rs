//! Departures of sent and arrivals of received data, from the kernel's stamps.
use hakaru_iscsi_session::Arrival;
use hakaru_runtime::clock;
use hakaru_runtime::net::{Socket, Stamp, StampClock};
use hakaru_units::Time;

/// Reads and converts stamps.
#[derive(Default)]
pub struct Stamps {
    clock: StampClock,
}

impl Stamps {
    /// Returns the departure of the data that a stamped call has just sent, the last of `sent` bytes
    /// (modulo 2^32). `None` if the data waits in the kernel, or the kernel does not stamp it.
    pub fn departure(&mut self, socket: &Socket, sent: u32) -> Option<Time> {
        loop {
            // Stamps of data that waited in the kernel arrive later and are skipped.
            let stamp = socket.take_sent_stamp()?;
            if stamp.position.wrapping_add(1) == sent {
                return Some(self.clock.instant_of(stamp.left, clock::now()));
            }
        }
    }

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
