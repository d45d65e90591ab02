//! The waiting of a thread that has to act at exact instants and has no descriptors.
use std::time::Duration;

use hakaru_units::Time;

use super::clock;
use super::wake_ahead::WakeAhead;
use crate::process::count_busy_poll;

/// Waits for instants. Sleeps until shortly before them, by the delay of a wake-up, and busy polls
/// for the rest, so a thread whose instants are further apart than that delay does not use a whole
/// core.
#[derive(Debug)]
pub struct Pacer {
    wake_ahead: WakeAhead,
}

impl Pacer {
    /// Creates a pacer for the calling thread, and makes the thread's timers exact.
    #[must_use]
    pub fn new() -> Pacer {
        clock::set_timers_exact();
        Pacer {
            wake_ahead: WakeAhead::precise(),
        }
    }

    /// Returns at `until`, or at once if that has passed.
    pub fn wait_until(&mut self, until: Time) {
        let now = clock::now();
        if until <= now {
            return;
        }
        let wake = self.wake_ahead.wake_for(now, until);
        let mut woke = now;
        if wake > now {
            clock::sleep_until(wake);
            woke = clock::now();
            self.wake_ahead.woke(woke);
        }
        let mut now = woke;
        while now < until {
            std::hint::spin_loop();
            now = clock::now();
        }
        count_busy_poll(Duration::from_nanos(now.ns_since(woke)));
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pacer_returns_at_the_instant_or_later() {
        let mut pacer = Pacer::new();
        let start = clock::now();
        for step_us in [1, 10, 30, 60, 200, 3000] {
            let until = clock::now() + Duration::from_micros(step_us);
            pacer.wait_until(until);
            assert!(clock::now() >= until);
        }
        pacer.wait_until(start);
    }
}
