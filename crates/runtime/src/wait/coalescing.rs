//! Pause of an initiator between two waits for its sockets, so that one wait returns several
//! answers.
use std::time::Duration;

/// Shortest pause. A shorter one costs as much as it saves.
const PAUSE_MIN: Duration = Duration::from_micros(20);

/// Bounds of the pause. By default there is no pause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coalescing {
    longest: Duration,
    share: f64,
}

impl Coalescing {
    /// Bounds the pause by `longest` and by a share (0 to 1) of the time that a request takes.
    #[must_use]
    pub fn new(longest: Duration, share: f64) -> Coalescing {
        Coalescing { longest, share }
    }

    /// Returns the pause if requests took `recent_ns` recently, or zero if it would be too short to
    /// pay off.
    pub(crate) fn pause(self, recent_ns: u64) -> Duration {
        let share = Duration::from_nanos((recent_ns as f64 * self.share) as u64);
        let pause = self.longest.min(share);
        if pause < PAUSE_MIN {
            Duration::ZERO
        } else {
            pause
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause_us(longest_us: u64, share: f64, recent_us: u64) -> u128 {
        Coalescing::new(Duration::from_micros(longest_us), share)
            .pause(recent_us * 1000)
            .as_micros()
    }

    #[test]
    fn a_pause_is_a_share_of_a_request_at_most_and_never_delays_quick_ones() {
        assert_eq!(pause_us(64, 0.1, 0), 0);
        assert_eq!(pause_us(64, 0.1, 199), 0);
        assert_eq!(pause_us(64, 0.1, 480), 48);
        assert_eq!(pause_us(64, 0.1, 5_000_000), 64);
        assert_eq!(pause_us(0, 0.1, 5_000_000), 0);
        assert_eq!(pause_us(1000, 0.25, 800), 200);
        assert_eq!(pause_us(100, 0.25, 800), 100);
        assert_eq!(pause_us(1000, 0.0, 800), 0);
    }
}
