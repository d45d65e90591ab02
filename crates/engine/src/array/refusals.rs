//! Reports of refused logins to the operator, at a bounded rate.
use std::time::Duration;

use hakaru_iscsi_target::LoginRefusal;
use hakaru_units::Time;

use crate::failure::Failure;

/// Maximum number of refusals reported in one period. Further refusals are counted, and the next
/// report states their number.
const REPORTS_PER_PERIOD: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);

/// Limits the rate at which refusals are reported.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    period_ends: Option<Time>,
    reported: u32,
    unreported: u64,
}

impl RefusalLog {
    /// Returns the report of a refusal, or `None` while the rate is exceeded.
    pub(super) fn report(&mut self, now: Time, refusal: &LoginRefusal) -> Option<Failure> {
        let unreported = self.admit(now)?;
        Some(failure(refusal, unreported))
    }

    /// Returns the number of unreported refusals before this one, or `None` if this one must not be
    /// reported either.
    fn admit(&mut self, now: Time) -> Option<u64> {
        if self.period_ends.is_none_or(|end| now >= end) {
            self.period_ends = Some(now + PERIOD);
            self.reported = 0;
        }
        if self.reported == REPORTS_PER_PERIOD {
            self.unreported += 1;
            return None;
        }
        self.reported += 1;
        Some(std::mem::take(&mut self.unreported))
    }
}

fn failure(refusal: &LoginRefusal, unreported: u64) -> Failure {
    let name = refusal
        .initiator_name
        .as_deref()
        .unwrap_or("an initiator without a name");
    let before = if unreported > 0 {
        format!(" ({unreported} earlier refusals were not reported)")
    } else {
        String::new()
    };
    let message = format!(
        "login of {name} from {} refused with status {:04x}h: {}{before}",
        refusal.peer, refusal.status.0, refusal.reason
    );
    Failure::peer(
        message,
        "compare the initiator's settings with the array's access list; `logins_refused` counts all refusals",
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
