//! Parts of a memory that are lent to the kernel, with the number of loans of each.
use std::collections::HashMap;

/// Granularity at which loans are counted, bytes.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;

/// Lent pieces of the memory, by number. A write to a lent range always replaces its pages. A write
/// beside it, within the same piece, replaces pages unnecessarily.
#[derive(Default)]
pub(crate) struct Lent(HashMap<u64, LentPiece>);

#[derive(Default)]
pub(crate) struct LentPiece {
    /// Number of loans that have not ended.
    pub(crate) loans: u32,
    /// Whether the piece also has an abandoned loan, which never ends.
    abandoned: bool,
}

impl Lent {
    /// Returns the numbers of the pieces that a range touches.
    pub(crate) fn pieces(offset: u64, length: u64) -> std::ops::Range<u64> {
        offset / PIECE_BYTES..(offset + length).div_ceil(PIECE_BYTES)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, piece: u64) -> Option<&LentPiece> {
        self.0.get(&piece)
    }

    /// Records that the piece has new pages, none of which is lent.
    pub(crate) fn forget(&mut self, piece: u64) {
        self.0.remove(&piece);
    }

    pub(crate) fn add(&mut self, offset: u64, length: u64) {
        for piece in Lent::pieces(offset, length) {
            self.0.entry(piece).or_default().loans += 1;
        }
    }

    pub(crate) fn remove(&mut self, offset: u64, length: u64) {
        for piece in Lent::pieces(offset, length) {
            if let Some(state) = self.0.get_mut(&piece) {
                state.loans -= 1;
                if state.loans == 0 && !state.abandoned {
                    self.0.remove(&piece);
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn abandon(&mut self, offset: u64, length: u64) {
        for piece in Lent::pieces(offset, length) {
            if let Some(state) = self.0.get_mut(&piece) {
                state.loans -= 1;
                state.abandoned = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_lent_until_every_loan_has_ended() {
        let mut lent = Lent::default();
        lent.add(0, 3 * PIECE_BYTES);
        lent.add(PIECE_BYTES + 1, 512);
        lent.remove(0, 3 * PIECE_BYTES);
        assert!(lent.0.keys().eq([&1]));
        lent.remove(PIECE_BYTES + 1, 512);
        assert!(lent.0.is_empty());
    }
}
