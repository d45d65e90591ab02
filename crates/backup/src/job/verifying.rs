//! The verification: the copy is read back, every part by its [`Check`].
use hakaru_iscsi_session::Done;
use hakaru_units::Time;

use super::{Job, JobEvent, Leg, Stage, whole};
use crate::check::Check;
use crate::error::JobError;

impl Job {
    pub(super) fn handle_read_back(&mut self, leg: Leg, done: Done) {
        let Stage::Verifying(checks) = &mut self.stage else {
            return;
        };
        let check = &mut checks[leg.stream()];
        let (at, length) = check.piece(done.tag);
        match whole(done.result, length) {
            Ok(()) => {
                let spare = check.handle_read(done.tag, done.data);
                self.legs[leg.0].recycle(spare);
            }
            Err(error) => self.fail(JobError::ReadBack {
                offset_bytes: at - self.config.destination_offset_bytes,
                error,
            }),
        }
    }

    pub(super) fn read_back_on(&mut self, now: Time) {
        let Stage::Verifying(checks) = &mut self.stage else {
            return;
        };
        let mut reads = Vec::new();
        for (stream, check) in checks.iter_mut().enumerate() {
            reads.extend(std::iter::from_fn(|| check.poll_read()).map(|read| (stream, read)));
        }
        if checks.iter().all(Check::is_over) {
            self.verified = outcome(checks);
            self.stage = Stage::Verified;
            self.events.push_back(JobEvent::Verified);
            if let (_, blocks, Some(offset_bytes)) = self.verified {
                self.fail(JobError::Mismatch {
                    offset_bytes,
                    blocks,
                });
            }
        }
        for (stream, read) in reads {
            self.submit_read(now, Leg(2 * stream + 1), read);
        }
    }

    /// Bytes compared so far, blocks that differ, and where in the image the first of them lies.
    pub(super) fn verified(&self) -> (u64, u64, Option<u64>) {
        match &self.stage {
            Stage::Verifying(checks) => outcome(checks),
            _ => self.verified,
        }
    }
}

/// What all parts' checks have found.
fn outcome(checks: &[Check]) -> (u64, u64, Option<u64>) {
    let outcomes = checks.iter().map(Check::outcome);
    outcomes.fold((0, 0, None), |sum, one| {
        let first = sum.2.into_iter().chain(one.2).min();
        (sum.0 + one.0, sum.1 + one.1, first)
    })
}
