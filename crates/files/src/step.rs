//! The use of one file by a tool: the operation to begin next, and what each end of an operation
//! changes.
use std::collections::HashSet;
use std::sync::Arc;

use hakaru_contract::files::UserOperation;
use hakaru_units::Time;

use crate::draw::{self, Use};
use crate::forest::{FileId, Forest};
use crate::meter::Journal;
use crate::operation::{Action, Measured, OpenMode, OperationId, Outcome};
use crate::settings::Settings;
use crate::shape::folder_name;

/// Work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Read or write the file, whichever is drawn.
    WholeFile,
    /// Create, stat, rename and delete an empty file beside it.
    Metadata,
    /// An operation of a user. `renamed`: whether the file that the user created was renamed.
    Of {
        operation: UserOperation,
        renamed: bool,
    },
}

/// Operations of a step behind its walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Open, transfer and close.
    Copy,
    /// Open and close.
    Open,
    Metadata,
    List,
    Stat,
    Create,
    Rename {
        to: Arc<str>,
    },
    Delete,
}

/// The use of one file.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) file: FileId,
    /// Folders on the way that are not looked up yet, the next one last, with their levels.
    pub(crate) walk: Vec<(u32, Arc<str>)>,
    /// Path of the file, or of the folder to list.
    pub(crate) path: Arc<str>,
    pub(crate) act: Act,
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
    /// Whether the step removes what a stopped tool would leave behind.
    pub(crate) tidies: bool,
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
    /// Plans a step. Folders in `known` are not looked up.
    pub(crate) fn new(
        forest: &Forest,
        settings: &Settings,
        known: &HashSet<Arc<str>>,
        file: FileId,
        job: Job,
    ) -> Step {
        let mut folder = String::new();
        let mut walk: Vec<(u32, Arc<str>)> = Vec::new();
        let chain = forest.shape().chain(file.tree, forest.folder(file));
        for (above, number) in chain.into_iter().enumerate() {
            if above > 0 {
                folder.push('/');
            }
            folder.push_str(&folder_name(file.tree, number));
            if !known.contains(folder.as_str()) {
                walk.push((above as u32 + 1, folder.as_str().into()));
            }
        }
        walk.reverse();
        let reads = match job {
            Job::WholeFile => {
                let bits = draw::bits(settings.seed, Use::Direction, [file.tree, file.index, 0], 0);
                draw::below(bits, 100) < u64::from(settings.read_percent)
            }
            Job::Of { operation, .. } => operation != UserOperation::Write,
            Job::Metadata => true,
        };
        let (path, act) = path_and_act(forest, &folder, file, job);
        let size = forest.size(file);
        Step {
            file,
            walk,
            path,
            direction: match reads {
                true => OpenMode::Read,
                false => OpenMode::Write,
            },
            size,
            begun: if act == Act::Open { size } else { 0 },
            act,
            done: 0,
            state: State::Walking,
            began: None,
            opened: false,
            doomed: None,
            failed: false,
            aborted: false,
            tidies: false,
        }
    }

    /// Returns the next operation and its path. `block`: bytes of a read or write.
    pub(crate) fn next_action(&self, forest: &Forest, block: u64) -> (Arc<str>, Action) {
        let reads = self.direction == OpenMode::Read;
        let (offset, length) = (self.begun, (self.size - self.begun).min(block) as u32);
        let renamed = || -> Arc<str> {
            let [_, renamed] = forest.passing_names(self.file);
            let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{renamed}").into()
        };
        let action = match (self.state, self.walk.last()) {
            (State::Walking, Some((level, path))) => {
                return (Arc::clone(path), Action::Lookup { level: *level });
            }
            (State::Walking, None) => match &self.act {
                Act::Copy | Act::Open => Action::Open {
                    mode: self.direction,
                },
                Act::Metadata | Act::Create => Action::Create,
                Act::List => Action::List,
                Act::Stat => Action::Stat,
                Act::Rename { to } => Action::Rename { to: Arc::clone(to) },
                Act::Delete => Action::Delete,
            },
            (State::Transferring, _) if reads => Action::Read { offset, length },
            (State::Transferring, _) => Action::Write { offset, length },
            (State::Flushing, _) => Action::Flush,
            (State::Closing | State::Ended, _) => Action::Close,
            (State::Stating, _) => Action::Stat,
            (State::Renaming, _) => Action::Rename { to: renamed() },
            (State::Deleting, _) => return (renamed(), Action::Delete),
        };
        (Arc::clone(&self.path), action)
    }

    /// Returns the kind of the step as a whole.
    pub(crate) fn measured(&self) -> Measured {
        match (&self.act, self.direction) {
            (Act::Copy, OpenMode::Read) => Measured::FileRead,
            (Act::Copy, OpenMode::Write) => Measured::FileWrite,
            _ => Measured::Step,
        }
    }

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
            Action::Create if self.act == Act::Metadata => self.state = State::Stating,
            Action::Stat if self.act == Act::Metadata => self.state = State::Renaming,
            Action::Rename { .. } if self.act == Act::Metadata => self.state = State::Deleting,
            Action::Create
            | Action::Stat
            | Action::Rename { .. }
            | Action::Close
            | Action::Delete
            | Action::List => self.state = State::Ended,
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
                    Action::Stat if self.act == Act::Metadata => self.state = State::Renaming,
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
            Action::List => journal.entries_listed += bytes,
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

/// Returns the path that a step is about, and its operations.
fn path_and_act(forest: &Forest, folder: &str, file: FileId, job: Job) -> (Arc<str>, Act) {
    let in_folder = |name: &str| -> Arc<str> { format!("{folder}/{name}").into() };
    // Tools of several engines may work in one folder, so created files are named after targets.
    let passing = |renamed: bool| in_folder(&forest.passing_names(file)[usize::from(renamed)]);
    let (operation, renamed) = match job {
        Job::WholeFile => return (in_folder(&forest.file_name(file)), Act::Copy),
        Job::Metadata => return (passing(false), Act::Metadata),
        Job::Of { operation, renamed } => (operation, renamed),
    };
    match operation {
        UserOperation::List => (folder.into(), Act::List),
        UserOperation::Stat => (in_folder(&forest.file_name(file)), Act::Stat),
        UserOperation::Open => (in_folder(&forest.file_name(file)), Act::Open),
        UserOperation::Read | UserOperation::Write => {
            (in_folder(&forest.file_name(file)), Act::Copy)
        }
        UserOperation::Create => (passing(false), Act::Create),
        UserOperation::Rename => {
            let to = passing(!renamed);
            (passing(renamed), Act::Rename { to })
        }
        UserOperation::Delete => (passing(renamed), Act::Delete),
    }
}
