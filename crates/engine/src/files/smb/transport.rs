//! Operations of a tool as steps of its session.
use std::io;
use std::sync::Arc;

use hakaru_files::{Action, OpenMode, Operation};
use hakaru_smb::{Step, WriteData};

use super::session::Session;
use crate::failure::Failure;
use crate::files::root::Transport;

/// State of one tool.
pub struct ShareTransport {
    session: Session,
    /// Whether the data of reads is needed.
    keep: bool,
}

impl ShareTransport {
    pub fn new(session: Session, keep: bool) -> ShareTransport {
        ShareTransport { session, keep }
    }

    /// Returns the step of an operation. A read or write has at most what the server allows.
    fn step_of(&self, operation: &Operation, buffer: &Arc<Vec<u8>>) -> Step {
        let path = self.session.path(&operation.path);
        let facts = self.session.facts();
        match &operation.action {
            Action::Lookup { .. } => Step::Lookup { path },
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
    fn execute(&mut self, operation: &Operation, buffer: &mut Arc<Vec<u8>>) -> io::Result<u64> {
        let step = self.step_of(operation, buffer);
        let ended = self.session.step(step)?;
        if self.keep && !ended.data.is_empty() {
            Arc::make_mut(buffer)[..ended.data.len()].copy_from_slice(&ended.data);
        }
        ended.result.map_err(super::problem::io_error)
    }

    fn lost(&self) -> Option<Failure> {
        self.session.lost()
    }
}
