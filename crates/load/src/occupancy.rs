//! Integral of the length of a queue over time.
use hakaru_units::Time;

/// The integral, complete until an instant. The caller knows the length of the queue and calls
/// [`Occupancy::advance`] before each change of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy {
    /// Sum of length x time, nanoseconds.
    integral_ns: u64,
    /// Instant until which `integral_ns` is complete.
    until: Time,
}

impl Occupancy {
    /// Completes the integral until `now`. The queue has had `length` entries since the last call.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, length: usize) {
        if now > self.until {
            self.integral_ns += length as u64 * now.ns_since(self.until);
            self.until = now;
        }
    }

    /// Returns the integral, complete until the last call of [`Occupancy::advance`].
    pub(crate) fn integral_ns(&self) -> u64 {
        self.integral_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_is_the_sum_of_the_times_spent_in_the_queue() {
        let mut occupancy = Occupancy::default();
        // One entry from 10 to 30 ns, another from 20 to 50 ns.
        for (now, length_before) in [(10, 0), (20, 1), (20, 1), (30, 2), (50, 1), (90, 0)] {
            occupancy.advance(Time(now), length_before);
        }
        assert_eq!(occupancy.integral_ns(), 20 + 30);
    }
}
