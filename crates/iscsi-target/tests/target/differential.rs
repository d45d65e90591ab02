//! All block commands against the obvious model, a byte array. Any commands in any order, under any
//! negotiated keys, return the same result as the model, including refusals.

use crate::pair::{Initiator, Pair, config_with_thin_lu};
use hakaru_wire::scsi::{
    Blocks, ByteCheck, Cdb, ProvisioningStatus, Sense, Transfer, Verify, WriteAtomic, WriteSame,
    emit_unmap_list, parse_lba_status,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// The thin LU. It is small, so that the ranges of commands overlap.
const LUN: u8 = 3;
const BLOCK: usize = 512;
const BLOCKS: u64 = 64;

/// A command, with its range in blocks. Ranges may lie beyond the end of the LU.
#[derive(Clone, Debug)]
enum Command {
    Read(Transfer),
    Write(Transfer, u8),
    WriteAndVerify(Verify, u8),
    Verify(Verify, Option<u8>),
    CompareAndWrite(Transfer, Option<u8>, u8),
    OrWrite(Transfer, u8),
    WriteAtomic(Transfer, u8),
    WriteSame(WriteSame, u8),
    Unmap(Vec<Blocks>),
    Status(u64, u32),
}

fn range() -> impl Strategy<Value = (u64, u32)> {
    prop_oneof![
        20 => (0..BLOCKS, 0u32..12),
        1 => (BLOCKS - 4..BLOCKS + 4, 0u32..12),
        1 => (any::<u64>(), 0u32..12),
    ]
}

fn transfer() -> impl Strategy<Value = Transfer> {
    (range(), any::<(bool, bool)>()).prop_map(|((lba, blocks), (fua, dpo))| Transfer {
        lba,
        blocks,
        fua,
        dpo,
        protect: 0,
    })
}

fn verify(repeats: bool) -> impl Strategy<Value = Verify> {
    let check = (0..if repeats { 3usize } else { 2 })
        .prop_map(|kind| [ByteCheck::Medium, ByteCheck::Whole, ByteCheck::OneBlock][kind]);
    (transfer(), check).prop_map(|(transfer, check)| Verify {
        lba: transfer.lba,
        blocks: transfer.blocks,
        dpo: transfer.dpo,
        protect: 0,
        check,
    })
}

/// Returns only a few values, so that compared data is often equal.
fn fill() -> impl Strategy<Value = u8> {
    0u8..4
}

fn command() -> impl Strategy<Value = Command> {
    let same =
        (range(), any::<[bool; 3]>()).prop_map(|((lba, blocks), [unmap, no_data_out, sixteen])| {
            // The ten-byte form has no room for a longer LBA.
            let sixteen = sixteen || lba > u64::from(u32::MAX);
            WriteSame {
                lba,
                blocks,
                unmap,
                no_data_out: sixteen && no_data_out,
                sixteen,
                ..WriteSame::default()
            }
        });
    let ranges = vec(
        range().prop_map(|(lba, blocks)| Blocks { lba, blocks }),
        0..4,
    );
    prop_oneof![
        transfer().prop_map(Command::Read),
        (transfer(), fill()).prop_map(|(t, fill)| Command::Write(t, fill)),
        (verify(false), fill()).prop_map(|(v, fill)| Command::WriteAndVerify(v, fill)),
        (verify(true), proptest::option::of(fill())).prop_map(|(v, fill)| Command::Verify(v, fill)),
        (transfer(), proptest::option::weighted(0.3, fill()), fill())
            .prop_map(|(t, expected, fill)| Command::CompareAndWrite(t, expected, fill)),
        (transfer(), fill()).prop_map(|(t, fill)| Command::OrWrite(t, fill)),
        (transfer(), fill()).prop_map(|(t, fill)| Command::WriteAtomic(t, fill)),
        (same, fill()).prop_map(|(same, fill)| Command::WriteSame(same, fill)),
        ranges.prop_map(Command::Unmap),
        (0..BLOCKS + 2, 0u32..120).prop_map(|(lba, length)| Command::Status(lba, length)),
    ]
}

/// The model: the bytes of the LU, and whether each block occupies space.
struct Model {
    bytes: Vec<u8>,
    mapped: Vec<bool>,
}

/// Data that a command returns, or sense data.
type Expected = Result<Vec<u8>, Sense>;

impl Model {
    fn new() -> Model {
        Model {
            bytes: vec![0; BLOCKS as usize * BLOCK],
            mapped: vec![true; BLOCKS as usize],
        }
    }

    fn blocks(lba: u64, blocks: u32) -> Result<std::ops::Range<usize>, Sense> {
        let end = lba.checked_add(blocks.into()).filter(|end| *end <= BLOCKS);
        let end = end.ok_or(Sense::LBA_OUT_OF_RANGE)?;
        Ok(lba as usize..end as usize)
    }

    fn read(&self, blocks: &std::ops::Range<usize>) -> &[u8] {
        &self.bytes[blocks.start * BLOCK..blocks.end * BLOCK]
    }

    fn write(&mut self, blocks: std::ops::Range<usize>, data: &[u8]) -> Expected {
        self.bytes[blocks.start * BLOCK..blocks.end * BLOCK].copy_from_slice(data);
        self.mapped[blocks].fill(true);
        Ok(Vec::new())
    }

    fn deallocate(&mut self, blocks: std::ops::Range<usize>) {
        self.bytes[blocks.start * BLOCK..blocks.end * BLOCK].fill(0);
        self.mapped[blocks].fill(false);
    }

    fn compare(&self, blocks: &std::ops::Range<usize>, data: &[u8]) -> Result<(), Sense> {
        if self.read(blocks) == data {
            Ok(())
        } else {
            Err(Sense::MISCOMPARE_DURING_VERIFY)
        }
    }

    /// Executes a command with the data that the initiator sends.
    fn run(&mut self, command: &Command, data: &[u8]) -> Expected {
        match command {
            Command::Read(t) => Ok(self.read(&Self::blocks(t.lba, t.blocks)?).to_vec()),
            Command::Write(t, _) | Command::WriteAtomic(t, _) => {
                self.write(Self::blocks(t.lba, t.blocks)?, data)
            }
            Command::WriteAndVerify(v, _) => self.write(Self::blocks(v.lba, v.blocks)?, data),
            Command::Verify(v, _) => {
                let blocks = Self::blocks(v.lba, v.blocks)?;
                match v.check {
                    ByteCheck::Medium => {}
                    ByteCheck::Whole => self.compare(&blocks, data)?,
                    ByteCheck::OneBlock => self.compare(&blocks, &data.repeat(blocks.len()))?,
                }
                Ok(Vec::new())
            }
            Command::CompareAndWrite(t, ..) => {
                let blocks = Self::blocks(t.lba, t.blocks)?;
                let (expected, new) = data.split_at(data.len() / 2);
                self.compare(&blocks, expected)?;
                self.write(blocks, new)
            }
            Command::OrWrite(t, _) => {
                let blocks = Self::blocks(t.lba, t.blocks)?;
                let old = self.read(&blocks).to_vec();
                let new: Vec<u8> = old.iter().zip(data).map(|(a, b)| a | b).collect();
                self.write(blocks, &new)
            }
            Command::WriteSame(same, _) => {
                let mut blocks = Self::blocks(same.lba, same.blocks)?;
                if same.blocks == 0 {
                    blocks.end = BLOCKS as usize;
                }
                let block = if same.no_data_out {
                    &[0; BLOCK][..]
                } else {
                    data
                };
                if same.unmap && block.iter().all(|byte| *byte == 0) {
                    self.deallocate(blocks);
                } else {
                    let all = block.repeat(blocks.len());
                    self.write(blocks, &all)?;
                }
                Ok(Vec::new())
            }
            Command::Unmap(ranges) => {
                let ranges: Result<Vec<_>, Sense> = ranges
                    .iter()
                    .map(|range| Self::blocks(range.lba, range.blocks))
                    .collect();
                ranges?
                    .into_iter()
                    .for_each(|blocks| self.deallocate(blocks));
                Ok(Vec::new())
            }
            Command::Status(..) => unreachable!("compared block by block"),
        }
    }

    /// Returns the data that the initiator sends with a command.
    fn data_of(&self, command: &Command) -> Vec<u8> {
        let filled = |blocks: u32, fill: u8| vec![fill; blocks as usize * BLOCK];
        // Without `fill` the data equals the LU's, so that the comparison succeeds.
        let compared =
            |lba: u64, blocks: u32, fill: Option<u8>| match (fill, Self::blocks(lba, blocks)) {
                (None, Ok(range)) => self.read(&range).to_vec(),
                (fill, _) => filled(blocks, fill.unwrap_or(0)),
            };
        match command {
            Command::Read(_) | Command::Status(..) => Vec::new(),
            Command::Write(t, fill) | Command::OrWrite(t, fill) | Command::WriteAtomic(t, fill) => {
                filled(t.blocks, *fill)
            }
            Command::WriteAndVerify(v, fill) => filled(v.blocks, *fill),
            Command::Verify(v, fill) => match v.check {
                ByteCheck::Medium => Vec::new(),
                ByteCheck::Whole => compared(v.lba, v.blocks, *fill),
                ByteCheck::OneBlock => {
                    let block = compared(v.lba, v.blocks.min(1), *fill);
                    if v.blocks == 0 { Vec::new() } else { block }
                }
            },
            Command::CompareAndWrite(t, expected, fill) => [
                compared(t.lba, t.blocks, *expected),
                filled(t.blocks, *fill),
            ]
            .concat(),
            Command::WriteSame(same, fill) if !same.no_data_out => filled(1, *fill),
            Command::WriteSame(..) => Vec::new(),
            Command::Unmap(ranges) => emit_unmap_list(ranges),
        }
    }
}

fn cdb_of(command: &Command) -> [u8; 16] {
    let cdb = match command {
        Command::Read(transfer) => Cdb::Read(*transfer),
        Command::Write(transfer, _) => Cdb::Write(*transfer),
        Command::WriteAndVerify(verify, _) => Cdb::WriteAndVerify(*verify),
        Command::Verify(verify, _) => Cdb::Verify(*verify),
        Command::CompareAndWrite(transfer, ..) => Cdb::CompareAndWrite(*transfer),
        Command::OrWrite(transfer, _) => Cdb::OrWrite(*transfer),
        Command::WriteAtomic(transfer, _) => Cdb::WriteAtomic(WriteAtomic {
            lba: transfer.lba,
            blocks: transfer.blocks as u16,
            boundary: 0,
            fua: transfer.fua,
            dpo: transfer.dpo,
            protect: 0,
        }),
        Command::WriteSame(same, _) => Cdb::WriteSame(*same),
        Command::Unmap(ranges) => Cdb::Unmap {
            anchor: false,
            parameter_list_length: (8 + 16 * ranges.len()) as u16,
        },
        Command::Status(lba, allocation_length) => Cdb::GetLbaStatus {
            lba: *lba,
            allocation_length: *allocation_length,
        },
    };
    cdb.emit()
}

fn check(pair: &mut Pair, initiator: &mut Initiator, model: &mut Model, command: &Command) {
    let cdb = cdb_of(command);
    if let Command::Status(lba, length) = command {
        return check_status(pair, initiator, model, &cdb, (*lba, *length));
    }
    let data = model.data_of(command);
    let answer = match command {
        Command::Read(t) => initiator.run(pair, LUN, &cdb, t.blocks * BLOCK as u32),
        _ => initiator.run_out(pair, LUN, &cdb, &data),
    };
    match model.run(command, &data) {
        Ok(expected) => assert_eq!(answer.good(), expected),
        Err(sense) => assert_eq!(answer.sense(), sense),
    }
    assert!(pair.lus[&LUN] == model.bytes, "the bytes differ");
}

/// Checks that adjacent extents differ, are contiguous, and match the model.
fn check_status(
    pair: &mut Pair,
    initiator: &mut Initiator,
    model: &Model,
    cdb: &[u8],
    (lba, length): (u64, u32),
) {
    let answer = initiator.run(pair, LUN, cdb, 4096);
    if lba >= BLOCKS {
        return assert_eq!(answer.sense(), Sense::LBA_OUT_OF_RANGE);
    }
    let data = answer.good();
    assert!(data.len() <= length as usize);
    let mut next = lba;
    let mut last = None;
    for extent in parse_lba_status(&data) {
        assert_eq!(extent.range.lba, next);
        assert_ne!(last, Some(extent.status), "adjacent extents must differ");
        let mapped = extent.status == ProvisioningStatus::Mapped;
        let blocks = Model::blocks(next, extent.range.blocks).expect("within the LU");
        assert!(
            model.mapped[blocks]
                .iter()
                .all(|expected| *expected == mapped)
        );
        (next, last) = (next + u64::from(extent.range.blocks), Some(extent.status));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 6 / 5))]

    #[test]
    fn block_commands_change_an_lu_like_a_byte_array(
        commands in vec(command(), 1..60),
        copy: bool,
        digest: bool,
        (burst, segment) in (512u32..9000, 512u32..9000),
    ) {
        let mut config = config_with_thin_lu();
        config.lus.last_mut().expect("the thin LU").size_bytes = BLOCKS * BLOCK as u64;
        let mut pair = Pair::with(config);
        pair.copy = copy;
        let mut initiator = pair.log_in(&[
            ("ImmediateData", "Yes"),
            ("FirstBurstLength", "65536"),
            ("MaxBurstLength", &burst.max(65_536).to_string()),
            ("MaxRecvDataSegmentLength", &segment.to_string()),
            ("DataDigest", if digest { "CRC32C" } else { "None" }),
        ]);
        let mut model = Model::new();
        for command in &commands {
            check(&mut pair, &mut initiator, &mut model, command);
        }
        prop_assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
    }
}
