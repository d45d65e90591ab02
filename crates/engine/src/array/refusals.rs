//! Refused logins, for the operator.
use std::time::Duration;

use hakaru_iscsi_target::LoginRefusal;
use hakaru_units::Time;

use super::Shell;
use crate::control::Control;
use crate::failure::Failure;

/// Refusals reported in one period; further ones are counted and reported as a number with the next period.
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
    /// Whether another refusal is reported now; with how many were left out before it.
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

impl Shell<'_> {
    /// Logs who was refused and why.
    pub(super) fn report_refusals(&mut self, now: Time, control: &Control) {
        while let Some(refusal) = self.target.poll_refusal() {
            if let Some(left_out) = self.refusals.admit(now) {
                control.error(&failure(&refusal, left_out), false);
            }
        }
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
