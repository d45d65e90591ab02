//! Steps of one file that are begun before those ahead of them have ended: a file that fits in one
//! request as one compound of open, transfer and close, a larger one with several reads or writes in
//! flight.
//!
//! [`FileSteps`](crate::FileSteps) is for programs that wait for each step.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::connection::Connection;
use crate::error::OpError;
use crate::op::{Done, Op, OpId, Output, ReadData};
use crate::steps::{Step, StepDone, StepError, operations};
use crate::wire::FileId;

/// The steps of one file on a connection. Several of them may be in flight.
#[derive(Debug, Default)]
pub struct FileRun {
    /// The open file.
    file: Option<FileId>,
    in_flight: VecDeque<Sent>,
    /// Compound of which a step has failed.
    failed: Option<OpId>,
    /// CLOSE of a file that the compound which opened it did not close.
    rescues: Vec<OpId>,
}

/// A step in flight.
#[derive(Debug)]
struct Sent {
    id: OpId,
    /// First step of its compound.
    compound: OpId,
    effect: Effect,
}

/// Effect of a step on the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    Opens,
    Closes,
}

impl From<&Step> for Effect {
    fn from(step: &Step) -> Effect {
        match step {
            Step::OpenRead { .. } | Step::OpenWrite { .. } => Effect::Opens,
            Step::Close => Effect::Closes,
            _ => Effect::None,
        }
    }
}

impl FileRun {
    /// Creates a run without an open file.
    #[must_use]
    pub fn new() -> FileRun {
        FileRun::default()
    }

    /// Begins steps of a file, in order. Reads and writes alone are requests apart, which the server
    /// may carry out at once. With an open, a flush or a close among them the steps are one
    /// compound, which it carries out one after the other. Returns the id of the first step; those
    /// of the others follow it.
    ///
    /// # Errors
    /// A step needs an open file and there is none, or the other way round. Nothing is sent.
    ///
    /// # Panics
    /// Panics without a step, or for steps other than open, read, write, flush and close, which is a
    /// defect of the caller.
    pub fn begin(
        &mut self,
        now: Time,
        connection: &mut Connection,
        steps: Vec<Step>,
    ) -> Result<OpId, StepError> {
        let is_transfer = |step: &Step| matches!(step, Step::Read { .. } | Step::Write { .. });
        let apart = steps.iter().all(is_transfer);
        let effects: Vec<Effect> = steps.iter().map(Effect::from).collect();
        let mut ops = Vec::with_capacity(steps.len());
        for (place, step) in steps.into_iter().enumerate() {
            let behind = place > 0;
            if effects[place] == Effect::Opens && (behind || self.file.is_some()) {
                return Err(StepError::Open);
            }
            // Requests behind the first use the file that it opens or names.
            let file = match behind && !apart {
                true => Some(FileId::RELATED),
                false => self.file,
            };
            let mut requests = operations(step, file)?;
            assert_eq!(requests.len(), 1, "a step of one request");
            ops.extend(requests.pop_front());
        }
        let first = match apart {
            true => {
                let ids = ops.into_iter().map(|op: Op| connection.submit(now, op));
                // All are submitted; the ids follow each other.
                ids.collect::<Vec<_>>()[0]
            }
            false => connection.submit_related(now, ops),
        };
        for (id, effect) in (first.0..).map(OpId).zip(effects) {
            let compound = if apart { id } else { first };
            self.in_flight.push_back(Sent {
                id,
                compound,
                effect,
            });
        }
        Ok(first)
    }

    /// Returns whether an operation belongs to a step in flight.
    #[must_use]
    pub fn owns(&self, id: OpId) -> bool {
        self.rescues.contains(&id) || self.in_flight.iter().any(|sent| sent.id == id)
    }

    /// Handles the end of an operation. Returns the step that has ended with it, which was begun
    /// when it was submitted; `None` for the close of a file whose compound failed before it closed
    /// the file.
    ///
    /// # Panics
    /// Panics if the operation does not belong to a step in flight (see [`FileRun::owns`]), which is
    /// a defect of the caller.
    pub fn handle_done(
        &mut self,
        now: Time,
        connection: &mut Connection,
        done: Done,
    ) -> Option<StepDone> {
        if let Some(place) = self.rescues.iter().position(|id| *id == done.id) {
            self.rescues.swap_remove(place);
            return None;
        }
        let place = self.in_flight.iter().position(|sent| sent.id == done.id);
        let sent = place.and_then(|place| self.in_flight.remove(place));
        let sent = sent.expect("an operation of another program");
        let mut data = ReadData::default();
        let result = done.result.map(|output| match output {
            Output::Created(response) => {
                self.file = Some(response.file);
                response.facts.length_bytes
            }
            Output::Read { length, data: read } => {
                data = read;
                length.into()
            }
            Output::Written(count) => count.into(),
            _ => 0,
        });
        let result = result.map_err(StepError::from);
        if sent.effect == Effect::Closes
            && let Some(file) = self.file.take()
        {
            let lost = matches!(result, Err(StepError::Op(OpError::Lost(_))));
            if result.is_err() && self.failed == Some(sent.compound) && !lost {
                // Servers fail the requests behind a failed one, so the file is still open.
                let rescue = connection.submit(now, Op::Close { file });
                self.rescues.push(rescue);
            }
        }
        if result.is_err() {
            self.failed = Some(sent.compound);
        }
        Some(StepDone {
            begun: done.submitted,
            ended: done.completed,
            result,
            data,
        })
    }
}
