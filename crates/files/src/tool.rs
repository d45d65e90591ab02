//! One tool: it uses the files of a tree in a drawn order, one operation after the other.
use std::sync::Arc;

use hakaru_contract::files::FilesProfile;
use hakaru_units::Time;

use crate::draw::{self, Use};
use crate::forest::{FileId, Forest, Role};
use crate::meter::Journal;
use crate::operation::{
    Action, Completion, Failed, Measured, OpenMode, Operation, OperationId, Outcome,
};
use crate::settings::Settings;

/// A tool.
#[derive(Debug)]
pub struct Tool {
    forest: Arc<Forest>,
    settings: Arc<Settings>,
    number: u32,
    next_id: u64,
    /// Files of the current tree that are still to be used, the next one last.
    remaining: Vec<FileId>,
    /// Whether a tree is being used.
    has_unit: bool,
    step: Option<Step>,
    in_flight: Option<Operation>,
    stopping: bool,
    cutting: bool,
    has_cut: bool,
}

/// The use of one file.
#[derive(Debug)]
struct Step {
    file: FileId,
    /// Folders on the way that are not looked up yet, the next one last, with their levels.
    walk: Vec<(u32, Arc<str>)>,
    path: Arc<str>,
    direction: OpenMode,
    size: u64,
    /// Bytes that were read or written.
    done: u64,
    state: State,
    began: Option<Time>,
    failed: bool,
    /// Whether the tool was stopped before the file was complete.
    aborted: bool,
}

impl Step {
    /// Returns whether the file is open for writing and shorter than described.
    fn is_cut(&self) -> bool {
        let is_open = matches!(
            self.state,
            State::Transferring | State::Flushing | State::Closing
        );
        is_open && self.direction == OpenMode::Write && self.done < self.size
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Walking,
    Transferring,
    Flushing,
    Closing,
    Stating,
    Renaming,
    Deleting,
    Ended,
}

/// The first difference between what was read and the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Path of the file.
    pub path: Arc<str>,
    /// Place of the first wrong byte.
    pub offset: u64,
}

impl Tool {
    /// Creates a tool without work. `number` is that of the tool among all of its engine.
    #[must_use]
    pub fn new(forest: Arc<Forest>, settings: Arc<Settings>, number: u32) -> Tool {
        Tool {
            forest,
            settings,
            number,
            next_id: 0,
            remaining: Vec::new(),
            has_unit: false,
            step: None,
            in_flight: None,
            stopping: false,
            cutting: false,
            has_cut: false,
        }
    }

    /// Returns whether the tool has no work left: it needs a tree, or it has stopped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none()
            && self.step.is_none()
            && (self.stopping || self.remaining.is_empty())
    }

    /// Gives an idle tool the targets of a tree.
    pub fn assign(&mut self, tree: u32) {
        debug_assert!(self.is_idle(), "a tool uses one tree at a time");
        let targets = self.forest.config().targets;
        self.remaining = (0..targets)
            .map(|index| FileId {
                tree,
                role: Role::Target,
                index,
            })
            .collect();
        // Fisher and Yates: every order is equally likely.
        for last in (1..self.remaining.len()).rev() {
            let place = [tree, last as u32, 0];
            let bits = draw::bits(self.settings.seed, Use::Order, place, 0);
            self.remaining
                .swap(last, draw::below(bits, last as u64 + 1) as usize);
        }
        self.has_unit = true;
    }

    /// Ends the work: a file that is read is closed, one that is written is completed, and no other
    /// file is begun.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Ends the work as [`Tool::stop`], but closes a file that is written too.
    pub fn cut(&mut self) {
        self.stopping = true;
        self.cutting = true;
    }

    /// Returns whether a file was opened for writing, and not all of it written: because of
    /// [`Tool::cut`], of a failure, or because it is in work. It is shorter than described.
    #[must_use]
    pub fn has_cut(&self) -> bool {
        self.has_cut || self.step.as_ref().is_some_and(Step::is_cut)
    }

    /// Returns the next operation. Returns `None` while one is in flight, and if the tool is idle.
    pub fn poll_operation(&mut self) -> Option<Operation> {
        if self.in_flight.is_some() {
            return None;
        }
        if self.step.is_none() {
            if self.stopping {
                return None;
            }
            let file = self.remaining.pop()?;
            self.step = Some(self.begin_step(file));
        }
        let step = self.step.as_ref()?;
        let (path, action) = self.next_action(step);
        let operation = Operation {
            id: OperationId(self.next_id),
            tool: self.number,
            file: step.file,
            path,
            action,
        };
        self.next_id += 1;
        self.in_flight = Some(operation.clone());
        Some(operation)
    }

    /// Writes the data of the write in flight. `out` has its length.
    pub fn fill(&self, out: &mut [u8]) {
        if let Some(Operation {
            file,
            action: Action::Write { offset, .. },
            ..
        }) = &self.in_flight
        {
            self.forest.fill(*file, *offset, out);
        }
    }

    /// Compares the data of the read in flight with the description, if the settings ask for it.
    /// `scratch` is at least as long as `data`.
    pub fn check(
        &self,
        data: &[u8],
        scratch: &mut [u8],
        journal: &mut Journal,
    ) -> Option<Mismatch> {
        let Some(Operation {
            file,
            path,
            action: Action::Read { offset, .. },
            ..
        }) = &self.in_flight
        else {
            return None;
        };
        if !self.settings.verify {
            return None;
        }
        let expected = &mut scratch[..data.len()];
        self.forest.fill(*file, *offset, expected);
        journal.verified_bytes += data.len() as u64;
        let wrong = data
            .iter()
            .zip(expected)
            .position(|(is, should)| is != should)?;
        journal.mismatches += 1;
        Some(Mismatch {
            path: Arc::clone(path),
            offset: offset + wrong as u64,
        })
    }

    /// Handles the end of the operation in flight. A completion of another one is ignored.
    ///
    /// A failed operation ends the use of its file; an open file is still closed.
    pub fn handle_completion(&mut self, completion: Completion, journal: &mut Journal) {
        let Some(operation) = self.in_flight.take_if(|o| o.id == completion.id) else {
            return;
        };
        let Some(step) = &mut self.step else {
            return;
        };
        if operation.action == Action::Close {
            self.has_cut |= step.is_cut();
        }
        let began = *step.began.get_or_insert(completion.started);
        let of = Measured::from(&operation.action);
        match advance(step, &operation.action, completion.outcome, journal) {
            Ok(()) => {
                journal.record(of, completion.ended.ns_since(completion.started));
            }
            Err(reason) => {
                step.failed = true;
                journal.fail(Failed {
                    path: operation.path,
                    of,
                    reason,
                });
            }
        }
        if step.state == State::Transferring && step.done == step.size {
            let flushes = self.settings.flush && step.direction == OpenMode::Write;
            step.state = if flushes {
                State::Flushing
            } else {
                State::Closing
            };
        }
        let ends_now = self.cutting || self.stopping && step.direction == OpenMode::Read;
        if ends_now && step.state == State::Transferring {
            step.aborted = true;
            step.state = State::Closing;
        } else if self.stopping && step.state == State::Walking {
            // Nothing is open, and nothing was begun that must be undone.
            self.step = None;
            return;
        }
        if step.state == State::Ended {
            let is_copy = self.settings.profile == FilesProfile::WholeFiles;
            let whole = match step.direction {
                _ if !is_copy => Measured::Step,
                OpenMode::Read => Measured::FileRead,
                OpenMode::Write => Measured::FileWrite,
            };
            if step.failed {
                journal.files_failed += 1;
            } else if !step.aborted {
                journal.record(whole, completion.ended.ns_since(began));
            }
            self.step = None;
            if self.remaining.is_empty() && std::mem::take(&mut self.has_unit) {
                journal.units_done += 1;
            }
        }
    }

    fn begin_step(&self, file: FileId) -> Step {
        let (forest, settings) = (&self.forest, &self.settings);
        let mut folder_path = String::new();
        let mut walk: Vec<(u32, Arc<str>)> = Vec::new();
        for (above, folder) in forest
            .shape()
            .chain(file.tree, forest.folder(file))
            .into_iter()
            .enumerate()
        {
            if above > 0 {
                folder_path.push('/');
            }
            folder_path.push_str(&crate::shape::folder_name(file.tree, folder));
            walk.push((above as u32 + 1, folder_path.as_str().into()));
        }
        walk.reverse();
        let bits = draw::bits(settings.seed, Use::Direction, [file.tree, file.index, 0], 0);
        let reads = draw::below(bits, 100) < u64::from(settings.read_percent);
        let path = match settings.profile {
            FilesProfile::WholeFiles => format!("{folder_path}/{}", forest.file_name(file)),
            // Tools of several engines may work in one folder.
            FilesProfile::Metadata => {
                let [name, _] = forest.passing_names(file);
                format!("{folder_path}/{name}")
            }
        };
        Step {
            file,
            walk,
            path: path.into(),
            direction: if reads {
                OpenMode::Read
            } else {
                OpenMode::Write
            },
            size: forest.size(file),
            done: 0,
            state: State::Walking,
            began: None,
            failed: false,
            aborted: false,
        }
    }

    fn next_action(&self, step: &Step) -> (Arc<str>, Action) {
        let rest = (step.size - step.done).min(u64::from(self.settings.block_bytes)) as u32;
        let metadata = self.settings.profile == FilesProfile::Metadata;
        let renamed: Arc<str> = match step.state {
            State::Renaming | State::Deleting => {
                let [_, renamed] = self.forest.passing_names(step.file);
                let folder = step.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                format!("{folder}/{renamed}").into()
            }
            _ => Arc::clone(&step.path),
        };
        let action = match (step.state, step.walk.last()) {
            (State::Walking, Some((level, path))) => {
                return (Arc::clone(path), Action::Lookup { level: *level });
            }
            (State::Walking, None) if metadata => Action::Create,
            (State::Walking, None) => Action::Open {
                mode: step.direction,
            },
            (State::Transferring, _) if step.direction == OpenMode::Read => Action::Read {
                offset: step.done,
                length: rest,
            },
            (State::Transferring, _) => Action::Write {
                offset: step.done,
                length: rest,
            },
            (State::Flushing, _) => Action::Flush,
            (State::Closing | State::Ended, _) => Action::Close,
            (State::Stating, _) => Action::Stat,
            (State::Renaming, _) => Action::Rename { to: renamed },
            (State::Deleting, _) => return (renamed, Action::Delete),
        };
        (Arc::clone(&step.path), action)
    }
}

/// Advances a step past a completed operation.
///
/// # Errors
/// The operation failed, or its result is not that of the described file. The step's state is then
/// that of what must still be done.
fn advance(
    step: &mut Step,
    action: &Action,
    outcome: Outcome,
    journal: &mut Journal,
) -> Result<(), String> {
    let holds_file = matches!(
        action,
        Action::Read { .. } | Action::Write { .. } | Action::Flush
    );
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(reason) => {
            step.state = match action {
                _ if holds_file => State::Closing,
                // The file exists under its old name, and is not left behind.
                Action::Stat => State::Renaming,
                _ => State::Ended,
            };
            return Err(reason);
        }
    };
    match action {
        Action::Lookup { .. } => {
            step.walk.pop();
        }
        Action::Open { mode } => {
            step.state = State::Transferring;
            if *mode == OpenMode::Read && bytes != step.size {
                step.state = State::Closing;
                return Err(format!(
                    "the file has {bytes} bytes instead of {}",
                    step.size
                ));
            }
        }
        Action::Read { length, .. } | Action::Write { length, .. } => {
            let reads = matches!(action, Action::Read { .. });
            if bytes == 0 || bytes > u64::from(*length) {
                step.state = State::Closing;
                let verb = if reads { "read" } else { "written" };
                return Err(format!("{bytes} of {length} bytes {verb} at {}", step.done));
            }
            step.done += bytes;
            *(if reads {
                &mut journal.read_bytes
            } else {
                &mut journal.written_bytes
            }) += bytes;
        }
        Action::Flush => step.state = State::Closing,
        Action::Create => step.state = State::Stating,
        Action::Stat => step.state = State::Renaming,
        Action::Rename { .. } => step.state = State::Deleting,
        Action::Close | Action::Delete => step.state = State::Ended,
    }
    Ok(())
}
