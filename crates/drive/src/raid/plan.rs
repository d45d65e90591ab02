//! The drive commands for a request to a RAID group.
use hakaru_contract::drive::Raid;

use super::layout::{Layout, Span};
use crate::request::Op;

/// A command to one drive: operation and range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) drive: u32,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Drive commands in two rounds. Those of `second` start when all of `first` have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) first: Vec<Piece>,
    pub(crate) second: Vec<Piece>,
}

/// Returns the drive commands for a request, in stages that run concurrently. `mirror(pair)`
/// returns the half of a mirrored pair that should read, 0 or 1.
pub(crate) fn plan(
    layout: &Layout,
    op: Op,
    offset: u64,
    length: u64,
    mirror: &mut dyn FnMut(u32) -> u32,
) -> Vec<Stage> {
    match (layout.raid, op) {
        // The drives' own write caches are off or survive a power failure, so there is nothing to
        // flush.
        (_, Op::Flush) => Vec::new(),
        (_, Op::Unmap) => plan_unmap(layout, offset, length),
        (Raid::Raid5, Op::Write) => plan_parity_write(layout, offset, length),
        _ => {
            let mut stage = Stage::default();
            layout.for_each_row(offset, length, |row, spans| {
                for span in spans {
                    push_data(layout, &mut stage.first, op, row, span, mirror);
                }
            });
            vec![stage]
        }
    }
}

/// Plans an unmap: one command per drive for all complete rows, so that the work does not grow with
/// the range. Partial rows are unmapped only without parity, which would have to be updated (as in
/// Linux md).
fn plan_unmap(layout: &Layout, offset: u64, length: u64) -> Vec<Stage> {
    let row_bytes = layout.stripe_bytes();
    let end = offset + length;
    let (first, last) = (offset.div_ceil(row_bytes), end / row_bytes);
    let mut stage = Stage::default();
    let plan_partial_row = |stage: &mut Stage, from: u64, to: u64| {
        if layout.raid != Raid::Raid5 && from < to {
            layout.for_each_row(from, to - from, |row, spans| {
                for span in spans {
                    push_data(layout, &mut stage.first, Op::Unmap, row, span, &mut |_| 0);
                }
            });
        }
    };
    if first >= last {
        plan_partial_row(&mut stage, offset, end);
    } else {
        plan_partial_row(&mut stage, offset, first * row_bytes);
        for drive in 0..layout.drives as u32 {
            push(
                &mut stage.first,
                Piece {
                    drive,
                    op: Op::Unmap,
                    offset: first * layout.unit,
                    length: (last - first) * layout.unit,
                },
            );
        }
        plan_partial_row(&mut stage, last * row_bytes, end);
    }
    if stage.first.is_empty() {
        return Vec::new();
    }
    vec![stage]
}

/// Plans a write with parity. Complete rows need no reads. A partial first or last row is a stage
/// of its own.
fn plan_parity_write(layout: &Layout, offset: u64, length: u64) -> Vec<Stage> {
    let mut whole = Stage::default();
    let mut stages = Vec::with_capacity(3);
    layout.for_each_row(offset, length, |row, spans| {
        let covered: u64 = spans.iter().map(|s| s.end - s.begin).sum();
        if covered == layout.stripe_bytes() {
            for drive in 0..layout.drives as u32 {
                push(
                    &mut whole.first,
                    Piece {
                        drive,
                        op: Op::Write,
                        offset: row * layout.unit,
                        length: layout.unit,
                    },
                );
            }
        } else {
            stages.push(partial_row(layout, row, spans));
        }
    });
    if !whole.first.is_empty() {
        stages.push(whole);
    }
    stages
}

/// Plans the update of part of a row: reads for the computation of the new parity, then writes of
/// data and parity.
///
/// The reads are those of the old data and parity (read-modify-write) or of the rest of the row
/// (reconstruct-write), whichever takes fewer drive commands.
fn partial_row(layout: &Layout, row: u64, spans: &[Span]) -> Stage {
    let begin = spans
        .iter()
        .map(|s| s.begin)
        .min()
        .expect("a row has a span");
    let end = spans.iter().map(|s| s.end).max().expect("a row has a span");
    let parity = Piece {
        drive: layout.parity_drive(row),
        op: Op::Write,
        offset: row * layout.unit + begin,
        length: end - begin,
    };
    let mut writes: Vec<Piece> = spans
        .iter()
        .map(|s| data_piece(layout, Op::Write, row, s))
        .collect();
    writes.push(parity);
    let rest = rest_of_row(layout, row, spans, begin, end);
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
        second: writes,
    }
}

/// Returns reads of `begin..end` of all data units of a row, without `spans`.
fn rest_of_row(layout: &Layout, row: u64, spans: &[Span], begin: u64, end: u64) -> Vec<Piece> {
    let mut rest = Vec::new();
    for index in 0..layout.data_drives() {
        let (from, to) = spans
            .iter()
            .find(|s| s.index == index)
            .map_or((end, end), |s| (s.begin, s.end));
        for (begin, end) in [(begin, from), (to, end)] {
            if begin < end {
                rest.push(data_piece(
                    layout,
                    Op::Read,
                    row,
                    &Span { index, begin, end },
                ));
            }
        }
    }
    rest
}

fn push_data(
    layout: &Layout,
    pieces: &mut Vec<Piece>,
    op: Op,
    row: u64,
    span: &Span,
    mirror: &mut dyn FnMut(u32) -> u32,
) {
    let piece = data_piece(layout, op, row, span);
    match (layout.raid, op) {
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

fn data_piece(layout: &Layout, op: Op, row: u64, span: &Span) -> Piece {
    Piece {
        drive: layout.data_drive(row, span.index),
        op,
        offset: row * layout.unit + span.begin,
        length: span.end - span.begin,
    }
}

/// Appends a piece, or extends the last piece of the same drive if the new one directly follows it.
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

    fn planned(layout: Layout, op: Op, offset: u64, length: u64) -> Vec<Stage> {
        plan(&layout, op, offset, length, &mut |_| 0)
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
        let stages = planned(layout(Raid::Raid5, 5), Op::Write, 64 * K + 4 * K, 8 * K);
        let [data, parity] = [1, 4].map(|drive| piece(drive, Op::Write, 4 * K, 8 * K));
        let reads = [data, parity].map(|p| Piece { op: Op::Read, ..p });
        assert_eq!(
            stages,
            [Stage {
                first: reads.to_vec(),
                second: vec![data, parity]
            }]
        );
    }

    #[test]
    fn raid5_full_stripe_write_reads_nothing_and_merges_rows() {
        let stages = planned(layout(Raid::Raid5, 5), Op::Write, 0, 2 * 256 * K);
        let writes = (0..5)
            .map(|drive| piece(drive, Op::Write, 0, 128 * K))
            .collect();
        assert_eq!(
            stages,
            [Stage {
                first: writes,
                second: vec![]
            }]
        );
    }

    #[test]
    fn raid5_write_of_most_of_a_row_reads_the_rest_instead() {
        let stages = planned(layout(Raid::Raid5, 5), Op::Write, 0, 192 * K);
        assert_eq!(stages[0].first, [piece(3, Op::Read, 0, 64 * K)]);
        assert_eq!(stages[0].second.len(), 4);
    }

    #[test]
    fn raid5_write_with_partial_rows_updates_them_separately_from_complete_rows() {
        let stages = planned(layout(Raid::Raid5, 5), Op::Write, 250 * K, 256 * K + 12 * K);
        let reads: Vec<usize> = stages.iter().map(|s| s.second.len()).collect();
        assert_eq!(reads, [2, 2, 0]);
    }

    #[test]
    fn raid0_merges_pieces_that_follow_each_other_on_a_drive() {
        let stages = planned(layout(Raid::Raid0, 2), Op::Read, 0, 256 * K);
        let reads = vec![
            piece(0, Op::Read, 0, 128 * K),
            piece(1, Op::Read, 0, 128 * K),
        ];
        assert_eq!(
            stages,
            [Stage {
                first: reads,
                second: vec![]
            }]
        );
    }

    #[test]
    fn raid1_writes_both_halves_and_reads_the_chosen_one() {
        let layout = layout(Raid::Raid1, 4);
        let writes = plan(&layout, Op::Write, 64 * K, 4 * K, &mut |_| 0);
        assert_eq!(
            writes[0].first.iter().map(|p| p.drive).collect::<Vec<_>>(),
            [2, 3]
        );
        let reads = plan(&layout, Op::Read, 64 * K, 4 * K, &mut |pair| pair);
        assert_eq!(reads[0].first, [piece(3, Op::Read, 0, 4 * K)]);
    }

    #[test]
    fn an_unmap_reaches_whole_rows_on_every_drive_and_ragged_ends_only_without_parity() {
        let unmap = |raid, drives, offset, length| {
            let stages = planned(layout(raid, drives), Op::Unmap, offset, length);
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
                let stages = planned(layout(raid, drives), Op::Read, offset, length);
                let bytes: u64 = stages.iter().flat_map(|s| &s.first).map(|p| p.length).sum();
                assert_eq!(bytes, length, "{raid:?} {offset} {length}");
            }
        }
    }
}
