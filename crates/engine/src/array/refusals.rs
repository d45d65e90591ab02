//! Reports of refused logins to the operator, at a bounded rate.
use std::time::Duration;

use hakaru_iscsi_target::LoginRefusal;
use hakaru_units::Time;

use crate::failure::Failure;

/// Refusals reported in one period. Further ones are counted; the next report gives their number.
const REPORTS_PER_PERIOD: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);

/// The rate at which refusals are reported.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    period_ends: Option<Time>,
    reported: u32,
    left_out: u64,
}

impl RefusalLog {
    /// Returns the report of a refusal, or `None` while the rate is exceeded.
    pub(super) fn report(&mut self, now: Time, refusal: &LoginRefusal) -> Option<Failure> {
        let left_out = self.admit(now)?;
        Some(failure(refusal, left_out))
    }

    /// Returns the number of refusals left out before this one, or `None` if it is left out too.
    fn admit(&mut self, now: Time) -> Option<u64> {
        if self.period_ends.is_none_or(|end| now >= end) {
            self.period_ends = Some(now + PERIOD);
            self.reported = 0;
        }
        if self.reported == REPORTS_PER_PERIOD {
            self.left_out += 1;
            return None;
        }
        self.reported += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

fn failure(refusal: &LoginRefusal, left_out: u64) -> Failure {
    let name = refusal
        .initiator_name
        .as_deref()
        .unwrap_or("an initiator without a name");
    let before = if left_out > 0 {
        format!(" ({left_out} refusals before it were not reported)")
    } else {
        String::new()
    };
    let message = format!(
        "login of {name} from {} refused with status {:04x}h: {}{before}",
        refusal.peer, refusal.status.0, refusal.reason
    );
    Failure::peer(
        message,
        "compare the initiator's settings with the array's access list; the counter logins_refused counts all",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_reported_at_a_bounded_rate_and_counted() {
        let mut log = RefusalLog::default();
        let now = Time::ZERO;
        let reported = (0..1000).filter(|_| log.admit(now).is_some()).count();
        assert_eq!(reported, 5);
        assert_eq!(log.admit(now + PERIOD), Some(995));
        assert_eq!(log.admit(now + PERIOD), Some(0));
    }
}
