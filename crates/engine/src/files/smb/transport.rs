//! Operations of a tool as steps of its session.
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use hakaru_contract::smb::SmbCompound;
use hakaru_files::{Action, Ahead, Conduct, OpenMode, Operation, OperationId};
use hakaru_runtime::clock;
use hakaru_smb::{OpId, Step, StepDone, WriteData};
use hakaru_units::Time;

use super::problem::io_error;
use super::session::Session;
use super::settings::Settings;
use crate::failure::Failure;
use crate::files::root::{Ended, Transport};

/// Reads or writes of a file at once, as far as the credits cover them.
const TRANSFERS_MAX: u32 = 4;

/// State of one tool.
pub struct ShareTransport {
    session: Session,
    /// Whether the data of reads is needed.
    keep: bool,
    conduct: Conduct,
    /// Operations in flight, each with its step.
    in_flight: VecDeque<(OpId, OperationId)>,
    /// Operations that ended when they were begun.
    at_once: Vec<Ended>,
    done: Vec<(OpId, StepDone)>,
}

impl ShareTransport {
    pub fn new(session: Session, keep: bool, settings: &Settings) -> ShareTransport {
        let ahead = (settings.compound == SmbCompound::File).then(|| {
            let facts = session.facts();
            let limit = |bytes: Option<u32>| bytes.unwrap_or(1).max(1);
            let read_bytes_max = limit(facts.map(|facts| facts.read_bytes_max));
            let write_bytes_max = limit(facts.map(|facts| facts.write_bytes_max));
            let transfers = settings.transfers(read_bytes_max.max(write_bytes_max));
            Ahead {
                read_bytes_max,
                write_bytes_max,
                transfers: transfers.clamp(1, TRANSFERS_MAX) as usize,
            }
        });
        ShareTransport {
            session,
            keep,
            conduct: Conduct {
                caches_folders: settings.folder_cache,
                ahead,
            },
            in_flight: VecDeque::new(),
            at_once: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Returns the step of an operation. A read or write has at most what the server allows.
    fn step_of(&self, operation: &Operation, buffer: &Arc<Vec<u8>>) -> Step {
        let path = self.session.path(&operation.path);
        let facts = self.session.facts();
        match &operation.action {
            Action::Lookup { .. } => Step::Lookup { path },
            Action::List => Step::List { path },
            Action::Open {
                mode: OpenMode::Read,
            } => Step::OpenRead { path },
            Action::Open {
                mode: OpenMode::Write,
            } => Step::OpenWrite { path },
            &Action::Read { offset, length } => Step::Read {
                offset,
                length: facts.map_or(length, |facts| length.min(facts.read_bytes_max)),
                keep: self.keep,
            },
            &Action::Write { offset, length } => {
                let length = facts.map_or(length, |facts| length.min(facts.write_bytes_max));
                let data = WriteData {
                    buffer: Arc::clone(buffer),
                    range: 0..length as usize,
                };
                Step::Write { offset, data }
            }
            Action::Flush => Step::Flush,
            Action::Close => Step::Close,
            Action::Create => Step::Create { path },
            Action::Stat => Step::Stat { path },
            Action::Rename { to } => Step::Rename {
                path,
                to: self.session.path(to),
            },
            Action::Delete => Step::Delete { path },
        }
    }
}

impl Transport for ShareTransport {
    fn conduct(&self) -> Conduct {
        self.conduct
    }

    fn begin(&mut self, operations: Vec<(Operation, Option<Arc<Vec<u8>>>)>) {
        let started = clock::now();
        if let [(operation, None)] = &operations[..]
            && !is_of_open_file(&operation.action)
        {
            // Requests of an operation by path, such as a lookup, which begin with an open.
            let ended = self.session.step(self.step_of(operation, &Arc::default()));
            let outcome = ended.and_then(|ended| ended.result.map_err(io_error));
            return self.at_once.push(ended_at(operation.id, started, outcome));
        }
        let nothing = Arc::default();
        let steps = operations.iter().map(|(operation, data)| {
            let data = data.as_ref().unwrap_or(&nothing);
            self.step_of(operation, data)
        });
        let steps = steps.collect();
        let operations = operations.into_iter().map(|(operation, _)| operation.id);
        match self.session.begin_steps(steps) {
            Ok(first) => {
                let ids = (first.0..).map(OpId);
                self.in_flight.extend(ids.zip(operations));
            }
            Err(error) => {
                let refused = operations.map(|id| ended_at(id, started, Err(copy_of(&error))));
                self.at_once.extend(refused);
            }
        }
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) {
        if !self.at_once.is_empty() {
            return ended.append(&mut self.at_once);
        }
        let waited = self.session.wait(&mut self.done);
        for (id, step) in self.done.drain(..) {
            let place = self.in_flight.iter().position(|(op, _)| *op == id);
            let Some((_, operation)) = place.and_then(|place| self.in_flight.remove(place)) else {
                continue;
            };
            ended.push(Ended {
                id: operation,
                started: step.begun,
                ended: step.ended,
                outcome: step.result.map_err(io_error),
                data: step.data,
            });
        }
        if let Err(error) = waited {
            let now = clock::now();
            let left = self.in_flight.drain(..);
            ended.extend(left.map(|(_, id)| ended_at(id, now, Err(copy_of(&error)))));
        }
    }

    fn execute(&mut self, operation: &Operation, buffer: &mut Arc<Vec<u8>>) -> io::Result<u64> {
        let step = self.step_of(operation, buffer);
        let ended = self.session.step(step)?;
        if self.keep && !ended.data.is_empty() {
            Arc::make_mut(buffer)[..ended.data.len()].copy_from_slice(&ended.data);
        }
        ended.result.map_err(io_error)
    }

    fn lost(&self) -> Option<Failure> {
        self.session.lost()
    }
}

/// Returns whether an operation is the open of a file, or one on the open file.
fn is_of_open_file(action: &Action) -> bool {
    use Action::{Close, Flush, Open, Read, Write};
    let transfers = matches!(action, Read { .. } | Write { .. });
    transfers || matches!(action, Open { .. } | Flush | Close)
}

/// Returns an operation that was begun at `started` and ends now.
fn ended_at(id: OperationId, started: Time, outcome: io::Result<u64>) -> Ended {
    Ended {
        id,
        started,
        ended: clock::now(),
        outcome,
        data: Default::default(),
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
