//! An initiator's access to a volume: requested from the pool, transferred piece by piece,
//! answered.
use std::io;

use hakaru_drive::Op;
use hakaru_pool::{Outcome, Piece, Pieces, Range, Request, RequestId, VolumeId};
use hakaru_scsi_device::{Extent, Io, IoFailure, IoId, IoOp, IoResult};

use super::failure::{io_failure, write_failure};
use super::store::{GroupFile, PoolStore};
use super::transfer::{Moving, PoolAccess, Requester, WriteSame};
use crate::context::{Held, Purpose, StoreContext, Transfer};
use crate::gate::{DriveWork, Stretch};
use crate::request::{FileDone, FileOp};

impl PoolStore {
    /// Starts an access to a volume. Its result is appended to `context.done`, often at once.
    pub(crate) fn access(
        &mut self,
        volume: VolumeId,
        io: Io,
        context: &mut StoreContext,
        take_buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) {
        let Io {
            id: io,
            op,
            received_bytes,
            ..
        } = io;
        match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                // Ranges without a page stay zero.
                let mut bytes = take_buffer(length_bytes as usize);
                bytes.resize(length_bytes as usize, 0);
                let request = Request::Read {
                    volume,
                    offset_bytes,
                    length_bytes,
                };
                let requester = Requester::Read { io, received_bytes };
                self.send_request(requester, bytes, request, context);
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
                let requester = Requester::Write {
                    io,
                    fua,
                    received_bytes,
                };
                self.send_request(requester, data, request, context);
            }
            IoOp::Flush | IoOp::FlushPart { .. } => {
                let requester = Requester::Plain(io, IoResult::Flushed);
                self.send_request(requester, Vec::new(), Request::Flush, context);
            }
            IoOp::Unmap { ranges } => self.unmap(volume, io, &ranges, false, context),
            IoOp::WriteSame {
                range,
                block,
                unmap: true,
                fua,
            } if block.iter().all(|byte| *byte == 0) => {
                self.unmap(volume, io, &[range], fua, context);
            }
            IoOp::WriteSame {
                range, block, fua, ..
            } => {
                let same = WriteSame {
                    io,
                    volume,
                    left: range,
                    fua,
                };
                self.start_write_same(same, &block, context);
            }
            IoOp::Status { range, extents_max } => {
                let result = self.provisioning(volume, range, extents_max);
                context.done.push_back((io, result));
            }
            IoOp::Keep { .. } | IoOp::Tape { .. } => {
                let result = IoResult::Failed(IoFailure::Internal);
                context.done.push_back((io, result));
            }
        }
    }

    fn unmap(
        &mut self,
        volume: VolumeId,
        io: IoId,
        ranges: &[Extent],
        fua: bool,
        context: &mut StoreContext,
    ) {
        let request = Request::Unmap {
            volume,
            ranges: ranges.iter().map(range_of).collect(),
            fua,
        };
        let requester = Requester::Plain(io, IoResult::Done);
        self.send_request(requester, Vec::new(), request, context);
    }

    fn provisioning(&self, volume: VolumeId, range: Extent, extents_max: usize) -> IoResult {
        let lookup = self
            .core
            .provisioning(volume, range_of(&range), extents_max);
        match lookup {
            Ok(extents) => {
                let extents = extents.into_iter();
                IoResult::Provisioned(extents.map(|(r, mapped)| (extent_of(r), mapped)).collect())
            }
            Err(_) => IoResult::Failed(IoFailure::Internal),
        }
    }

    /// Starts a management request; [`PoolStore::poll_ordered`] returns its outcome.
    pub(crate) fn order(&mut self, order: u64, request: Request, context: &mut StoreContext) {
        self.send_request(Requester::Operator(order), Vec::new(), request, context);
    }

    /// Cancels an access that waits for space or for a copy. Returns false if there is none.
    pub(crate) fn cancel(&mut self, io: IoId, context: &mut StoreContext) -> bool {
        let mut accesses = self.accesses.iter();
        let matching = accesses.find(|(_, access)| access.requester.io() == Some(io));
        let Some((id, _)) = matching else {
            return false;
        };
        if !self.core.cancel(context.now, RequestId(id as u64)) {
            return false;
        }
        self.accesses.remove(id);
        let result = IoResult::Failed(IoFailure::Space);
        context.done.push_back((io, result));
        self.settle(context);
        true
    }

    /// Sends a request to the pool; `bytes` is the data of an access.
    pub(super) fn send_request(
        &mut self,
        requester: Requester,
        bytes: Vec<u8>,
        request: Request,
        context: &mut StoreContext,
    ) {
        let id = self.accesses.insert(PoolAccess {
            requester,
            bytes,
            moving: None,
        });
        self.core
            .handle_request(context.now, RequestId(id as u64), request);
        self.settle(context);
    }

    /// Handles the pool's answer to a request.
    pub(super) fn handle_reply(&mut self, id: usize, outcome: Outcome, context: &mut StoreContext) {
        match outcome {
            Outcome::Ready { access, pieces } => {
                let request = &mut self.accesses[id];
                request.moving = Some(Moving {
                    access,
                    pieces,
                    next: 0,
                    at: 0,
                    writes: !matches!(request.requester, Requester::Read { .. }),
                });
                self.hold_or_move(id, context);
            }
            Outcome::Failed(failure) => {
                let request = self.accesses.remove(id);
                let (io, failure) = match request.requester {
                    Requester::Operator(order) => {
                        return self.ordered.push_back((order, Err(failure)));
                    }
                    Requester::Read { io, .. } => (io, IoFailure::Internal),
                    Requester::Write { io, .. }
                    | Requester::WriteSame(WriteSame { io, .. })
                    | Requester::Plain(io, _) => (io, io_failure(failure)),
                };
                context.done.push_back((io, IoResult::Failed(failure)));
            }
            Outcome::Done | Outcome::Created(_) | Outcome::Grown(_) => {
                let request = self.accesses.remove(id);
                match request.requester {
                    Requester::Operator(order) => self.ordered.push_back((order, Ok(outcome))),
                    Requester::Plain(io, result) => context.done.push_back((io, result)),
                    // The answer to a `fua` write after the transfer of its data.
                    Requester::Write { io, .. } => {
                        let result = IoResult::Written(request.bytes);
                        context.done.push_back((io, result));
                    }
                    Requester::Read { .. } | Requester::WriteSame(_) => {
                        unreachable!("these are answered with pieces, or fail")
                    }
                }
            }
        }
    }

    /// Starts the transfer of an access with known pieces, or lets the model hold it first.
    fn hold_or_move(&mut self, id: usize, context: &mut StoreContext) {
        let Some(gate) = &mut context.gate else {
            return self.move_next_piece(id, context);
        };
        let request = &self.accesses[id];
        let moving = request.moving.as_ref().expect("its pieces are known");
        let op = if moving.writes { Op::Write } else { Op::Read };
        let fua = matches!(request.requester, Requester::Write { fua: true, .. });
        let received_bytes = match request.requester {
            Requester::Read { received_bytes, .. } | Requester::Write { received_bytes, .. } => {
                received_bytes
            }
            // The block of WRITE SAME was received with the command.
            _ => Some(0),
        };
        let work = DriveWork {
            op,
            fua,
            received_bytes,
        };
        let held = Held::PoolAccess {
            pool: self.number,
            access: id,
        };
        let stretches = stretches(&self.groups, &moving.pieces);
        gate.hold(context.now, held, work, stretches);
    }

    /// Starts the transfer of an access that the model has completed.
    pub(crate) fn handle_access_passed(&mut self, id: usize, context: &mut StoreContext) {
        self.move_next_piece(id, context);
        self.settle(context);
    }

    /// Handles a completed or failed transfer of a piece.
    pub(crate) fn handle_piece(&mut self, id: usize, done: FileDone, context: &mut StoreContext) {
        self.accesses[id].bytes = done.bytes;
        match done.result {
            Ok(()) => self.move_next_piece(id, context),
            Err(error) => self.end_moving(id, Err(error), context),
        }
        self.settle(context);
    }

    /// Requests the transfer of the next piece in a file; ends the access if none is left.
    fn move_next_piece(&mut self, id: usize, context: &mut StoreContext) {
        let request = &mut self.accesses[id];
        let moving = request.moving.as_mut().expect("the access moves data");
        while let Some(piece) = moving.pieces.as_slice().get(moving.next).copied() {
            let start = moving.at;
            moving.next += 1;
            moving.at += piece.length_bytes() as usize;
            let Piece::Data { place, .. } = piece else {
                continue;
            };
            let op = if moving.writes {
                FileOp::Write { durable: false }
            } else {
                FileOp::Read
            };
            let transfer = Transfer {
                file: self.groups[place.group.index()].file,
                op,
                offset_bytes: place.offset_bytes,
                bytes: std::mem::take(&mut request.bytes),
                range: start..moving.at,
                // A long WRITE SAME would block all other accesses.
                at_once: !matches!(request.requester, Requester::WriteSame(_)),
            };
            let purpose = Purpose::PoolAccess {
                pool: self.number,
                access: id,
            };
            return context.transfer(transfer, purpose);
        }
        self.end_moving(id, Ok(()), context);
    }

    /// Ends the transfer after the last piece or the first failure.
    fn end_moving(&mut self, id: usize, result: io::Result<()>, context: &mut StoreContext) {
        let request = &mut self.accesses[id];
        let moving = request.moving.take().expect("the access moved data");
        let ok = result.is_ok();
        // The pool has finished the request, unless it is a `fua` write, which the pool answers
        // again. The number of a removed request may be reused.
        let is_answered_again =
            ok && matches!(request.requester, Requester::Write { fua: true, .. });
        self.core.handle_moved(context.now, moving.access, ok);
        if is_answered_again {
            return;
        }
        let PoolAccess {
            requester, bytes, ..
        } = self.accesses.remove(id);
        let failed = |failure| IoResult::Failed(failure);
        let (io, answer) = match (requester, result) {
            (Requester::Read { io, .. }, Ok(())) => (io, IoResult::ReadData(bytes)),
            (Requester::Read { io, .. }, Err(_)) => (io, failed(IoFailure::Read)),
            (Requester::Write { io, .. }, Ok(())) => (io, IoResult::Written(bytes)),
            (Requester::WriteSame(same), Ok(())) => return self.write_same(same, bytes, context),
            (
                Requester::Write { io, .. } | Requester::WriteSame(WriteSame { io, .. }),
                Err(error),
            ) => (io, failed(write_failure(&error))),
            (Requester::Plain(..) | Requester::Operator(_), _) => {
                unreachable!("these move no data")
            }
        };
        context.done.push_back((io, answer));
    }
}

/// Returns the positions of pieces on the modelled drives.
fn stretches<'a>(
    groups: &'a [GroupFile],
    pieces: &'a Pieces,
) -> impl ExactSizeIterator<Item = Stretch> + 'a {
    let pieces = pieces.as_slice().iter();
    pieces.map(|piece| stretch_of(groups, piece))
}

/// Returns the position of a piece on the modelled drives. A range without a page has none, but its
/// zeros cross the port like any data.
fn stretch_of(groups: &[GroupFile], piece: &Piece) -> Stretch {
    match *piece {
        Piece::Data {
            place,
            length_bytes,
        } => {
            let group = groups[place.group.index()].place;
            Stretch {
                group: group.group,
                offset_bytes: group.offset_bytes + place.offset_bytes,
                length_bytes: u64::from(length_bytes),
                unmapped: false,
            }
        }
        Piece::Zeros { length_bytes } => Stretch {
            group: 0,
            offset_bytes: 0,
            length_bytes: u64::from(length_bytes),
            unmapped: true,
        },
    }
}

fn range_of(extent: &Extent) -> Range {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lu::Place;
    use crate::request::FileId;

    #[test]
    fn a_piece_of_a_page_has_a_position_and_an_unmapped_one_only_a_length() {
        let groups = [GroupFile {
            file: FileId(0),
            place: Place {
                group: 3,
                offset_bytes: 4096,
            },
        }];
        let place = hakaru_pool::Place {
            group: hakaru_pool::GroupId(0),
            offset_bytes: 512,
        };
        let length_bytes = 1024;
        let data = stretch_of(
            &groups,
            &Piece::Data {
                place,
                length_bytes,
            },
        );
        assert_eq!((data.group, data.offset_bytes), (3, 4608));
        assert_eq!((data.length_bytes, data.unmapped), (1024, false));
        let zeros = stretch_of(&groups, &Piece::Zeros { length_bytes });
        assert_eq!((zeros.length_bytes, zeros.unmapped), (1024, true));
    }
}
