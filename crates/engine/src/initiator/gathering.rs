//! How long the engine waits between two looks at its sockets, so that one look finds several
//! answers.
use std::time::Duration;

use hakaru_contract::initiator::InitiatorConfig;

/// A wait shorter than this costs as much as it saves.
const PAUSE_MIN: Duration = Duration::from_micros(20);

/// The longest wait, as such and as a share of what requests take: `coalesce_us` and
/// `coalesce_percent` of the configuration.
pub struct Gathering {
    longest: Duration,
    /// Of what requests took of late.
    share: f64,
}

impl Gathering {
    /// As `config`, which was checked, has it.
    pub fn new(config: &InitiatorConfig) -> Gathering {
        Gathering {
            longest: Duration::from_micros(config.coalesce_us.into()),
            share: config.coalesce_percent / 100.0,
        }
    }

    /// How long to wait where requests took `recent_ns` of late; nothing where that would be too
    /// short to be worth it.
    pub fn pause(&self, recent_ns: u64) -> Duration {
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

    fn pause(coalesce_us: u32, coalesce_percent: Option<f64>, recent_ns: u64) -> Duration {
        let mut config = serde_json::json!({
            "vms": [], "warmup_s": 0.0, "measure_s": 1.0, "coalesce_us": coalesce_us,
        });
        if let Some(percent) = coalesce_percent {
            config["coalesce_percent"] = percent.into();
        }
        let config = serde_json::from_value(config).expect("a configuration");
        Gathering::new(&config).pause(recent_ns)
    }

    #[test]
    fn answers_gather_for_a_tenth_of_a_request_at_most_and_never_before_quick_ones() {
        let longest = Duration::from_micros(64);
        assert_eq!(pause(64, None, 0), Duration::ZERO);
        assert_eq!(pause(64, None, 199_000), Duration::ZERO);
        assert_eq!(pause(64, None, 480_000), Duration::from_micros(48));
        assert_eq!(pause(64, None, 5_000_000_000), longest);
        assert_eq!(pause(0, None, 5_000_000_000), Duration::ZERO);
    }

    #[test]
    fn the_share_of_a_request_that_they_gather_for_can_be_set() {
        assert_eq!(pause(1000, Some(25.0), 800_000), Duration::from_micros(200));
        assert_eq!(pause(100, Some(25.0), 800_000), Duration::from_micros(100));
        assert_eq!(pause(1000, Some(0.0), 800_000), Duration::ZERO);
    }
}
