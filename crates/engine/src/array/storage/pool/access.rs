//! An initiator's access to a volume: asked of the pool, moved piece by piece, answered.
use std::io::{self, ErrorKind};

use hakaru_drive::Op;
use hakaru_iscsi_target::{Extent, IoFailure, IoId, IoOp, IoResult, Target};
use hakaru_pool::{Access, Failure, Outcome, Piece, Pieces, Range, Request, RequestId, VolumeId};
use hakaru_runtime::file::FileOp;

use super::{Finished, GroupFile, PoolStore, Purpose, Way};
use crate::array::storage::Held;
use crate::array::storage::gate::{Stretch, Work};

/// Bytes of a WRITE SAME that are written before others have their turn.
const SAME_BYTES: u64 = 1 << 20;

/// What was asked of a pool and is not over.
pub struct Asked {
    whom: Whom,
    /// The initiator's data; with a file's queue while a piece is there.
    bytes: Vec<u8>,
    moving: Option<Moving>,
}

/// Who waits for it.
enum Whom {
    Read(IoId),
    Write {
        io: IoId,
        fua: bool,
    },
    /// One step of a WRITE SAME.
    Same {
        io: IoId,
        volume: VolumeId,
        /// What is left when this step is done.
        left: Extent,
        fua: bool,
    },
    /// Answered with this.
    Plain(IoId, IoResult),
    /// The operator, by the number of the order.
    Operator(u64),
}

/// Data on their way.
struct Moving {
    access: Access,
    pieces: Pieces,
    /// The next piece, and where it begins in the data.
    next: usize,
    at: usize,
    writes: bool,
}

impl PoolStore {
    /// Takes an access to a volume. What comes of it is put into `way.done`, often at once.
    pub fn access(
        &mut self,
        volume: VolumeId,
        io: IoId,
        op: IoOp,
        way: &mut Way,
        target: &mut Target,
    ) {
        let (whom, bytes, request) = match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                // What no page holds stays zero.
                let mut bytes = target.take_buffer(length_bytes as usize);
                bytes.resize(length_bytes as usize, 0);
                let request = Request::Read {
                    volume,
                    offset_bytes,
                    length_bytes,
                };
                (Whom::Read(io), bytes, request)
            }
            IoOp::Write {
                offset_bytes,
                data,
                fua,
            } => {
                let request = Request::Write {
                    volume,
                    offset_bytes,
                    length_bytes: data.len() as u32,
                    fua,
                };
                (Whom::Write { io, fua }, data, request)
            }
            IoOp::Flush => (
                Whom::Plain(io, IoResult::Flushed),
                Vec::new(),
                Request::Flush,
            ),
            IoOp::Unmap { ranges } => {
                let ranges = ranges.into_iter().map(range).collect();
                let request = Request::Unmap {
                    volume,
                    ranges,
                    fua: false,
                };
                (Whom::Plain(io, IoResult::Done), Vec::new(), request)
            }
            IoOp::WriteSame {
                range: extent,
                block,
                unmap,
                fua,
            } => {
                let zeros = block.iter().all(|byte| *byte == 0);
                if !(unmap && zeros) {
                    let count = (SAME_BYTES.min(extent.length_bytes) / block.len() as u64) as usize;
                    return self.write_same((io, volume), extent, block.repeat(count), fua, way);
                }
                let request = Request::Unmap {
                    volume,
                    ranges: vec![range(extent)],
                    fua,
                };
                (Whom::Plain(io, IoResult::Done), Vec::new(), request)
            }
            IoOp::Status {
                range: extent,
                extents_max,
            } => {
                let found = self
                    .core
                    .provisioning(volume, range(extent), extents_max)
                    .map_or(IoResult::Failed(IoFailure::Internal), |found| {
                        IoResult::Provisioned(
                            found
                                .into_iter()
                                .map(|(range, mapped)| (extent_of(range), mapped))
                                .collect(),
                        )
                    });
                return way.done.push_back((io, found));
            }
            // Never asked of a store: the keeper does that.
            IoOp::Keep { .. } => {
                return way
                    .done
                    .push_back((io, IoResult::Failed(IoFailure::Internal)));
            }
        };
        self.ask(whom, bytes, request, way);
    }

    /// Does what the operator ordered under `order`; the outcome comes out of [`PoolStore::poll_ordered`].
    pub fn order(&mut self, order: u64, request: Request, way: &mut Way) {
        self.ask(Whom::Operator(order), Vec::new(), request, way);
    }

    /// Ends an access that still waits for space or for a copy; false: it is not such a one.
    pub fn cancel(&mut self, io: IoId, way: &mut Way) -> bool {
        let of = |asked: &Asked| match &asked.whom {
            Whom::Read(id)
            | Whom::Write { io: id, .. }
            | Whom::Same { io: id, .. }
            | Whom::Plain(id, _) => *id == io,
            Whom::Operator(_) => false,
        };
        let Some(id) = self.asked.find(of) else {
            return false;
        };
        if !self.core.cancel(way.now, RequestId(id)) {
            return false;
        }
        self.asked.remove(id);
        way.done.push_back((io, IoResult::Failed(IoFailure::Space)));
        self.settle(way);
        true
    }

    fn ask(&mut self, whom: Whom, bytes: Vec<u8>, request: Request, way: &mut Way) {
        let id = self.asked.insert(Asked {
            whom,
            bytes,
            moving: None,
        });
        self.core.handle_request(way.now, RequestId(id), request);
        self.settle(way);
    }

    /// The next step of a WRITE SAME: `bytes` holds as many blocks as a step writes.
    fn write_same(
        &mut self,
        (io, volume): (IoId, VolumeId),
        left: Extent,
        bytes: Vec<u8>,
        fua: bool,
        way: &mut Way,
    ) {
        if left.length_bytes == 0 {
            if fua {
                let whom = Whom::Plain(io, IoResult::Done);
                return self.ask(whom, Vec::new(), Request::Flush, way);
            }
            return way.done.push_back((io, IoResult::Done));
        }
        let length_bytes = left.length_bytes.min(bytes.len() as u64);
        let request = Request::Write {
            volume,
            offset_bytes: left.offset_bytes,
            length_bytes: length_bytes as u32,
            fua: false,
        };
        let left = Extent {
            offset_bytes: left.offset_bytes + length_bytes,
            length_bytes: left.length_bytes - length_bytes,
        };
        let whom = Whom::Same {
            io,
            volume,
            left,
            fua,
        };
        self.ask(whom, bytes, request, way);
    }

    /// The pool answers.
    pub(super) fn take_reply(&mut self, id: u64, outcome: Outcome, way: &mut Way) {
        let asked = self.asked.get_mut(id);
        match outcome {
            Outcome::Ready { access, pieces } => {
                let moving = asked.moving.insert(Moving {
                    access,
                    pieces,
                    next: 0,
                    at: 0,
                    writes: !matches!(asked.whom, Whom::Read(_)),
                });
                match &mut way.gate {
                    None => self.go_on(id, way),
                    Some(gate) => {
                        let op = if moving.writes { Op::Write } else { Op::Read };
                        let fua = matches!(asked.whom, Whom::Write { fua: true, .. });
                        let held = Held::Pool {
                            pool: self.number,
                            asked: id,
                        };
                        let stretches = stretches(&self.groups, &moving.pieces);
                        gate.hold(way.now, held, Work { op, fua }, stretches);
                    }
                }
            }
            Outcome::Failed(failure) => {
                let asked = self.asked.remove(id);
                let result = match asked.whom {
                    Whom::Operator(order) => {
                        return self.ordered.push_back((order, Err(failure)));
                    }
                    Whom::Read(io) => (io, IoFailure::Internal),
                    Whom::Write { io, .. } | Whom::Same { io, .. } | Whom::Plain(io, _) => {
                        (io, refusal(failure))
                    }
                };
                way.done.push_back((result.0, IoResult::Failed(result.1)));
            }
            outcome @ (Outcome::Done | Outcome::Created(_) | Outcome::Grown(_)) => {
                let asked = self.asked.remove(id);
                match asked.whom {
                    Whom::Operator(order) => self.ordered.push_back((order, Ok(outcome))),
                    Whom::Plain(io, result) => way.done.push_back((io, result)),
                    // A `fua` write that was moved before.
                    Whom::Write { io, .. } => {
                        way.done.push_back((io, IoResult::Written(asked.bytes)));
                    }
                    Whom::Read(_) | Whom::Same { .. } => {
                        unreachable!("these are answered with pieces, or fail")
                    }
                }
            }
        }
    }

    /// The model lets the data of an access move.
    pub fn handle_passed(&mut self, id: u64, way: &mut Way) {
        self.go_on(id, way);
        self.settle(way);
    }

    /// A file has moved a piece, or could not.
    pub fn handle_piece(&mut self, id: u64, finished: Finished<Purpose>, way: &mut Way) {
        self.asked.get_mut(id).bytes = finished.bytes;
        match finished.result {
            Ok(()) => self.go_on(id, way),
            Err(e) => self.moved(id, Err(e), way),
        }
        self.settle(way);
    }

    /// Moves pieces until one has to be waited for, or none is left.
    fn go_on(&mut self, id: u64, way: &mut Way) {
        let asked = self.asked.get_mut(id);
        let moving = asked.moving.as_mut().expect("it moves data");
        while let Some(piece) = moving.pieces.as_slice().get(moving.next).copied() {
            let start = moving.at;
            moving.next += 1;
            moving.at += piece.length_bytes() as usize;
            let Piece::Data { place, .. } = piece else {
                continue;
            };
            let bytes = std::mem::take(&mut asked.bytes);
            let range = start..moving.at;
            let purpose = Purpose::Piece {
                pool: self.number,
                asked: id,
            };
            let file = &self.groups[place.group.index()].file;
            let at = place.offset_bytes;
            let ended = if !moving.writes {
                way.files
                    .transfer(file, FileOp::Read, at, bytes, range, purpose)
            } else {
                let op = FileOp::Write { durable: false };
                if matches!(asked.whom, Whom::Same { .. }) {
                    // Not at once even where it could be: a long WRITE SAME would keep all others out.
                    way.files
                        .transfer_later(file, op, at, bytes, range, purpose)
                } else {
                    way.files.transfer(file, op, at, bytes, range, purpose)
                }
            };
            let Some(finished) = ended else { return };
            asked.bytes = finished.bytes;
            if let Err(e) = finished.result {
                return self.moved(id, Err(e), way);
            }
        }
        self.moved(id, Ok(()), way);
    }

    /// All pieces were moved, or one could not be.
    fn moved(&mut self, id: u64, result: io::Result<()>, way: &mut Way) {
        let asked = self.asked.get_mut(id);
        let moving = asked.moving.take().expect("it moved data");
        let ok = result.is_ok();
        // The request is over for the pool, except a `fua` write; and its number may be another's once it is removed.
        let awaits = ok && matches!(asked.whom, Whom::Write { fua: true, .. });
        self.core.handle_moved(way.now, moving.access, ok);
        if awaits {
            return;
        }
        let asked = self.asked.remove(id);
        let (io, failure) = match asked.whom {
            Whom::Read(io) => (io, IoFailure::Read),
            Whom::Write { io, .. } | Whom::Same { io, .. } => (
                io,
                result
                    .as_ref()
                    .err()
                    .map_or(IoFailure::Write, write_failure),
            ),
            Whom::Plain(..) | Whom::Operator(_) => unreachable!("these move no data"),
        };
        if !ok {
            return way.done.push_back((io, IoResult::Failed(failure)));
        }
        match asked.whom {
            Whom::Read(_) => way.done.push_back((io, IoResult::ReadData(asked.bytes))),
            Whom::Same {
                volume, left, fua, ..
            } => self.write_same((io, volume), left, asked.bytes, fua, way),
            _ => way.done.push_back((io, IoResult::Written(asked.bytes))),
        }
    }
}

/// Where pieces lie on the modelled drives; what lies nowhere costs the controller alone.
fn stretches<'a>(
    groups: &'a [GroupFile],
    pieces: &'a Pieces,
) -> impl ExactSizeIterator<Item = Stretch> + 'a {
    pieces.as_slice().iter().map(|piece| match piece {
        Piece::Data {
            place,
            length_bytes,
        } => {
            let group = &groups[place.group.index()];
            Stretch {
                group: group.model_group,
                offset_bytes: group.model_offset_bytes + place.offset_bytes,
                length_bytes: u64::from(*length_bytes),
            }
        }
        Piece::Zeros { .. } => Stretch {
            group: groups.first().map_or(0, |group| group.model_group),
            offset_bytes: 0,
            length_bytes: 0,
        },
    })
}

/// What the target is told when a pool refuses.
fn refusal(failure: Failure) -> IoFailure {
    match failure {
        Failure::Full | Failure::Quota => IoFailure::Space,
        Failure::ReadOnly | Failure::Snapshot => IoFailure::Protected,
        Failure::Io => IoFailure::Write,
        _ => IoFailure::Internal,
    }
}

/// What the target is told when a file refuses.
fn write_failure(e: &io::Error) -> IoFailure {
    match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => IoFailure::Space,
        _ => IoFailure::Write,
    }
}

fn range(extent: Extent) -> Range {
    Range {
        offset_bytes: extent.offset_bytes,
        length_bytes: extent.length_bytes,
    }
}

fn extent_of(range: Range) -> Extent {
    Extent {
        offset_bytes: range.offset_bytes,
        length_bytes: range.length_bytes,
    }
}
