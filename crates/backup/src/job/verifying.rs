//! The verification: reads the copy back, each part by its [`Check`].
use hakaru_iscsi_session::{Done, TaskError};
use hakaru_units::Time;

use super::{Job, JobEvent, Leg, Stage, check_length};
use crate::check::{Check, Outcome};
use crate::error::JobError;
use crate::part::Read;

impl Job {
    pub(super) fn handle_read_back(&mut self, now: Time, leg: Leg, done: Done) {
        let Stage::Verifying(checks) = &mut self.stage else {
            return;
        };
        let check = &mut checks[leg.stream()];
        let (at, length) = check.piece(done.tag);
        let met_filemark =
            matches!(done.result, Err(TaskError::Check(sense)) if sense.stream.filemark);
        if let Some(tape) = &mut self.tape
            && tape.passes_filemark(met_filemark)
        {
            self.legs.recycle(leg, done.data);
            let read = Read {
                block: done.tag,
                offset_bytes: at,
                length_bytes: length,
            };
            return self.submit_read(now, leg, read);
        }
        match check_length(done.result, length) {
            Ok(()) => {
                let spare = check.handle_read(done.tag, done.data);
                self.legs.recycle(leg, spare);
            }
            Err(error) => self.fail(JobError::ReadBack {
                offset_bytes: at - self.config.destination_offset_bytes,
                error,
            }),
        }
    }

    pub(super) fn continue_read_back(&mut self, now: Time) {
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
            if let Some(offset_bytes) = self.verified.first_mismatch {
                let blocks = self.verified.mismatches;
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

    /// Returns the result of the verification so far.
    pub(super) fn verified(&self) -> Outcome {
        match &self.stage {
            Stage::Verifying(checks) => outcome(checks),
            _ => self.verified,
        }
    }
}

/// Returns the sum of the results of all parts.
fn outcome(checks: &[Check]) -> Outcome {
    let outcomes = checks.iter().map(Check::outcome);
    outcomes.fold(Outcome::default(), Outcome::plus)
}
