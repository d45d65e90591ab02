//! One tool: it uses the files of a tree in a drawn order, one operation after the other, or the
//! operations of a file ahead of their ends.
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use hakaru_contract::files::FilesProfile;
use hakaru_units::Time;

use crate::draw::{self, Use};
use crate::forest::{FileId, Forest, Role};
use crate::meter::Journal;
use crate::operation::{Action, Completion, Failed, Measured, OpenMode, Operation, OperationId};
use crate::settings::Settings;
use crate::step::{Job, State, Step};
use crate::user::User;

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
    /// The user of the tree, with the profile `mix`.
    user: Option<User>,
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
            user: None,
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
            && match &self.user {
                Some(user) => self.stopping && !user.has_files(),
                None => self.stopping || self.remaining.is_empty(),
            }
    }

    /// Returns the instant before which the next operations are not to be polled, if the tool is a
    /// user between two operations.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        let waits = self.step.is_none() && !self.stopping;
        self.user.as_ref().filter(|_| waits).map(User::due)
    }

    /// Gives an idle tool the targets of a tree, at `now`.
    pub fn assign(&mut self, tree: u32, now: Time) {
        debug_assert!(self.is_idle(), "a tool uses one tree at a time");
        let targets = self.forest.config().targets;
        self.known.clear();
        if let Some(mix) = &self.settings.mix {
            let seed = self.settings.seed;
            self.user = Some(User::new(seed, tree, targets, self.number, now, mix));
            return;
        }
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

    /// Ends the work: a file that is read is closed, one that is written is completed, files that a
    /// user created are deleted, and no other file is begun.
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
        if self.step.is_none() {
            self.step = self.next_step();
        }
        let alone = self.in_flight.is_empty();
        let Some(mut step) = self.step.take_if(|step| step.state != State::Ended) else {
            return;
        };
        while self.may_begin(&step, alone) {
            let (path, action) = step.next_action(&self.forest, self.block_bytes(&step));
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
    /// operations that were in flight behind it are no further errors. Returns whether the use of
    /// a file is over now, without a failure.
    pub fn handle_completion(&mut self, completion: Completion, journal: &mut Journal) -> bool {
        let place = self.in_flight.iter().position(|o| o.id == completion.id);
        let Some(operation) = place.and_then(|place| self.in_flight.remove(place)) else {
            return false;
        };
        let Some(step) = &mut self.step else {
            return false;
        };
        if operation.action == Action::Close {
            self.has_cut |= step.is_cut();
        }
        if let Some(user) = &self.user
            && step.began.is_none()
            && !step.tidies
        {
            journal.record(Measured::Delay, completion.started.ns_since(user.due()));
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
        } else if self.stopping && step.state == State::Walking && !step.tidies {
            // Nothing is open, and nothing was begun that must be undone.
            self.step = None;
            return false;
        }
        let mut succeeded = false;
        if step.state == State::Ended && alone {
            succeeded = !step.failed && !step.aborted;
            if step.failed {
                journal.files_failed += 1;
            } else if succeeded {
                journal.record(step.measured(), completion.ended.ns_since(began));
            }
            if let (Some(user), Some(mix)) = (&mut self.user, &self.settings.mix) {
                user.handle_ended(completion.ended, step, mix);
            }
            self.step = None;
            if self.remaining.is_empty() && std::mem::take(&mut self.has_unit) {
                journal.units_done += 1;
            }
        }
        succeeded
    }

    /// Plans the next step: that of the user, or the next file of the tree.
    fn next_step(&mut self) -> Option<Step> {
        let (file, job) = match (&mut self.user, &self.settings.mix) {
            (Some(user), Some(mix)) if !self.stopping => user.draw(mix),
            (Some(user), _) => user.leftover()?,
            _ if self.stopping => return None,
            _ => {
                let job = match self.settings.profile {
                    FilesProfile::Metadata => Job::Metadata,
                    FilesProfile::WholeFiles | FilesProfile::Mix => Job::WholeFile,
                };
                (self.remaining.pop()?, job)
            }
        };
        let mut step = Step::new(&self.forest, &self.settings, &self.known, file, job);
        step.tidies = self.stopping;
        Some(step)
    }

    /// Returns the bytes of the next read or write of a step, but for the end of its file.
    fn block_bytes(&self, step: &Step) -> u64 {
        let limit = self
            .conduct
            .ahead
            .map_or(u32::MAX, |ahead| match step.direction {
                OpenMode::Read => ahead.read_bytes_max,
                OpenMode::Write => ahead.write_bytes_max,
            });
        self.settings.block_bytes.min(limit).into()
    }
}
