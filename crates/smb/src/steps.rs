//! Steps by path, as a program on a mounted share makes them: look a folder up, open, read, write,
//! close, rename, delete. Each step is one request, or several that are sent as one compound or one
//! after another.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::connection::Connection;
use crate::error::OpError;
use crate::op::{Done, Op, OpId, Output, ReadData, WriteData};
use crate::wire::{
    Access, Change, CreateRequest, Disposition, FileId, OPTION_DIRECTORY, OPTION_FILE, Path,
    Sharing,
};

/// A step of a program. `Read`, `Write`, `Flush` and `Close` are about the file that the last
/// `Open` opened.
#[derive(Clone, Debug)]
pub enum Step {
    /// Opens and closes a folder.
    Lookup {
        /// Folder.
        path: Path,
    },
    /// Opens a folder, reads all of its entries, and closes it.
    List {
        /// Folder.
        path: Path,
    },
    /// Opens a file for reading.
    OpenRead {
        /// File.
        path: Path,
    },
    /// Opens a file for writing. An existing file is truncated, a missing one is created.
    OpenWrite {
        /// File.
        path: Path,
    },
    /// Reads from the open file.
    Read {
        /// Offset in the file, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// Whether the data is returned. Otherwise, only its length is.
        keep: bool,
    },
    /// Writes to the open file.
    Write {
        /// Offset in the file, bytes.
        offset: u64,
        /// Data, by reference.
        data: WriteData,
    },
    /// Flushes the open file to stable storage.
    Flush,
    /// Closes the open file.
    Close,
    /// Creates an empty file, which must not exist, and closes it.
    Create {
        /// File.
        path: Path,
    },
    /// Creates a folder, which must not exist.
    CreateFolder {
        /// Folder.
        path: Path,
    },
    /// Reads the attributes of a file.
    Stat {
        /// File.
        path: Path,
    },
    /// Renames a file. An existing file of the new name is not replaced.
    Rename {
        /// File.
        path: Path,
        /// New path.
        to: Path,
    },
    /// Deletes a file.
    Delete {
        /// File.
        path: Path,
    },
    /// Deletes an empty folder.
    DeleteFolder {
        /// Folder.
        path: Path,
    },
}

/// Failure of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// An operation failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A step on an open file, while none is open.
    #[error("no file is open")]
    NotOpen,
    /// An `Open` while a file is open.
    #[error("another file is open")]
    Open,
}

/// A step that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepDone {
    /// When the step was begun.
    pub begun: Time,
    /// When the response to its last request was received.
    pub ended: Time,
    /// Bytes read or written; the length of the file for steps that open one; the entries of a
    /// listed folder, without `.` and `..`; otherwise 0.
    pub result: Result<u64, StepError>,
    /// Data of a read that was to be kept.
    pub data: ReadData,
}

/// The steps of one program on a connection, one at a time. Several programs may share a
/// connection: each takes the events of its own operations.
#[derive(Debug)]
pub struct FileSteps {
    compound: bool,
    /// The open file.
    file: Option<FileId>,
    current: Option<Current>,
}

/// The step in progress.
#[derive(Debug)]
struct Current {
    begun: Time,
    /// Operation that is in flight, the first of `in_flight`.
    next: OpId,
    /// Number of operations in flight.
    in_flight: usize,
    /// Operations to send later, without their file.
    later: VecDeque<Op>,
    /// Handle that the step itself opened.
    opened: Option<FileId>,
    effect: Effect,
    result: Result<u64, StepError>,
    data: ReadData,
}

/// Effect of a successful step on the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    Opens,
    Closes,
}

impl FileSteps {
    /// Creates the steps of a program without an open file. With `compound`, the requests of a step
    /// are one compound.
    #[must_use]
    pub fn new(compound: bool) -> FileSteps {
        FileSteps {
            compound,
            file: None,
            current: None,
        }
    }

    /// Begins a step.
    ///
    /// # Errors
    /// The step needs an open file and there is none, or the other way round. Nothing is sent.
    ///
    /// # Panics
    /// Panics while another step is in progress, which is a defect of the caller.
    pub fn begin(
        &mut self,
        now: Time,
        connection: &mut Connection,
        step: Step,
    ) -> Result<(), StepError> {
        assert!(self.current.is_none(), "one step at a time");
        let effect = match &step {
            Step::OpenRead { .. } | Step::OpenWrite { .. } => Effect::Opens,
            Step::Close => Effect::Closes,
            _ => Effect::None,
        };
        if effect == Effect::Opens && self.file.is_some() {
            return Err(StepError::Open);
        }
        let is_listing = matches!(step, Step::List { .. });
        let mut ops = operations(step, self.file)?;
        let later = match self.compound {
            // A folder is closed behind its last entries.
            true if is_listing => ops.split_off(2),
            true => VecDeque::new(),
            false => ops.split_off(1),
        };
        let in_flight = ops.len();
        let next = connection.submit_related(now, ops);
        self.current = Some(Current {
            begun: now,
            next,
            in_flight,
            later,
            opened: None,
            effect,
            result: Ok(0),
            data: ReadData::default(),
        });
        Ok(())
    }

    /// Returns whether an operation belongs to the step in progress.
    #[must_use]
    pub fn owns(&self, id: OpId) -> bool {
        self.current.as_ref().is_some_and(|current| {
            (current.next.0..current.next.0 + current.in_flight as u64).contains(&id.0)
        })
    }

    /// Returns whether a file is open.
    #[must_use]
    pub fn has_open_file(&self) -> bool {
        self.file.is_some()
    }

    /// Handles the end of an operation. Returns the step if it has ended with it.
    ///
    /// # Panics
    /// Panics if the operation does not belong to the step in progress (see [`FileSteps::owns`]),
    /// which is a defect of the caller.
    pub fn handle_done(
        &mut self,
        now: Time,
        connection: &mut Connection,
        done: Done,
    ) -> Option<StepDone> {
        assert!(self.owns(done.id), "an operation of another program");
        let current = self.current.as_mut().expect("checked by `owns`");
        current.next.0 += 1;
        current.in_flight -= 1;
        match done.result {
            Ok(output) => current.accept(output),
            Err(error) => {
                // The first failure is the reason; the others of a compound follow from it.
                if current.result.is_ok() {
                    current.result = Err(error.into());
                }
                // A handle that the step opened must be closed all the same.
                let lost = matches!(error, OpError::Lost(_));
                let kept = usize::from(current.opened.is_some() && !lost);
                let failed = current.later.len().saturating_sub(kept);
                current.later.drain(..failed);
            }
        }
        if current.in_flight > 0 {
            return None;
        }
        if let Some(mut op) = current.later.pop_front() {
            if let Some(file) = current.opened {
                set_file(&mut op, file);
            }
            current.next = connection.submit(now, op);
            current.in_flight = 1;
            return None;
        }
        self.finish(done.completed)
    }

    fn finish(&mut self, ended: Time) -> Option<StepDone> {
        let current = self.current.take()?;
        match (current.effect, &current.result) {
            (Effect::Opens, Ok(_)) => self.file = current.opened,
            // A CLOSE that failed leaves no handle that could be used.
            (Effect::Closes, _) => self.file = None,
            _ => {}
        }
        Some(StepDone {
            begun: current.begun,
            ended,
            result: current.result,
            data: current.data,
        })
    }
}

/// Returns the requests of a step. Those behind the first use the file that it opens. `open_file`:
/// file of the steps that need one.
pub(crate) fn operations(step: Step, open_file: Option<FileId>) -> Result<VecDeque<Op>, StepError> {
    let file = FileId::RELATED;
    let open_file = || open_file.ok_or(StepError::NotOpen);
    let close = Op::Close { file };
    let open = |path, access, disposition, options| {
        Op::Create(CreateRequest {
            path,
            access,
            sharing: Sharing::ALL,
            disposition,
            options,
        })
    };
    let existing = |path, access| open(path, access, Disposition::Open, OPTION_FILE);
    let ops = match step {
        Step::Lookup { path } => {
            let kind = OPTION_DIRECTORY;
            vec![
                open(path, Access::ATTRIBUTES, Disposition::Open, kind),
                close,
            ]
        }
        Step::List { path } => {
            let kind = OPTION_DIRECTORY;
            let list = Op::List {
                file,
                pattern: "*".into(),
                restart: false,
            };
            vec![
                open(path, Access::READ, Disposition::Open, kind),
                list,
                close,
            ]
        }
        Step::CreateFolder { path } => {
            let kind = OPTION_DIRECTORY;
            vec![
                open(path, Access::ATTRIBUTES, Disposition::Create, kind),
                close,
            ]
        }
        Step::OpenRead { path } => vec![existing(path, Access::READ)],
        Step::OpenWrite { path } => {
            let replace = Disposition::OverwriteIf;
            vec![open(path, Access::WRITE, replace, OPTION_FILE)]
        }
        Step::Read {
            offset,
            length,
            keep,
        } => vec![Op::Read {
            file: open_file()?,
            offset,
            length,
            keep,
        }],
        Step::Write { offset, data } => vec![Op::Write {
            file: open_file()?,
            offset,
            data,
        }],
        Step::Flush => vec![Op::Flush { file: open_file()? }],
        Step::Close => vec![Op::Close { file: open_file()? }],
        Step::Create { path } => {
            vec![
                open(path, Access::WRITE, Disposition::Create, OPTION_FILE),
                close,
            ]
        }
        Step::Stat { path } => vec![existing(path, Access::ATTRIBUTES), close],
        Step::Rename { path, to } => {
            let change = Change::Rename { to, replace: false };
            vec![
                existing(path, Access::DELETE),
                Op::Set { file, change },
                close,
            ]
        }
        Step::Delete { path } => {
            let change = Change::Delete;
            vec![
                existing(path, Access::DELETE),
                Op::Set { file, change },
                close,
            ]
        }
        Step::DeleteFolder { path } => {
            let (kind, change) = (OPTION_DIRECTORY, Change::Delete);
            vec![
                open(path, Access::DELETE, Disposition::Open, kind),
                Op::Set { file, change },
                close,
            ]
        }
    };
    Ok(ops.into())
}

impl Current {
    fn accept(&mut self, output: Output) {
        match output {
            Output::Created(response) => {
                self.opened = Some(response.file);
                if !response.facts.is_directory() && self.result.is_ok() {
                    self.result = Ok(response.facts.length_bytes);
                }
            }
            Output::Read { length, data } => {
                self.result = Ok(length.into());
                self.data = data;
            }
            Output::Written(count) => self.result = Ok(count.into()),
            Output::Entries { entries, end } => {
                self.result = self
                    .result
                    .map(|sum| sum.saturating_add(entries.len() as u64));
                if !end {
                    self.later.push_front(Op::List {
                        file: FileId::RELATED,
                        pattern: "*".into(),
                        restart: false,
                    });
                }
            }
            _ => {}
        }
    }
}

/// Sets the file of an operation that was planned before the file was open.
fn set_file(op: &mut Op, opened: FileId) {
    match op {
        Op::Close { file } | Op::Set { file, .. } | Op::List { file, .. } => *file = opened,
        // Steps plan no other operations behind an open.
        _ => {}
    }
}
