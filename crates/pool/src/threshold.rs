//! The soft threshold: reports when the use of a pool crosses it, once each time.

use crate::action::Event;

/// Percentage points below the soft threshold at which it is armed again.
const HYSTERESIS_PERCENT: u64 = 2;

/// State of the soft threshold, as last reported.
#[derive(Debug, Default)]
pub(crate) struct SoftThreshold {
    is_crossed: bool,
}

impl SoftThreshold {
    /// Returns the event if `used` of `total` pages crosses `percent`, in either direction.
    pub(crate) fn update(&mut self, used: u64, total: u64, percent: u64) -> Option<Event> {
        if !self.is_crossed && total > 0 && used * 100 >= total * percent {
            self.is_crossed = true;
            return Some(Event::ThresholdCrossed);
        }
        if self.is_crossed && used * 100 < total * percent.saturating_sub(HYSTERESIS_PERCENT) {
            self.is_crossed = false;
            return Some(Event::ThresholdCleared);
        }
        None
    }
}
