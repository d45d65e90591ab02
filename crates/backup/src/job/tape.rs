//! Jobs to a tape drive: preparation, writes and filemarks one at a time, and the position at the
//! end.
use std::sync::Arc;

use hakaru_iscsi_session::{Done, TaskData, TaskError};
use hakaru_units::Time;
use hakaru_wire::scsi::{Sense, SenseKey};

use super::{AfterMount, FLUSH, Job, JobEvent, Leg, MARK, MOUNT, POSITION, Stage};
use crate::error::JobError;
use crate::tape::{Mount, TapeError, Unit, is_early_warning, parse_position, read_position};

/// Allocation length of READ POSITION, bytes.
const POSITION_BYTES: u32 = 32;

impl Job {
    /// Prepares the drive before the copy begins; [`JobEvent::Mounted`] follows. Requires that
    /// [`JobEvent::Ready`] was returned, and a tape drive as destination.
    pub fn mount(&mut self, now: Time) {
        if matches!(self.stage, Stage::Ready) {
            self.start_mount(now, AfterMount::Ready);
        }
    }

    /// Starts the time of the copy, which waits for another job that uses the drive.
    /// [`Job::begin`] follows when its turn comes.
    pub fn wait(&mut self, now: Time) {
        if matches!(self.stage, Stage::Ready) {
            self.begun = now;
            self.stage = Stage::Waiting;
        }
    }

    /// Starts to copy, after the preparation of a tape that is not prepared.
    pub(super) fn begin_copy(&mut self, now: Time) {
        if self.tape.as_ref().is_some_and(|tape| !tape.is_mounted()) {
            return self.start_mount(now, AfterMount::Copy);
        }
        self.stage = Stage::Copying;
        self.issue_commands(now);
    }

    /// Starts to position the tape at the copy that is to be verified. Returns false if there is
    /// nothing to position: a disk, or a copy that has not begun.
    pub(super) fn mount_to_verify(&mut self, now: Time) -> bool {
        let is_mounted = self.tape.as_ref().is_some_and(|tape| tape.is_mounted());
        if is_mounted {
            self.start_mount(now, AfterMount::Verify);
        }
        is_mounted
    }

    fn start_mount(&mut self, now: Time, after: AfterMount) {
        let Some(tape) = &self.tape else { return };
        let mount = Mount::new(tape.config().clone(), tape.place());
        self.stage = Stage::Mounting(mount, after);
        self.issue_commands(now);
    }

    pub(super) fn continue_mount(&mut self, now: Time) {
        let (Stage::Mounting(mount, _), Some(tape)) = (&mut self.stage, &self.tape) else {
            return;
        };
        let Some(command) = mount.poll_command(now) else {
            return;
        };
        let lun = match command.unit {
            Unit::Drive => self.config.destination.lun,
            Unit::Changer => tape.config().changer_lun,
        };
        let data = if command.answer_bytes > 0 {
            let length = command.answer_bytes;
            TaskData::In { length, keep: true }
        } else if command.list.is_empty() {
            TaskData::None
        } else {
            TaskData::Out {
                length: command.list.len() as u32,
                buffer: Arc::new(command.list),
                begin: 0,
            }
        };
        self.legs
            .submit_to(now, Leg(1), lun, MOUNT, command.cdb, data);
    }

    pub(super) fn handle_mount_done(&mut self, now: Time, leg: Leg, done: Done) {
        let (Stage::Mounting(mount, after), Some(tape)) = (&mut self.stage, &mut self.tape) else {
            return;
        };
        let (result, after) = (mount.handle_done(now, &done), *after);
        let object = mount.object();
        if let (Some(object), AfterMount::Ready | AfterMount::Copy) = (object, after) {
            tape.begin(object);
        }
        self.legs.recycle(leg, done.data);
        // The tape is known to be where it has to be before anything is written or read.
        self.legs.touch(leg);
        match (result, object, after) {
            (Err(error), ..) => self.fail(JobError::Tape(error)),
            (Ok(()), None, _) => {}
            (Ok(()), Some(_), AfterMount::Ready) => {
                self.stage = Stage::Ready;
                self.events.push_back(JobEvent::Mounted);
            }
            (Ok(()), Some(_), AfterMount::Copy) => self.stage = Stage::Copying,
            (Ok(()), Some(_), AfterMount::Verify) => self.begin_checks(now),
        }
    }

    /// Issues the next filemark or block, if the drive is idle.
    pub(super) fn issue_tape_write(&mut self, now: Time) {
        let Some(tape) = self.tape.as_mut().filter(|tape| !tape.is_busy()) else {
            return;
        };
        let part = &mut self.parts[0];
        // At the end of the copy, the last filemark follows the last block.
        let is_over = part.is_copied();
        if !is_over && let Some(mark) = tape.poll_filemark(now) {
            return self.legs.submit(now, Leg(1), MARK, mark, TaskData::None);
        }
        let Some(write) = part.poll_write(now) else {
            return;
        };
        let length = write.buffer.len() as u32;
        let cdb = tape.begin_write(length);
        let data = TaskData::Out {
            buffer: write.buffer,
            begin: 0,
            length,
        };
        self.legs.submit(now, Leg(1), write.tag, cdb, data);
    }

    /// Ends a write to a tape. A write that ends with the early warning is done.
    pub(super) fn end_tape_write(
        &mut self,
        result: Result<u32, TaskError>,
        length: u32,
    ) -> Result<u32, TaskError> {
        let Some(tape) = &mut self.tape else {
            return result;
        };
        let result = match result {
            Err(error) if is_early_warning(&error) => {
                self.counters.early_warnings += 1;
                Ok(length)
            }
            other => other,
        };
        tape.handle_written(result.ok());
        result
    }

    /// Returns the error of a failed write.
    pub(super) fn write_error(&self, offset_bytes: u64, length: u32, error: TaskError) -> JobError {
        let Some(tape) = &self.tape else {
            return JobError::of_write(offset_bytes, length, error);
        };
        let barcode = &tape.config().cartridge;
        let is_full = matches!(
            error,
            TaskError::Check(Sense {
                key: SenseKey::VolumeOverflow,
                ..
            })
        );
        if is_full {
            let barcode = barcode.clone();
            return JobError::Tape(TapeError::Full {
                barcode,
                offset_bytes,
            });
        }
        match TapeError::of_command("WRITE", barcode, error) {
            TapeError::Command { error, .. } => JobError::of_write(offset_bytes, length, error),
            error => JobError::Tape(error),
        }
    }

    /// Ends a filemark. Returns its error, unless it is the early warning.
    fn end_mark(&mut self, now: Time, done: &Done, synchronises: bool) -> Result<(), JobError> {
        let Some(tape) = &mut self.tape else {
            return Ok(());
        };
        let result = match done.result {
            Err(error) if is_early_warning(&error) => {
                self.counters.early_warnings += 1;
                Ok(0)
            }
            other => other,
        };
        self.counters.filemark_latency_ns_sum += tape.handle_marked(now, result.is_ok());
        match result {
            Ok(_) => {
                self.counters.filemarks += 1;
                self.counters.synchronisations += u64::from(synchronises);
                Ok(())
            }
            Err(error) => {
                let barcode = &tape.config().cartridge;
                let error = TapeError::of_command("WRITE FILEMARKS", barcode, error);
                Err(JobError::Tape(error))
            }
        }
    }

    pub(super) fn handle_marked(&mut self, now: Time, done: &Done) {
        let synchronises = self.tape.as_ref().is_some_and(|tape| tape.synchronises());
        if let Err(error) = self.end_mark(now, done, synchronises) {
            self.fail_after_drain(error);
        }
    }

    /// Asks for the position after the last filemark: a cartridge that was exchanged, or a drive
    /// that was reset, is elsewhere.
    pub(super) fn handle_last_mark(&mut self, now: Time, done: &Done) {
        debug_assert_eq!(done.tag, FLUSH);
        match self.end_mark(now, done, true) {
            Err(error) => self.fail(error),
            Ok(()) if self.pending_error.is_some() => {
                let error = self.pending_error.take().expect("checked by the guard");
                self.fail(error);
            }
            Ok(()) => {
                let length = POSITION_BYTES;
                let data = TaskData::In { length, keep: true };
                self.legs
                    .submit(now, Leg(1), POSITION, read_position(), data);
            }
        }
    }

    pub(super) fn handle_position(&mut self, now: Time, done: &Done) {
        let Some(tape) = &self.tape else { return };
        let command = "READ POSITION";
        let expected = tape.end();
        let error = match (done.result, parse_position(&done.data)) {
            (Ok(_), Some(actual)) if actual == expected => return self.complete(now),
            (Ok(_), Some(actual)) => TapeError::Moved { expected, actual },
            (Ok(_), None) => TapeError::Answer { command },
            (Err(error), _) => TapeError::of_command(command, &tape.config().cartridge, error),
        };
        self.fail(JobError::Tape(error));
    }
}
