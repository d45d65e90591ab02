//! Mapping of a RAID group's requests to drive commands.
//!
//! RAID 5 is left-symmetric (the layout of Linux md and of most arrays): in row `r` of `n` drives
//! the parity is on drive `n − 1 − r mod n`, and the row's data units follow on the drives after
//! it, wrapping around.
//!
//! **Not modelled**: no lock on a stripe, so two writes that meet in one row do not wait for each
//! other; no spare, no degraded group.
use crate::request::Op;
use hakaru_contract::drive::{Group, Raid};

/// A range of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) drive: u32,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Drive commands in two rounds: `then` starts when every one of `first` has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) first: Vec<Piece>,
    pub(crate) then: Vec<Piece>,
}

/// Layout of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    raid: Raid,
    drives: u64,
    unit: u64,
}

/// The part of a data unit that a request covers.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Index of the unit among its row's data units.
    index: u64,
    begin: u64,
    end: u64,
}

impl Layout {
    pub(crate) fn new(group: &Group) -> Layout {
        Layout {
            raid: group.raid,
            drives: u64::from(group.drives),
            unit: u64::from(group.stripe_unit_bytes),
        }
    }

    /// Returns the bytes of data in a row over all drives.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        self.unit * self.data_drives()
    }

    /// Returns [`Layout::stripe_bytes`], if a row has parity.
    pub(crate) fn parity_row_bytes(&self) -> Option<u64> {
        (self.raid == Raid::Raid5).then(|| self.stripe_bytes())
    }

    /// Returns the number of drives that hold data, without parity and mirrors.
    fn data_drives(&self) -> u64 {
        match self.raid {
            Raid::Raid0 => self.drives,
            Raid::Raid1 => self.drives / 2,
            Raid::Raid5 => self.drives - 1,
        }
    }

    /// Returns the usable bytes of the group: whole rows.
    pub(crate) fn capacity_bytes(&self, drive_bytes: u64) -> u64 {
        drive_bytes / self.unit * self.unit * self.data_drives()
    }

    /// Returns the drive commands for a request. `mirror(pair)` selects the half of a mirrored pair
    /// for a read.
    pub(crate) fn plan(
        &self,
        op: Op,
        offset: u64,
        length: u64,
        mirror: &mut dyn FnMut(u32) -> u32,
    ) -> Vec<Stage> {
        match (self.raid, op) {
            // The drives' own write caches are off or survive a power cut, so there is nothing to
            // flush.
            (_, Op::Flush) => Vec::new(),
            (_, Op::Unmap) => self.plan_unmap(offset, length),
            (Raid::Raid5, Op::Write) => self.plan_parity_write(offset, length),
            _ => {
                let mut stage = Stage::default();
                self.for_each_row(offset, length, |row, spans| {
                    for span in spans {
                        self.push_data(&mut stage.first, op, row, span, mirror);
                    }
                });
                vec![stage]
            }
        }
    }

    /// Unmaps whole rows on every drive at once, so that the work does not grow with the range.
    /// Parts of the first and last row are unmapped only where no parity would have to follow (as
    /// in Linux md).
    fn plan_unmap(&self, offset: u64, length: u64) -> Vec<Stage> {
        let row_bytes = self.stripe_bytes();
        let end = offset + length;
        let (first, last) = (offset.div_ceil(row_bytes), end / row_bytes);
        let mut stage = Stage::default();
        let ragged = |stage: &mut Stage, from: u64, to: u64| {
            if self.raid != Raid::Raid5 && from < to {
                self.for_each_row(from, to - from, |row, spans| {
                    for span in spans {
                        self.push_data(&mut stage.first, Op::Unmap, row, span, &mut |_| 0);
                    }
                });
            }
        };
        if first >= last {
            ragged(&mut stage, offset, end);
        } else {
            ragged(&mut stage, offset, first * row_bytes);
            for drive in 0..self.drives as u32 {
                push(
                    &mut stage.first,
                    Piece {
                        drive,
                        op: Op::Unmap,
                        offset: first * self.unit,
                        length: (last - first) * self.unit,
                    },
                );
            }
            ragged(&mut stage, last * row_bytes, end);
        }
        if stage.first.is_empty() {
            return Vec::new();
        }
        vec![stage]
    }

    /// Rows that are covered completely need no reads; a partial first or last row is updated
    /// separately.
    fn plan_parity_write(&self, offset: u64, length: u64) -> Vec<Stage> {
        let mut whole = Stage::default();
        let mut stages = Vec::with_capacity(3);
        self.for_each_row(offset, length, |row, spans| {
            let covered: u64 = spans.iter().map(|s| s.end - s.begin).sum();
            if covered == self.stripe_bytes() {
                for drive in 0..self.drives as u32 {
                    push(
                        &mut whole.first,
                        Piece {
                            drive,
                            op: Op::Write,
                            offset: row * self.unit,
                            length: self.unit,
                        },
                    );
                }
            } else {
                stages.push(self.partial_row(row, spans));
            }
        });
        if !whole.first.is_empty() {
            stages.push(whole);
        }
        stages
    }

    /// Updates part of a row: reads the data needed to compute the new parity, then writes data and
    /// parity.
    ///
    /// Either the old data and parity are read (read-modify-write), or the rest of the row
    /// (reconstruct-write), whichever takes fewer drive commands.
    fn partial_row(&self, row: u64, spans: &[Span]) -> Stage {
        let begin = spans
            .iter()
            .map(|s| s.begin)
            .min()
            .expect("a row has a span");
        let end = spans.iter().map(|s| s.end).max().expect("a row has a span");
        let parity = Piece {
            drive: self.parity_drive(row),
            op: Op::Write,
            offset: row * self.unit + begin,
            length: end - begin,
        };
        let mut writes: Vec<Piece> = spans
            .iter()
            .map(|s| self.data_piece(Op::Write, row, s))
            .collect();
        writes.push(parity);
        let rest = self.rest_of_row(row, spans, begin, end);
        let reads = if rest.len() < writes.len() {
            rest
        } else {
            writes
                .iter()
                .map(|w| Piece { op: Op::Read, ..*w })
                .collect()
        };
        Stage {
            first: reads,
            then: writes,
        }
    }

    /// Returns the pieces of a row in `begin..end` of its data units besides `spans`.
    fn rest_of_row(&self, row: u64, spans: &[Span], begin: u64, end: u64) -> Vec<Piece> {
        let mut rest = Vec::new();
        for index in 0..self.data_drives() {
            let (from, to) = spans
                .iter()
                .find(|s| s.index == index)
                .map_or((end, end), |s| (s.begin, s.end));
            for (begin, end) in [(begin, from), (to, end)] {
                if begin < end {
                    rest.push(self.data_piece(Op::Read, row, &Span { index, begin, end }));
                }
            }
        }
        rest
    }

    /// Calls `visit` with each row that a range of the group touches and the spans of its data
    /// units, in order.
    fn for_each_row(&self, offset: u64, length: u64, mut visit: impl FnMut(u64, &[Span])) {
        let row_bytes = self.stripe_bytes();
        let end = offset + length;
        let mut at = offset;
        let mut spans = Vec::with_capacity(self.data_drives() as usize);
        while at < end {
            let row = at / row_bytes;
            let row_end = end.min((row + 1) * row_bytes);
            spans.clear();
            while at < row_end {
                let begin = at % self.unit;
                let length = (self.unit - begin).min(row_end - at);
                spans.push(Span {
                    index: at % row_bytes / self.unit,
                    begin,
                    end: begin + length,
                });
                at += length;
            }
            visit(row, &spans);
        }
    }

    fn push_data(
        &self,
        pieces: &mut Vec<Piece>,
        op: Op,
        row: u64,
        span: &Span,
        mirror: &mut dyn FnMut(u32) -> u32,
    ) {
        let piece = self.data_piece(op, row, span);
        match (self.raid, op) {
            (Raid::Raid1, Op::Read) => push(
                pieces,
                Piece {
                    drive: piece.drive + mirror(piece.drive / 2),
                    ..piece
                },
            ),
            (Raid::Raid1, _) => {
                push(pieces, piece);
                push(
                    pieces,
                    Piece {
                        drive: piece.drive + 1,
                        ..piece
                    },
                );
            }
            _ => push(pieces, piece),
        }
    }

    fn data_piece(&self, op: Op, row: u64, span: &Span) -> Piece {
        Piece {
            drive: self.data_drive(row, span.index),
            op,
            offset: row * self.unit + span.begin,
            length: span.end - span.begin,
        }
    }

    /// Returns the drive of a row's data unit; in RAID 1, the first of its pair.
    fn data_drive(&self, row: u64, index: u64) -> u32 {
        (match self.raid {
            Raid::Raid0 => index,
            Raid::Raid1 => 2 * index,
            Raid::Raid5 => (u64::from(self.parity_drive(row)) + 1 + index) % self.drives,
        }) as u32
    }

    fn parity_drive(&self, row: u64) -> u32 {
        (self.drives - 1 - row % self.drives) as u32
    }
}

/// Appends a piece, or extends the last piece of the same drive if this one follows it.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.iter_mut().rev().find(|p| p.drive == piece.drive) {
        Some(last) if last.offset + last.length == piece.offset => last.length += piece.length,
        _ => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn layout(raid: Raid, drives: u64) -> Layout {
        Layout {
            raid,
            drives,
            unit: 64 * K,
        }
    }

    fn plan(layout: Layout, op: Op, offset: u64, length: u64) -> Vec<Stage> {
        layout.plan(op, offset, length, &mut |_| 0)
    }

    fn piece(drive: u32, op: Op, offset: u64, length: u64) -> Piece {
        Piece {
            drive,
            op,
            offset,
            length,
        }
    }

    #[test]
    fn raid5_small_write_reads_and_writes_data_and_parity() {
        let stages = plan(layout(Raid::Raid5, 5), Op::Write, 64 * K + 4 * K, 8 * K);
        let [data, parity] = [1, 4].map(|drive| piece(drive, Op::Write, 4 * K, 8 * K));
        let reads = [data, parity].map(|p| Piece { op: Op::Read, ..p });
        assert_eq!(
            stages,
            [Stage {
                first: reads.to_vec(),
                then: vec![data, parity]
            }]
        );
    }

    #[test]
    fn raid5_full_stripe_write_reads_nothing_and_merges_rows() {
        let stages = plan(layout(Raid::Raid5, 5), Op::Write, 0, 2 * 256 * K);
        let writes = (0..5)
            .map(|drive| piece(drive, Op::Write, 0, 128 * K))
            .collect();
        assert_eq!(
            stages,
            [Stage {
                first: writes,
                then: vec![]
            }]
        );
    }

    #[test]
    fn raid5_write_of_most_of_a_row_reads_the_rest_instead() {
        let stages = plan(layout(Raid::Raid5, 5), Op::Write, 0, 192 * K);
        assert_eq!(stages[0].first, [piece(3, Op::Read, 0, 64 * K)]);
        assert_eq!(stages[0].then.len(), 4);
    }

    #[test]
    fn raid5_write_with_ragged_ends_updates_first_and_last_row_apart_from_whole_ones() {
        let stages = plan(layout(Raid::Raid5, 5), Op::Write, 250 * K, 256 * K + 12 * K);
        let reads: Vec<usize> = stages.iter().map(|s| s.then.len()).collect();
        assert_eq!(reads, [2, 2, 0]);
    }

    #[test]
    fn raid5_parity_rotates_over_all_drives() {
        let layout = layout(Raid::Raid5, 5);
        let parity: Vec<u32> = (0..6).map(|row| layout.parity_drive(row)).collect();
        assert_eq!(parity, [4, 3, 2, 1, 0, 4]);
        for row in 0..5 {
            let mut all: Vec<u32> = (0..4).map(|index| layout.data_drive(row, index)).collect();
            all.push(layout.parity_drive(row));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn raid0_merges_pieces_that_follow_each_other_on_a_drive() {
        let stages = plan(layout(Raid::Raid0, 2), Op::Read, 0, 256 * K);
        let reads = vec![
            piece(0, Op::Read, 0, 128 * K),
            piece(1, Op::Read, 0, 128 * K),
        ];
        assert_eq!(
            stages,
            [Stage {
                first: reads,
                then: vec![]
            }]
        );
    }

    #[test]
    fn raid1_writes_both_halves_and_reads_the_chosen_one() {
        let layout = layout(Raid::Raid1, 4);
        let writes = layout.plan(Op::Write, 64 * K, 4 * K, &mut |_| 0);
        assert_eq!(
            writes[0].first.iter().map(|p| p.drive).collect::<Vec<_>>(),
            [2, 3]
        );
        let reads = layout.plan(Op::Read, 64 * K, 4 * K, &mut |pair| pair);
        assert_eq!(reads[0].first, [piece(3, Op::Read, 0, 4 * K)]);
    }

    #[test]
    fn an_unmap_reaches_whole_rows_on_every_drive_and_ragged_ends_only_without_parity() {
        let unmap = |raid, drives, offset, length| {
            let stages = plan(layout(raid, drives), Op::Unmap, offset, length);
            let pieces: Vec<_> = stages.into_iter().flat_map(|s| s.first).collect();
            pieces
                .iter()
                .map(|p| (p.drive, p.offset / K, p.length / K))
                .collect::<Vec<_>>()
        };
        let all = |n: u32| (0..n).map(|d| (d, 64, 128)).collect::<Vec<_>>();
        assert_eq!(unmap(Raid::Raid5, 5, 200 * K, 600 * K), all(5));
        assert_eq!(unmap(Raid::Raid5, 5, 4 * K, 200 * K), []);
        assert_eq!(
            unmap(Raid::Raid1, 2, 60 * K, 8 * K),
            [(0, 60, 8), (1, 60, 8)]
        );
        assert_eq!(
            unmap(Raid::Raid0, 2, 64 * K, 320 * K),
            [(1, 0, 192), (0, 64, 128)]
        );
    }

    #[test]
    fn every_byte_of_a_request_is_on_exactly_one_data_piece() {
        for (raid, drives) in [(Raid::Raid0, 3), (Raid::Raid5, 5)] {
            for (offset, length) in [
                (0, 1),
                (63 * K, 2 * K),
                (5 * K, 1000 * K),
                (191 * K, 300 * K),
            ] {
                let stages = plan(layout(raid, drives), Op::Read, offset, length);
                let bytes: u64 = stages.iter().flat_map(|s| &s.first).map(|p| p.length).sum();
                assert_eq!(bytes, length, "{raid:?} {offset} {length}");
            }
        }
    }
}
