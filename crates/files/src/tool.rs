//! One tool: it uses the files of a tree in a drawn order, one operation after the other, or the
//! operations of a file ahead of their ends.
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use hakaru_contract::files::FilesProfile;

use crate::draw::{self, Use};
use crate::forest::{FileId, Forest, Role};
use crate::meter::Journal;
use crate::operation::{Action, Completion, Failed, Measured, OpenMode, Operation, OperationId};
use crate::settings::Settings;
use crate::step::{State, Step};

/// Way in which a transport carries out the operations of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Whether a folder of a tree that was looked up is not looked up again, as by a client with a
    /// cache of folders.
    pub caches_folders: bool,
    /// Operations that are begun before those ahead of them have ended; `None`: one at a time.
    pub ahead: Option<Ahead>,
}

/// Limits of the operations that a transport carries out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Largest read, bytes, at least 1.
    pub read_bytes_max: u32,
    /// Largest write, bytes, at least 1.
    pub write_bytes_max: u32,
    /// Reads or writes of a file at once, at least 1.
    pub transfers: usize,
}

/// A tool.
#[derive(Debug)]
pub struct Tool {
    forest: Arc<Forest>,
    settings: Arc<Settings>,
    conduct: Conduct,
    number: u32,
    next_id: u64,
    /// Folders of the tree that need no further lookup.
    known: HashSet<Arc<str>>,
    /// Files of the current tree that are still to be used, the next one last.
    remaining: Vec<FileId>,
    /// Whether a tree is being used.
    has_unit: bool,
    step: Option<Step>,
    /// Operations in flight, in the order of their begin.
    in_flight: VecDeque<Operation>,
    stopping: bool,
    cutting: bool,
    has_cut: bool,
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
    pub fn new(
        forest: Arc<Forest>,
        settings: Arc<Settings>,
        number: u32,
        conduct: Conduct,
    ) -> Tool {
        Tool {
            forest,
            settings,
            conduct,
            number,
            next_id: 0,
            known: HashSet::new(),
            remaining: Vec::new(),
            has_unit: false,
            step: None,
            in_flight: VecDeque::new(),
            stopping: false,
            cutting: false,
            has_cut: false,
        }
    }

    /// Returns whether the tool has no work left: it needs a tree, or it has stopped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
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
        self.known.clear();
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

    /// Appends the operations to begin now. There is none while one is in flight, apart from reads
    /// and writes ahead, and if the tool is idle. Several operations with an open or a close among
    /// them belong together; they are one file's, in their order.
    ///
    /// A file is never closed or flushed while a read or write of an earlier call is in flight.
    pub fn poll_operations(&mut self, out: &mut Vec<Operation>) {
        if self.step.is_none() && !self.stopping {
            self.step = self.remaining.pop().map(|file| self.begin_step(file));
        }
        let alone = self.in_flight.is_empty();
        let Some(mut step) = self.step.take_if(|step| step.state != State::Ended) else {
            return;
        };
        while self.may_begin(&step, alone) {
            let (path, action) = self.next_action(&step);
            step.handle_begun(&action, self.settings.flush);
            let operation = Operation {
                id: OperationId(self.next_id),
                tool: self.number,
                file: step.file,
                path,
                action,
            };
            self.next_id += 1;
            self.in_flight.push_back(operation.clone());
            out.push(operation);
        }
        self.step = Some(step);
    }

    /// Returns whether the next operation of a step may begin. `alone`: none was in flight before
    /// this call.
    fn may_begin(&self, step: &Step, alone: bool) -> bool {
        let Some(last) = self.in_flight.back() else {
            return step.state != State::Ended;
        };
        let Some(ahead) = self.conduct.ahead else {
            return false;
        };
        let opens = matches!(last.action, Action::Open { .. });
        match step.state {
            // The second part of a file waits for its open: it needs the handle.
            State::Transferring => opens || (step.opened && self.in_flight.len() < ahead.transfers),
            State::Flushing | State::Closing => {
                let transfers =
                    |o: &&Operation| matches!(o.action, Action::Read { .. } | Action::Write { .. });
                alone && self.in_flight.iter().filter(transfers).count() <= 1
            }
            _ => false,
        }
    }

    /// Writes the data of a write. `out` has its length.
    pub fn fill(&self, operation: &Operation, out: &mut [u8]) {
        if let Action::Write { offset, .. } = operation.action {
            self.forest.fill(operation.file, offset, out);
        }
    }

    /// Compares the data of a read in flight with the description, if the settings ask for it.
    /// `scratch` is at least as long as `data`.
    pub fn check(
        &self,
        operation: &Operation,
        data: &[u8],
        scratch: &mut [u8],
        journal: &mut Journal,
    ) -> Option<Mismatch> {
        let Action::Read { offset, .. } = operation.action else {
            return None;
        };
        let wanted = self.step.as_ref().is_some_and(|step| !step.failed);
        if !self.settings.verify || !wanted {
            return None;
        }
        let expected = &mut scratch[..data.len()];
        self.forest.fill(operation.file, offset, expected);
        journal.verified_bytes += data.len() as u64;
        let wrong = data
            .iter()
            .zip(expected)
            .position(|(is, should)| is != should)?;
        journal.mismatches += 1;
        Some(Mismatch {
            path: Arc::clone(&operation.path),
            offset: offset + wrong as u64,
        })
    }

    /// Returns an operation in flight.
    #[must_use]
    pub fn operation(&self, id: OperationId) -> Option<&Operation> {
        self.in_flight.iter().find(|operation| operation.id == id)
    }

    /// Handles the end of an operation in flight. A completion of another one is ignored.
    ///
    /// A failed operation ends the use of its file; an open file is still closed. Failures of
    /// operations that were in flight behind it are no further errors.
    pub fn handle_completion(&mut self, completion: Completion, journal: &mut Journal) {
        let place = self.in_flight.iter().position(|o| o.id == completion.id);
        let Some(operation) = place.and_then(|place| self.in_flight.remove(place)) else {
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
        let alone = self.in_flight.is_empty();
        match step.handle_ended(&operation.action, completion.outcome, alone, journal) {
            Ok(()) => {
                journal.record(of, completion.ended.ns_since(completion.started));
                if self.conduct.caches_folders && matches!(of, Measured::Lookup) {
                    self.known.insert(operation.path);
                }
            }
            Err(reason) => {
                let follows = step.doomed.is_some_and(|last| operation.id <= last);
                if !follows {
                    step.failed = true;
                    step.doomed = self.in_flight.back().map(|behind| behind.id);
                    let path = operation.path;
                    journal.fail(Failed { path, of, reason });
                }
            }
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
        if step.state == State::Ended && alone {
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
            if !self.known.contains(folder_path.as_str()) {
                walk.push((above as u32 + 1, folder_path.as_str().into()));
            }
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
            begun: 0,
            done: 0,
            state: State::Walking,
            began: None,
            opened: false,
            doomed: None,
            failed: false,
            aborted: false,
        }
    }

    fn next_action(&self, step: &Step) -> (Arc<str>, Action) {
        let reads = step.direction == OpenMode::Read;
        let limit = self.conduct.ahead.map_or(u32::MAX, |ahead| match reads {
            true => ahead.read_bytes_max,
            false => ahead.write_bytes_max,
        });
        let block = u64::from(self.settings.block_bytes.min(limit));
        let (offset, length) = (step.begun, (step.size - step.begun).min(block) as u32);
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
            (State::Transferring, _) if reads => Action::Read { offset, length },
            (State::Transferring, _) => Action::Write { offset, length },
            (State::Flushing, _) => Action::Flush,
            (State::Closing | State::Ended, _) => Action::Close,
            (State::Stating, _) => Action::Stat,
            (State::Renaming, _) => Action::Rename { to: renamed },
            (State::Deleting, _) => return (renamed, Action::Delete),
        };
        (Arc::clone(&step.path), action)
    }
}
