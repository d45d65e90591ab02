//! The use of one file by a tool: the operation to begin next, and what each end of an operation
//! changes.
use std::sync::Arc;

use hakaru_units::Time;

use crate::forest::FileId;
use crate::meter::Journal;
use crate::operation::{Action, OpenMode, OperationId, Outcome};

/// The use of one file.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) file: FileId,
    /// Folders on the way that are not looked up yet, the next one last, with their levels.
    pub(crate) walk: Vec<(u32, Arc<str>)>,
    pub(crate) path: Arc<str>,
    pub(crate) direction: OpenMode,
    pub(crate) size: u64,
    /// Bytes of which the read or write was begun.
    pub(crate) begun: u64,
    /// Bytes that were read or written.
    pub(crate) done: u64,
    /// Operation to begin next, if those in flight succeed.
    pub(crate) state: State,
    pub(crate) began: Option<Time>,
    /// Whether the file was opened, and not closed yet.
    pub(crate) opened: bool,
    /// Last operation that was in flight when another one failed. Failures up to it follow from the
    /// first one.
    pub(crate) doomed: Option<OperationId>,
    pub(crate) failed: bool,
    /// Whether the tool was stopped before the file was complete.
    pub(crate) aborted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On the way to the file, or at it.
    Walking,
    Transferring,
    Flushing,
    Closing,
    Stating,
    Renaming,
    Deleting,
    /// Nothing is left to begin.
    Ended,
}

impl Step {
    /// Returns whether the file is open for writing and shorter than described.
    pub(crate) fn is_cut(&self) -> bool {
        self.opened && self.direction == OpenMode::Write && self.done < self.size
    }

    /// Advances the step past the begin of an operation. `flushes`: whether written files are
    /// flushed.
    pub(crate) fn handle_begun(&mut self, action: &Action, flushes: bool) {
        match action {
            Action::Lookup { .. } => {
                self.walk.pop();
            }
            Action::Open { .. } => self.state = State::Transferring,
            &Action::Read { length, .. } | &Action::Write { length, .. } => {
                self.begun += u64::from(length);
            }
            Action::Flush => self.state = State::Closing,
            Action::Create => self.state = State::Stating,
            Action::Stat => self.state = State::Renaming,
            Action::Rename { .. } => self.state = State::Deleting,
            Action::Close | Action::Delete => self.state = State::Ended,
        }
        if self.state == State::Transferring && self.begun == self.size {
            self.state = match flushes && self.direction == OpenMode::Write {
                true => State::Flushing,
                false => State::Closing,
            };
        }
    }

    /// Advances the step past the end of an operation. `alone`: no other one is in flight.
    ///
    /// # Errors
    /// The operation failed, or its result is not that of the described file. The step's state is
    /// then that of what must still be done.
    pub(crate) fn handle_ended(
        &mut self,
        action: &Action,
        outcome: Outcome,
        alone: bool,
        journal: &mut Journal,
    ) -> Result<(), String> {
        if *action == Action::Close {
            self.opened = false;
        }
        let bytes = match outcome {
            Ok(bytes) => bytes,
            Err(reason) => {
                match action {
                    Action::Read { .. } | Action::Write { .. } | Action::Flush => self.give_up(),
                    // The file exists under its old name, and is not left behind.
                    Action::Stat => self.state = State::Renaming,
                    _ => self.state = State::Ended,
                }
                return Err(reason);
            }
        };
        match action {
            Action::Open { mode } => {
                self.opened = true;
                if *mode == OpenMode::Read && bytes != self.size {
                    self.give_up();
                    return Err(format!(
                        "the file has {bytes} bytes instead of {}",
                        self.size
                    ));
                }
            }
            &Action::Read { offset, length } | &Action::Write { offset, length } => {
                let reads = matches!(action, Action::Read { .. });
                let short = bytes < u64::from(length);
                // The rest is transferred next, unless parts behind it are already under way.
                if bytes == 0 || bytes > u64::from(length) || (short && !alone) {
                    self.give_up();
                    let verb = if reads { "read" } else { "written" };
                    return Err(format!("{bytes} of {length} bytes {verb} at {offset}"));
                }
                if short && !self.failed {
                    self.begun = offset + bytes;
                    self.state = State::Transferring;
                }
                self.done += bytes;
                *(if reads {
                    &mut journal.read_bytes
                } else {
                    &mut journal.written_bytes
                }) += bytes;
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves only the close of the file to be begun, if it was not begun yet.
    fn give_up(&mut self) {
        if self.state != State::Ended {
            self.state = State::Closing;
        }
    }
}
