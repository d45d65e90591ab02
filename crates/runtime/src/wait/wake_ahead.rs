//! Wake-up instants ahead of deadlines, which compensate for the kernel's late wake-ups.
use hakaru_units::Time;

/// Estimates the delay of wake-ups, usually 20 to 100 µs, and sets the wake-up that much earlier.
///
/// A caller that is awake before its deadline busy polls. By default only sleeps at least ten times
/// as long as the delay end early, so polling before them costs at most a tenth of a core. A
/// deadline that is closer than the delay is always polled for. With [`WakeAhead::precise`] all
/// sleeps end early.
#[derive(Clone, Copy, Debug)]
pub struct WakeAhead {
    /// Estimate of the 95th percentile of the delay of a wake-up, ns.
    early_ns: u64,
    /// Shortest sleep that ends early, in multiples of the estimate.
    sleep_factor_min: u64,
    /// Instant of the requested wake-up, if it is ahead of a deadline.
    wanted: Option<Time>,
}

impl Default for WakeAhead {
    fn default() -> Self {
        WakeAhead {
            early_ns: 0,
            sleep_factor_min: 10,
            wanted: None,
        }
    }
}

impl WakeAhead {
    /// Upper bound of the estimate.
    const EARLY_NS_MAX: u64 = 100_000;
    /// First estimate of [`WakeAhead::precise`].
    const EARLY_NS_FIRST: u64 = 50_000;
    /// Step by which the estimate falls.
    const STEP_NS: i64 = 200;

    /// Returns an estimator that ends every sleep early. A caller whose deadlines are less apart than
    /// the delay of a wake-up busy polls all the time.
    #[must_use]
    pub fn precise() -> WakeAhead {
        WakeAhead {
            early_ns: Self::EARLY_NS_FIRST,
            sleep_factor_min: 1,
            wanted: None,
        }
    }

    /// Returns the instant at which to wake up in order to be ready at `deadline`. `now` means not
    /// to sleep.
    pub fn wake_for(&mut self, now: Time, deadline: Time) -> Time {
        let ahead = deadline.ns_since(now);
        self.wanted = None;
        if ahead > self.sleep_factor_min * self.early_ns {
            let wake = Time(deadline.as_ns() - self.early_ns);
            self.wanted = Some(wake);
            return wake;
        }
        if ahead <= self.early_ns {
            now
        } else {
            deadline
        }
    }

    /// Records that the caller woke up at `now` without an event.
    pub fn woke(&mut self, now: Time) {
        if let Some(wanted) = self.wanted.take().filter(|wanted| *wanted <= now) {
            // The step up is nineteen times the step down, so the estimate settles where one
            // wake-up in twenty is later.
            let late = now.ns_since(wanted) > self.early_ns;
            let step = if late {
                19 * Self::STEP_NS
            } else {
                -Self::STEP_NS
            };
            self.early_ns = self
                .early_ns
                .saturating_add_signed(step)
                .min(Self::EARLY_NS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_early_enough_for_nineteen_of_twenty_instants() {
        let mut sleep = WakeAhead::default();
        let mut met = 0;
        for n in 1..=4000_u64 {
            let (now, deadline) = (Time(n * 10_000_000), Time(n * 10_000_000 + 5_000_000));
            let wake = sleep.wake_for(now, deadline);
            // Late by 0 to 49.9 µs, evenly distributed.
            let woke = Time(wake.as_ns() + n * 7919 % 500 * 100);
            met += u64::from(n > 2000 && woke <= deadline);
            sleep.woke(woke);
        }
        assert!((1800..=1960).contains(&met), "{met} of 2000");
    }
    #[test]
    fn a_precise_sleeper_never_sleeps_up_to_its_deadline() {
        let mut sleep = WakeAhead::precise();
        for ahead in [1, 10_000, 49_999, 50_000, 50_001, 100_000, 10_000_000] {
            let wake = sleep.wake_for(Time(1_000_000), Time(1_000_000 + ahead));
            assert_eq!(wake.as_ns(), 1_000_000 + ahead.saturating_sub(50_000));
        }
    }
}
