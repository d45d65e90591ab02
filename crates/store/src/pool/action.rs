//! A pool's own work: pages copied, cleared and deallocated, groups synced, metadata committed.
use std::io::{self, ErrorKind};

use hakaru_drive::Op;
use hakaru_pool::{Action, ActionFailure, ActionId, ActionKind, GroupId, Place};

use super::store::PoolStore;
use super::work::{Clear, ClearMethod, Step, Work};
use crate::context::{Held, Purpose, StoreContext, Transfer};
use crate::gate::{DriveWork, Stretch};
use crate::request::{CommitRequest, FileDone, FileOp, Request};

/// Maximum bytes deallocated by one request. The file system blocks other writers of the file
/// meanwhile.
const DISCARD_BYTES: u64 = 256 << 20;
/// Maximum bytes of zeros written by one request, on file systems without holes.
const ZEROS_BYTES: u64 = 256 << 10;

impl PoolStore {
    /// Starts an action.
    pub(super) fn begin_work(&mut self, Action { id, kind }: Action, context: &mut StoreContext) {
        let clear = |place, length_bytes, method| {
            Step::Clear(Clear {
                place,
                length_bytes,
                method,
                step_bytes: 0,
            })
        };
        let step = match kind {
            ActionKind::Commit(batch) => {
                let request = CommitRequest {
                    pool: self.number,
                    action: id,
                    batch,
                };
                return context.requests.push_back(Request::Commit(request));
            }
            ActionKind::Sync { groups } => return self.sync(id, &groups, context),
            ActionKind::Zero {
                place,
                length_bytes,
            } => clear(place, u64::from(length_bytes), ClearMethod::Zero),
            ActionKind::Discard {
                place,
                length_bytes,
            } => clear(place, length_bytes, ClearMethod::Punch),
            ActionKind::Copy {
                from,
                to,
                length_bytes,
            } => {
                let length = length_bytes as usize;
                let step = Step::CopyRead { from, to, length };
                let number = self.work.insert(Work { id, step });
                return self.hold_work(number, Op::Read, from, length, context);
            }
        };
        let number = self.work.insert(Work { id, step });
        self.request_step(number, context);
    }

    /// Charges a copy to the modelled drives. The work continues when the model has completed it.
    fn hold_work(
        &mut self,
        number: usize,
        op: Op,
        place: Place,
        length: usize,
        context: &mut StoreContext,
    ) {
        let Some(gate) = &mut context.gate else {
            return self.request_step(number, context);
        };
        let group = &self.groups[place.group.index()].place;
        let stretch = Stretch {
            group: group.group,
            offset_bytes: group.offset_bytes + place.offset_bytes,
            length_bytes: length as u64,
            unmapped: false,
        };
        let held = Held::PoolWork {
            pool: self.number,
            work: number,
        };
        let drive_work = DriveWork {
            op,
            fua: false,
            // The data stays within the array.
            received_bytes: Some(0),
        };
        gate.hold(context.now, held, drive_work, std::iter::once(stretch));
    }

    /// Continues a piece of work that the model has completed.
    pub(crate) fn handle_work_passed(&mut self, number: usize, context: &mut StoreContext) {
        self.request_step(number, context);
        self.settle(context);
    }

    /// Requests the current step.
    fn request_step(&mut self, number: usize, context: &mut StoreContext) {
        let purpose = self.work_purpose(number);
        let groups = &self.groups;
        let file = |place: &Place| groups[place.group.index()].file;
        let (place, op, bytes) = match &mut self.work[number].step {
            Step::CopyRead { from, length, .. } => (from, FileOp::Read, vec![0; *length]),
            Step::CopyWrite { to, bytes } => {
                (to, FileOp::Write { durable: false }, std::mem::take(bytes))
            }
            Step::Clear(clear) => {
                let op = clear.next_op();
                let bytes = match op {
                    FileOp::Write { .. } => vec![0; clear.step_bytes as usize],
                    _ => Vec::new(),
                };
                (&mut clear.place, op, bytes)
            }
            Step::Sync { .. } => unreachable!("all syncs are requested at once"),
        };
        let transfer = Transfer {
            file: file(place),
            op,
            offset_bytes: place.offset_bytes,
            range: 0..bytes.len(),
            bytes,
            at_once: false,
        };
        context.transfer(transfer, purpose);
    }

    /// Handles a completed request of a piece of work.
    pub(crate) fn handle_work_step(
        &mut self,
        number: usize,
        done: FileDone,
        context: &mut StoreContext,
    ) {
        let failure = done.result.as_ref().err().map(failure);
        match &mut self.work[number].step {
            Step::Sync {
                left,
                failure: first_failure,
            } => {
                *first_failure = first_failure.or(failure);
                *left -= 1;
                if *left == 0 {
                    let result = first_failure.map_or(Ok(()), Err);
                    self.end_work(number, result, context);
                }
            }
            Step::Clear(clear) => match clear.handle_step(&done.result) {
                None => self.request_step(number, context),
                Some(result) => self.end_work(number, result, context),
            },
            Step::CopyRead { to, length, .. } => {
                if let Some(failure) = failure {
                    self.end_work(number, Err(failure), context);
                } else {
                    let (to, length, bytes) = (*to, *length, done.bytes);
                    self.work[number].step = Step::CopyWrite { to, bytes };
                    self.hold_work(number, Op::Write, to, length, context);
                }
            }
            Step::CopyWrite { .. } => {
                self.end_work(number, failure.map_or(Ok(()), Err), context);
            }
        }
        self.settle(context);
    }

    fn end_work(
        &mut self,
        number: usize,
        result: Result<(), ActionFailure>,
        context: &mut StoreContext,
    ) {
        let id = self.work.remove(number).id;
        self.core.handle_action_done(context.now, id, result);
    }

    fn sync(&mut self, id: ActionId, groups: &[GroupId], context: &mut StoreContext) {
        let step = Step::Sync {
            left: groups.len(),
            failure: None,
        };
        let number = self.work.insert(Work { id, step });
        for group in groups {
            let file = self.groups[group.index()].file;
            context.command(file, FileOp::Sync, 0, self.work_purpose(number));
        }
    }

    fn work_purpose(&self, number: usize) -> Purpose {
        Purpose::PoolWork {
            pool: self.number,
            work: number,
        }
    }
}

impl Clear {
    /// Returns the operation of the next step, and records its length.
    fn next_op(&mut self) -> FileOp {
        let step_bytes_max = match self.method {
            ClearMethod::Write => ZEROS_BYTES,
            ClearMethod::Punch | ClearMethod::Zero => DISCARD_BYTES,
        };
        let length_bytes = self.length_bytes.min(step_bytes_max);
        self.step_bytes = length_bytes;
        match self.method {
            ClearMethod::Punch => FileOp::Punch { length_bytes },
            ClearMethod::Zero => FileOp::Zero { length_bytes },
            ClearMethod::Write => FileOp::Write { durable: false },
        }
    }

    /// Handles a completed step. Returns the result of the work if it was the last.
    fn handle_step(&mut self, result: &io::Result<()>) -> Option<Result<(), ActionFailure>> {
        match result {
            Ok(()) => {
                self.place.offset_bytes += self.step_bytes;
                self.length_bytes -= self.step_bytes;
                (self.length_bytes == 0).then_some(Ok(()))
            }
            Err(error)
                if error.kind() == ErrorKind::Unsupported && self.method != ClearMethod::Write =>
            {
                self.method = ClearMethod::Write;
                None
            }
            Err(error) => Some(Err(failure(error))),
        }
    }
}

fn failure(error: &io::Error) -> ActionFailure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ActionFailure::NoSpace,
        _ => ActionFailure::Io,
    }
}
