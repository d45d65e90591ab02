//! Bytes of tape blocks on the store of the cartridges: READ and WRITE of tape drives.

use hakaru_tape::{Condition, Piece, Ticket, Transfer};

use super::{Answer, Step, StepContext};
use crate::io::IoOp;

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
}

impl TapeRead {
    /// Reads the blocks of a transfer, at least one.
    pub fn new(store_lun: u8, region_bytes: u64, transfer: Transfer) -> Self {
        Self {
            store_lun,
            region_bytes,
            transfer,
            requested: 0,
            data: Vec::new(),
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
        self.transfer.ticket.done();
        let mut data = core::mem::take(&mut self.data);
        data.truncate(self.transfer.bytes as usize);
        match self.transfer.end {
            Some(condition) => Step::DataAndCheck(data, condition.sense()),
            None => Step::Data(data),
        }
    }

    /// Keeps the blocks that were read, without the bytes between them.
    fn keep(&mut self, context: &mut StepContext<'_>, read: Vec<u8>, piece: Piece) {
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

/// Writes blocks.
#[derive(Debug)]
pub struct TapeWrite {
    store_lun: u8,
    op: Option<IoOp>,
    end: Option<Condition>,
    ticket: Ticket,
}

impl TapeWrite {
    /// Writes the blocks of a transfer, at least one. `data` begins with their bytes.
    pub fn new(store_lun: u8, region_bytes: u64, transfer: Transfer, data: &[u8]) -> Self {
        let op = transfer.pieces.first().map(|piece| IoOp::Write {
            offset_bytes: region_bytes + piece.offset_bytes,
            data: padded(*piece, data),
            fua: false,
        });
        Self {
            store_lun,
            op,
            end: transfer.end,
            ticket: transfer.ticket,
        }
    }

    pub(super) fn step(&mut self, context: &mut StepContext<'_>, answer: Answer) -> Step {
        if let Some(op) = self.op.take() {
            return Step::Access(self.store_lun, op);
        }
        if let Answer::Written(buffer) = answer {
            context.buffers.give(buffer);
        }
        self.ticket.done();
        match self.end {
            Some(condition) => Step::check(condition.sense()),
            None => Step::GOOD,
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
