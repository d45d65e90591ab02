//! Bytes of tape blocks on the store of the cartridges: READ and WRITE of tape drives, and records
//! of the index.

use std::collections::VecDeque;

use hakaru_tape::timing::Motion;
use hakaru_tape::{Condition, Piece, Record, Ticket, Transfer};
use hakaru_wire::scsi::{Sense, Status};

use super::{Answer, Job, Program, Step, StepContext};
use crate::io::{Extent, IoOp};
use crate::verdict::Verdict;

/// A motion that takes time.
#[derive(Debug)]
pub struct Moving {
    /// Number of the drive, from 0.
    pub drive: u8,
    /// The motion.
    pub motion: Motion,
    /// Keeps the drive busy until the motion ends.
    pub ticket: Option<Ticket>,
}

impl Moving {
    fn op(&self) -> IoOp {
        IoOp::Tape {
            drive: self.drive,
            motion: self.motion,
        }
    }
}

/// Reads blocks.
#[derive(Debug)]
pub struct TapeRead {
    /// LU whose bytes hold the cartridges.
    store_lun: u8,
    /// Offset of the cartridge's region on the store, bytes.
    region_bytes: u64,
    transfer: Transfer,
    /// Number of pieces requested.
    requested: usize,
    data: Vec<u8>,
    moving: Option<Moving>,
    /// Whether the initiator gets the blocks.
    returned: bool,
}

impl TapeRead {
    /// Reads the blocks of a transfer, at least one. If they are not to be `returned`, they are
    /// only verified.
    pub fn new(
        store_lun: u8,
        region_bytes: u64,
        transfer: Transfer,
        moving: Option<Moving>,
        returned: bool,
    ) -> Self {
        Self {
            store_lun,
            region_bytes,
            transfer,
            requested: 0,
            data: Vec::new(),
            moving,
            returned,
        }
    }

    /// Returns the bytes of the largest access.
    #[must_use]
    pub fn reads_bytes(&self) -> u32 {
        let pieces = self.transfer.pieces.iter();
        pieces.map(access_bytes).max().unwrap_or(0)
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        if let (Answer::Read(read), Some(last)) = (answer, self.requested.checked_sub(1)) {
            self.keep(context, read, self.transfer.pieces[last]);
        }
        if let Some(piece) = self.transfer.pieces.get(self.requested) {
            self.requested += 1;
            let op = IoOp::Read {
                offset_bytes: self.region_bytes + piece.offset_bytes,
                length_bytes: access_bytes(piece),
                in_place: false,
            };
            return Step::Access(self.store_lun, op);
        }
        if let Some(moving) = self.moving.take() {
            return Step::Access(self.store_lun, moving.op());
        }
        self.transfer.ticket.done();
        let mut data = core::mem::take(&mut self.data);
        data.truncate(self.transfer.bytes as usize);
        match self.transfer.end {
            Some(condition) => Step::DataAndCheck(data, condition.sense()),
            None => Step::Data(data),
        }
    }

    /// Notes that the access in flight has failed.
    pub(super) fn fail(&self) {
        self.transfer.ticket.fail();
    }

    /// Keeps the blocks that were read, without the bytes between them.
    fn keep(&mut self, context: &mut StepContext<'_>, read: Vec<u8>, piece: Piece) {
        if !self.returned {
            return context.buffers.give(read);
        }
        let (stride, length) = (piece.stride_bytes() as usize, piece.block_bytes as usize);
        if self.data.is_empty() && (stride == length || piece.blocks == 1) {
            self.data = read;
            self.data.truncate(piece.blocks as usize * length);
            return;
        }
        for block in read.chunks(stride) {
            self.data.extend_from_slice(&block[..length]);
        }
        context.buffers.give(read);
    }
}

/// Writes blocks, and records of the index of their cartridge.
#[derive(Debug)]
pub struct TapeWrite {
    store_lun: u8,
    steps: VecDeque<Part>,
    end: Option<Condition>,
    /// Whether an error of the access in flight belongs to an earlier command: it makes data
    /// durable that was acknowledged.
    deferred: bool,
    /// Whether the access in flight is the flush before a record.
    flushing: bool,
    /// Whether motions continue after the command.
    immediate: bool,
}

#[derive(Debug)]
enum Part {
    Access { op: IoOp, deferred: bool },
    Done(Ticket),
}

impl TapeWrite {
    /// Writes the blocks of a transfer, at least one. `data` begins with their bytes.
    pub fn new(
        store_lun: u8,
        region_bytes: u64,
        transfer: Transfer,
        data: &[u8],
        moving: Option<Moving>,
    ) -> Self {
        let mut write = Self::with_end(store_lun, transfer.end);
        if let Some(record) = transfer.before {
            write.push(record, false);
        }
        for piece in &transfer.pieces {
            let op = IoOp::Write {
                offset_bytes: region_bytes + piece.offset_bytes,
                data: padded(*piece, data),
                fua: false,
            };
            let deferred = false;
            write.steps.push_back(Part::Access { op, deferred });
        }
        write.extend(moving);
        write.steps.push_back(Part::Done(transfer.ticket));
        if let Some(record) = transfer.after {
            write.push(record, false);
        }
        write
    }

    /// Writes records that make durable what earlier commands have written, and lets motions take
    /// their time: after the command, if it is `immediate`. `end` is the condition with which the
    /// command ends.
    pub fn synchronising(
        store_lun: u8,
        records: impl IntoIterator<Item = Record>,
        moving: Vec<Moving>,
        end: Option<Condition>,
        immediate: bool,
    ) -> Self {
        let mut write = Self::with_end(store_lun, end);
        write.immediate = immediate;
        for record in records {
            write.push(record, true);
        }
        write.extend(moving);
        write
    }

    /// Writes a record that concerns this command alone, which then ends with GOOD.
    pub fn recording(store_lun: u8, record: Record) -> Self {
        let mut write = Self::with_end(store_lun, None);
        write.push(record, false);
        write
    }

    fn extend(&mut self, moving: impl IntoIterator<Item = Moving>) {
        for moving in moving {
            let op = moving.op();
            let deferred = false;
            self.steps.push_back(Part::Access { op, deferred });
            self.steps.extend(moving.ticket.map(Part::Done));
        }
    }

    fn with_end(store_lun: u8, end: Option<Condition>) -> Self {
        Self {
            store_lun,
            steps: VecDeque::new(),
            end,
            deferred: false,
            flushing: false,
            immediate: false,
        }
    }

    fn push(&mut self, record: Record, deferred: bool) {
        let offset_bytes = record.offset_bytes;
        if record.flush {
            let op = IoOp::FlushPart { offset_bytes };
            self.steps.push_back(Part::Access { op, deferred });
        }
        let op = IoOp::Write {
            offset_bytes,
            data: record.bytes,
            fua: true,
        };
        self.steps.push_back(Part::Access { op, deferred });
        let ticket = record.ticket;
        // The record stands even if the space cannot be given back.
        self.steps.push_back(Part::Done(ticket.clone()));
        if let Some(unused) = record.unused {
            let range = Extent {
                offset_bytes: unused.start,
                length_bytes: unused.end - unused.start,
            };
            let op = IoOp::Unmap {
                ranges: vec![range],
            };
            let deferred = false;
            self.steps.push_back(Part::Access { op, deferred });
            self.steps.push_back(Part::Done(ticket));
        }
    }

    /// Notes that the access in flight has failed with `sense`, and returns the sense data of the
    /// command. The additional sense code of a full pool exists for direct-access devices alone,
    /// and VOLUME OVERFLOW would let a program take the next cartridge, for which there is no space
    /// either.
    pub(super) fn failure(&self, sense: Sense) -> Sense {
        if let Some(ticket) = self.ticket_in_flight() {
            ticket.fail();
        }
        let sense = if sense == Sense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT {
            Sense::WRITE_ERROR
        } else {
            sense
        };
        if self.deferred {
            sense.as_deferred()
        } else {
            sense
        }
    }

    /// Ends the access in flight, which has failed after the command was aborted. If it was a
    /// flush, the store may have dropped blocks. A record alone is written again by the next one.
    pub(super) fn lose(&self) {
        if let Some(ticket) = self.ticket_in_flight()
            && self.flushing
        {
            ticket.lose();
        }
    }

    fn ticket_in_flight(&self) -> Option<&Ticket> {
        self.steps.iter().find_map(|part| match part {
            Part::Done(ticket) => Some(ticket),
            Part::Access { .. } => None,
        })
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        if let Answer::Written(buffer) = answer {
            context.buffers.give(buffer);
        }
        while let Some(part) = self.steps.pop_front() {
            match part {
                Part::Done(ticket) => ticket.done(),
                Part::Access {
                    op: IoOp::Tape { .. },
                    ..
                } if self.immediate => {
                    self.steps.push_front(part);
                    let mut rest = Self::with_end(self.store_lun, None);
                    rest.steps = core::mem::take(&mut self.steps);
                    let job = Job::new(context.lu, Program::TapeWrite(rest));
                    return Step::Continue(self.verdict(), Box::new(job));
                }
                Part::Access { op, deferred } => {
                    self.deferred = deferred;
                    self.flushing = matches!(op, IoOp::FlushPart { .. });
                    return Step::Access(self.store_lun, op);
                }
            }
        }
        Step::End(self.verdict())
    }

    fn verdict(&self) -> Verdict {
        match self.end {
            Some(condition) => Verdict::Check(condition.sense()),
            None => Verdict::Status(Status::GOOD),
        }
    }
}

/// Returns the length of a piece in the region, bytes.
fn access_bytes(piece: &Piece) -> u32 {
    u32::try_from(piece.region_bytes()).expect("the drive bounds the length of a transfer")
}

/// Returns the blocks as they are in the region. The bytes between them are zeros.
fn padded(piece: Piece, data: &[u8]) -> Vec<u8> {
    let (stride, length) = (piece.stride_bytes() as usize, piece.block_bytes as usize);
    let data = &data[..piece.blocks as usize * length];
    if stride == length {
        return data.to_vec();
    }
    let mut bytes = vec![0; access_bytes(&piece) as usize];
    for (to, from) in bytes.chunks_mut(stride).zip(data.chunks(length)) {
        to[..length].copy_from_slice(from);
    }
    bytes
}
