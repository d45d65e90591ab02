//! What a pool wants done beside the accesses: pages copied, cleared and given back, groups synced, metadata committed.
use std::io::{self, ErrorKind};

use hakaru_drive::Op;
use hakaru_pool::{Action, ActionFailure, ActionId, ActionKind, GroupId, Place};
use hakaru_runtime::file::FileOp;

use super::{Finished, PoolStore, StoreDone, Way};
use crate::array::storage::gate::{Stretch, Work};
use crate::array::storage::{Held, Purpose};

/// Bytes given back by one request: the file system holds other writers of the file up for so long.
const DISCARD_BYTES: u64 = 256 << 20;
/// Zeros written by one request where a file system has no holes.
const ZEROS_BYTES: u64 = 256 << 10;

/// An action under way.
pub struct Acting {
    id: ActionId,
    step: Step,
}

enum Step {
    /// Reading the page that is copied.
    CopyRead {
        from: Place,
        to: Place,
        length: usize,
    },
    /// Writing the copy.
    CopyWrite { to: Place, bytes: Vec<u8> },
    /// Making a range read as zeros.
    Clear {
        place: Place,
        length_bytes: u64,
        how: Clearing,
        /// Bytes that the request under way covers.
        step_bytes: u64,
    },
    /// Syncing groups, so many of them; and how it went so far.
    Sync {
        left: usize,
        failure: Option<ActionFailure>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Clearing {
    Punch,
    Zero,
    /// The file system can do neither.
    Write,
}

impl PoolStore {
    /// Begins an action.
    pub(super) fn begin(&mut self, Action { id, kind }: Action, way: &mut Way) {
        let step = match kind {
            ActionKind::Commit(batch) => {
                return self.store.submit(move |store| {
                    let committed = store.commit(&batch);
                    StoreDone::Committed(id, (committed, store.space_is_low()))
                });
            }
            ActionKind::Copy {
                from,
                to,
                length_bytes,
            } => Step::CopyRead {
                from,
                to,
                length: length_bytes as usize,
            },
            ActionKind::Zero {
                place,
                length_bytes,
            } => Step::Clear {
                place,
                length_bytes: u64::from(length_bytes),
                how: Clearing::Zero,
                step_bytes: 0,
            },
            ActionKind::Discard {
                place,
                length_bytes,
            } => Step::Clear {
                place,
                length_bytes,
                how: Clearing::Punch,
                step_bytes: 0,
            },
            ActionKind::Sync { groups } => return self.sync(id, &groups, way),
        };
        let number = self.acting.insert(Acting { id, step });
        match &self.acting.get_mut(number).step {
            Step::CopyRead { from, length, .. } => {
                let (from, length) = (*from, *length);
                self.hold(number, Op::Read, from, length, way);
            }
            _ => self.go_on_acting(number, way),
        }
    }

    /// Charges a copy to the modelled drives, and goes on when they have done it.
    fn hold(&mut self, number: u64, op: Op, place: Place, length: usize, way: &mut Way) {
        let Some(gate) = &mut way.gate else {
            return self.go_on_acting(number, way);
        };
        let group = &self.groups[place.group.index()];
        let stretch = Stretch {
            group: group.model_group,
            offset_bytes: group.model_offset_bytes + place.offset_bytes,
            length_bytes: length as u64,
        };
        let held = Held::Action {
            pool: self.number,
            acting: number,
        };
        gate.hold(
            way.now,
            held,
            Work { op, fua: false },
            std::iter::once(stretch),
        );
    }

    /// The model lets an action go on.
    pub fn handle_action_passed(&mut self, number: u64, way: &mut Way) {
        self.go_on_acting(number, way);
        self.settle(way);
    }

    /// Submits the next request of an action.
    fn go_on_acting(&mut self, number: u64, way: &mut Way) {
        let purpose = Purpose::Action {
            pool: self.number,
            acting: number,
        };
        let acting = self.acting.get_mut(number);
        let groups = &self.groups;
        let file = |place: &Place| &groups[place.group.index()].file;
        let ended = match &mut acting.step {
            Step::CopyRead { from, length, .. } => {
                let bytes = vec![0; *length];
                let (at, range) = (from.offset_bytes, 0..*length);
                way.files
                    .transfer_later(file(from), FileOp::Read, at, bytes, range, purpose)
            }
            Step::CopyWrite { to, bytes } => {
                let bytes = std::mem::take(bytes);
                let (op, range) = (FileOp::Write { durable: false }, 0..bytes.len());
                way.files
                    .transfer_later(file(to), op, to.offset_bytes, bytes, range, purpose)
            }
            Step::Clear {
                place,
                length_bytes,
                how,
                step_bytes,
            } => {
                let at = place.offset_bytes;
                if *how == Clearing::Write {
                    *step_bytes = (*length_bytes).min(ZEROS_BYTES);
                    let bytes = vec![0; *step_bytes as usize];
                    let (op, range) = (FileOp::Write { durable: false }, 0..bytes.len());
                    way.files
                        .transfer_later(file(place), op, at, bytes, range, purpose)
                } else {
                    *step_bytes = (*length_bytes).min(DISCARD_BYTES);
                    let length_bytes = *step_bytes;
                    let op = match how {
                        Clearing::Punch => FileOp::Punch { length_bytes },
                        _ => FileOp::Zero { length_bytes },
                    };
                    way.files.command(file(place), op, at, purpose);
                    None
                }
            }
            Step::Sync { .. } => unreachable!("all syncs are submitted at once"),
        };
        if let Some(finished) = ended {
            self.step_ended(number, finished, way);
        }
    }

    /// A request of an action has ended.
    pub fn handle_action_step(&mut self, number: u64, finished: Finished<Purpose>, way: &mut Way) {
        self.step_ended(number, finished, way);
        self.settle(way);
    }

    fn step_ended(&mut self, number: u64, finished: Finished<Purpose>, way: &mut Way) {
        let failure = finished.result.as_ref().err().map(failure);
        let acting = self.acting.get_mut(number);
        match &mut acting.step {
            Step::Sync {
                left,
                failure: so_far,
            } => {
                *so_far = so_far.or(failure);
                *left -= 1;
                if *left == 0 {
                    let result = so_far.map_or(Ok(()), Err);
                    self.end(number, result, way);
                }
            }
            Step::Clear {
                place,
                length_bytes,
                how,
                step_bytes,
            } => {
                let unsupported = finished
                    .result
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::Unsupported);
                if unsupported && *how != Clearing::Write {
                    *how = Clearing::Write;
                } else if let Some(failure) = failure {
                    return self.end(number, Err(failure), way);
                } else {
                    place.offset_bytes += *step_bytes;
                    *length_bytes -= *step_bytes;
                    if *length_bytes == 0 {
                        return self.end(number, Ok(()), way);
                    }
                }
                self.go_on_acting(number, way);
            }
            Step::CopyRead { to, length, .. } => {
                if let Some(failure) = failure {
                    return self.end(number, Err(failure), way);
                }
                let (to, length) = (*to, *length);
                acting.step = Step::CopyWrite {
                    to,
                    bytes: finished.bytes,
                };
                self.hold(number, Op::Write, to, length, way);
            }
            Step::CopyWrite { .. } => self.end(number, failure.map_or(Ok(()), Err), way),
        }
    }

    fn end(&mut self, number: u64, result: Result<(), ActionFailure>, way: &mut Way) {
        let id = self.acting.remove(number).id;
        self.core.handle_action_done(way.now, id, result);
    }

    fn sync(&mut self, id: ActionId, groups: &[GroupId], way: &mut Way) {
        let step = Step::Sync {
            left: groups.len(),
            failure: None,
        };
        let number = self.acting.insert(Acting { id, step });
        for group in groups {
            let purpose = Purpose::Action {
                pool: self.number,
                acting: number,
            };
            let file = &self.groups[group.index()].file;
            way.files.command(file, FileOp::Sync, 0, purpose);
        }
    }
}

fn failure(e: &io::Error) -> ActionFailure {
    match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ActionFailure::NoSpace,
        _ => ActionFailure::Io,
    }
}
