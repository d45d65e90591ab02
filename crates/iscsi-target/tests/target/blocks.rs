//! Block commands other than READ and WRITE: the blocks that each changes, the requests that it
//! refuses, and that a refused request changes nothing.

use crate::pair::{Answer, Initiator, LU_BYTES, Pair, config_with_thin_lu, pattern};
use hakaru_iscsi_target::{IoFailure, IoOp, IoResult};
use hakaru_wire::iscsi::Residual;
use hakaru_wire::scsi::{
    Blocks, ByteCheck, Cdb, LbaStatus, ProvisioningStatus, Sense, SenseKey, Transfer, Verify,
    WriteAtomic, WriteSame, emit_unmap_list, parse_lba_status,
};

/// The thin LU, of 512-byte blocks.
const THIN: u8 = 3;
const BLOCKS: u64 = LU_BYTES as u64 / 512;

fn logged_in() -> (Pair, Initiator) {
    let mut pair = Pair::with(config_with_thin_lu());
    let initiator = pair.log_in(&[("InitialR2T", "No")]);
    (pair, initiator)
}

fn verify(lba: u64, blocks: u32, check: ByteCheck) -> Verify {
    Verify {
        lba,
        blocks,
        check,
        ..Verify::default()
    }
}

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer {
        lba,
        blocks,
        ..Transfer::default()
    }
}

fn unmap_cdb(list: &[u8]) -> [u8; 16] {
    Cdb::Unmap {
        anchor: false,
        parameter_list_length: list.len() as u16,
    }
    .emit()
}

fn unmap(initiator: &mut Initiator, pair: &mut Pair, lun: u8, ranges: &[Blocks]) -> Answer {
    let list = emit_unmap_list(ranges);
    initiator.run_out(pair, lun, &unmap_cdb(&list), &list)
}

fn status(initiator: &mut Initiator, pair: &mut Pair, lba: u64, bytes: u32) -> Vec<LbaStatus> {
    let cdb = Cdb::GetLbaStatus {
        lba,
        allocation_length: bytes,
    };
    let data = initiator.run_cdb(pair, THIN, cdb, bytes).good();
    assert!(data.len() <= bytes as usize);
    parse_lba_status(&data)
}

fn status_of(lba: u64, blocks: u32, mapped: bool) -> LbaStatus {
    LbaStatus {
        range: Blocks { lba, blocks },
        status: if mapped {
            ProvisioningStatus::Mapped
        } else {
            ProvisioningStatus::Deallocated
        },
    }
}

#[test]
fn an_initiator_without_a_buffer_gets_no_data_that_a_program_has_read() {
    let (mut pair, mut initiator) = logged_in();
    let cdb = Cdb::GetLbaStatus {
        lba: 0,
        allocation_length: 4096,
    };
    // It announces data of its own instead.
    let command = initiator.command(THIN, &cdb.emit(), false, true, 4096);
    initiator.send_command(&mut pair, &command, &[]);
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!((answer.status, answer.data_in_pdus), (0, 0));
    assert_eq!(answer.residual, Residual::Underflow(4096));
}

#[test]
fn verify_compares_with_nothing_with_all_and_with_one_block() {
    let (mut pair, mut initiator) = logged_in();
    // More than a program reads at a time, and not a multiple of it.
    let blocks = 1200;
    let data = pattern(blocks * 512, 7);
    pair.lus.get_mut(&0).unwrap()[5 * 512..][..data.len()].copy_from_slice(&data);
    let compare_all = Cdb::Verify(verify(5, blocks as u32, ByteCheck::Whole)).emit();
    initiator.run_out(&mut pair, 0, &compare_all, &data).good();
    let mut other = data.clone();
    other[700 * 512 + 3] ^= 1;
    let answer = initiator.run_out(&mut pair, 0, &compare_all, &other);
    assert_eq!(answer.sense(), Sense::MISCOMPARE_DURING_VERIFY);
    assert_eq!(
        answer.sense.unwrap().information,
        Some(705),
        "the block that differs"
    );
    let medium = Cdb::Verify(verify(5, blocks as u32, ByteCheck::Medium));
    initiator.run_cdb(&mut pair, 0, medium, 0).good();

    pair.lus.get_mut(&0).unwrap()[..8 * 512].fill(0xa5);
    let compare_one = |blocks| Cdb::Verify(verify(0, blocks, ByteCheck::OneBlock)).emit();
    let block = [0xa5; 512];
    initiator
        .run_out(&mut pair, 0, &compare_one(8), &block)
        .good();
    let answer = initiator.run_out(&mut pair, 0, &compare_one(9), &block);
    assert_eq!(answer.sense(), Sense::MISCOMPARE_DURING_VERIFY);
    assert_eq!(answer.sense.unwrap().information, Some(8));
}

#[test]
fn verify_of_the_medium_reports_unreadable_blocks() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let medium = Cdb::Verify(verify(0, 8, ByteCheck::Medium)).emit();
    let command = initiator.command(0, &medium, false, false, 0);
    initiator.send_command(&mut pair, &command, &[]);
    let io = pair.held.remove(0);
    pair.target
        .handle_io_done(pair.time, io.id, IoResult::Failed(IoFailure::Read));
    pair.run();
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::UNRECOVERED_READ_ERROR);
}

#[test]
fn a_read_of_the_wrong_length_is_an_internal_failure_and_nothing_is_written() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    for length in [0, 511, 513, 4096] {
        let cdb = Cdb::CompareAndWrite(transfer(0, 1)).emit();
        let command = initiator.begin_out(&mut pair, 0, &cdb, &[0; 1024]);
        let io = pair.held.remove(0);
        let data = vec![0; length];
        pair.target
            .handle_io_done(pair.time, io.id, IoResult::ReadData(data));
        pair.run();
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(answer.sense(), Sense::INTERNAL_TARGET_FAILURE);
        assert!(pair.held.is_empty());
    }
}

#[test]
fn write_and_verify_bypasses_the_cache_and_reports_the_block_that_differs() {
    let (mut pair, mut initiator) = logged_in();
    let data = pattern(600 * 512, 1);
    for check in [ByteCheck::Medium, ByteCheck::Whole] {
        let cdb = Cdb::WriteAndVerify(verify(9, 600, check)).emit();
        pair.lus.get_mut(&0).unwrap().fill(0);
        initiator.run_out(&mut pair, 0, &cdb, &data).good();
        assert_eq!(pair.lus[&0][9 * 512..][..data.len()], data);
    }
    // The store corrupts a bit between write and read.
    pair.stalled = true;
    let cdb = Cdb::WriteAndVerify(verify(0, 1, ByteCheck::Whole)).emit();
    let command = initiator.begin_out(&mut pair, 0, &cdb, &data[..512]);
    assert!(matches!(&pair.held[0].op, IoOp::Write { fua: true, .. }));
    pair.release_one();
    pair.lus.get_mut(&0).unwrap()[100] ^= 4;
    pair.release();
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::MISCOMPARE_DURING_VERIFY);
    assert_eq!(answer.sense.unwrap().information, Some(0));
}

#[test]
fn a_miscompare_changes_nothing_and_reports_the_first_byte_that_differs() {
    let (mut pair, mut initiator) = logged_in();
    pair.lus.get_mut(&0).unwrap()[..1024].fill(7);
    let cdb = Cdb::CompareAndWrite(transfer(0, 2)).emit();
    let mut data = vec![7; 2048];
    data[1024..].fill(8);
    for offset in [0, 1, 511, 512, 1023] {
        let mut other = data.clone();
        other[offset] = 9;
        let answer = initiator.run_out(&mut pair, 0, &cdb, &other);
        assert_eq!(answer.sense(), Sense::MISCOMPARE_DURING_VERIFY);
        assert_eq!(answer.sense.unwrap().information, Some(offset as u64));
        assert!(pair.lus[&0][..1024].iter().all(|byte| *byte == 7));
    }
    initiator.run_out(&mut pair, 0, &cdb, &data).good();
    assert!(pair.lus[&0][..1024].iter().all(|byte| *byte == 8));
    // Exactly twice the blocks as data, and no more blocks than VPD page B0h permits.
    for wrong in [512, 1024, 1536, 2560] {
        let answer = initiator.run_out(&mut pair, 0, &cdb, &data.repeat(2)[..wrong]);
        assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB, "{wrong} bytes");
    }
    let many = Cdb::CompareAndWrite(transfer(0, 129)).emit();
    let answer = initiator.run_out(&mut pair, 0, &many, &vec![8; 2 * 129 * 512]);
    assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
    let none = Cdb::CompareAndWrite(transfer(0, 0)).emit();
    initiator.run(&mut pair, 0, &none, 0).good();
}

#[test]
fn exactly_one_of_two_commands_that_compare_and_write_the_same_block_succeeds() {
    // Each order is another sequence of the storage's answers, and so another interleaving of the
    // two commands' accesses.
    for order in 0..64 {
        let mut pair = Pair::with(config_with_thin_lu());
        let mut first = pair.log_in_as("iqn.2026-01.net.example:a", 1, &[]);
        let mut second = pair.log_in_as("iqn.2026-01.net.example:b", 2, &[]);
        pair.stalled = true;
        let cdb = Cdb::CompareAndWrite(transfer(4, 1)).emit();
        let data = |own: u8| [vec![0; 512], vec![own; 512]].concat();
        let first_command = first.begin_out(&mut pair, 0, &cdb, &data(1));
        let second_command = second.begin_out(&mut pair, 0, &cdb, &data(2));
        let mut bits = order;
        while !pair.held.is_empty() {
            if bits & 1 == 1 {
                pair.held.reverse();
            }
            bits >>= 1;
            pair.release_one();
        }
        let answers = [
            Answer::of(first.receive(&mut pair), first_command.itt),
            Answer::of(second.receive(&mut pair), second_command.itt),
        ];
        let succeeded: Vec<bool> = answers.iter().map(|answer| answer.status == 0).collect();
        assert_ne!(succeeded[0], succeeded[1], "{answers:?}");
        let winner = if succeeded[0] { 1 } else { 2 };
        assert!(
            pair.lus[&0][4 * 512..5 * 512]
                .iter()
                .all(|byte| *byte == winner)
        );
        let lost = &answers[usize::from(succeeded[0])];
        assert_eq!(lost.sense(), Sense::MISCOMPARE_DURING_VERIFY);
    }
}

#[test]
fn a_write_waits_while_another_command_reads_and_writes_its_blocks() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let or = Cdb::OrWrite(transfer(10, 4)).emit();
    let ored = initiator.begin_out(&mut pair, 0, &or, &[0x0f; 2048]);
    assert_eq!(pair.held.len(), 1, "the ORWRITE reads");
    let inside = Cdb::Write(transfer(12, 1)).emit();
    let beside = Cdb::Write(transfer(14, 1)).emit();
    let waiting = initiator.begin_out(&mut pair, 0, &inside, &[0xf0; 512]);
    let second = initiator.begin_out(&mut pair, 0, &inside, &[0xf1; 512]);
    let free = initiator.begin_out(&mut pair, 0, &beside, &[3; 512]);
    assert_eq!(
        pair.held.len(),
        2,
        "only the write beside the range proceeds"
    );
    pair.release_one();
    // A read is never held back.
    let read = Cdb::Read(transfer(12, 1)).emit();
    let reading = initiator.command(0, &read, true, false, 512);
    initiator.send_command(&mut pair, &reading, &[]);
    assert_eq!(pair.held.len(), 3);
    pair.release();
    let order: Vec<_> = initiator
        .receive(&mut pair)
        .iter()
        .map(|pdu| pdu.bhs.itt())
        .collect();
    assert_eq!(
        order,
        [free.itt, ored.itt, reading.itt, waiting.itt, second.itt]
    );
    assert!(pair.lus[&0][12 * 512..13 * 512].iter().all(|b| *b == 0xf1));
    assert!(pair.lus[&0][10 * 512..12 * 512].iter().all(|b| *b == 0x0f));
}

#[test]
fn an_aborted_command_releases_its_blocks_and_its_position_in_the_queue() {
    let (mut pair, mut initiator) = logged_in();
    let mut other = pair.log_in_as("iqn.2026-01.net.example:b", 2, &[]);
    pair.stalled = true;
    let or = Cdb::OrWrite(transfer(0, 1)).emit();
    let write = Cdb::Write(transfer(0, 1)).emit();
    initiator.begin_out(&mut pair, 0, &or, &[1; 512]);
    initiator.begin_out(&mut pair, 0, &or, &[2; 512]);
    initiator.begin_out(&mut pair, 0, &write, &[3; 512]);
    let last = other.begin_out(&mut pair, 0, &write, &[4; 512]);
    assert_eq!(pair.held.len(), 1);
    // The session of the first three commands has ended. The storage still executes the read of the
    // first.
    pair.target.handle_closed(pair.time, initiator.connection);
    pair.run();
    assert_eq!(
        pair.held.len(),
        1,
        "the range is held until that read has ended"
    );
    pair.release();
    let answer = Answer::of(other.receive(&mut pair), last.itt);
    answer.good();
    assert!(pair.lus[&0][..512].iter().all(|byte| *byte == 4));
}

#[test]
fn write_same_fills_deallocates_and_observes_its_limits() {
    let (mut pair, mut initiator) = logged_in();
    let same = |lba, blocks, unmap, no_data_out| {
        Cdb::WriteSame(WriteSame {
            lba,
            blocks,
            unmap,
            no_data_out,
            sixteen: true,
            ..WriteSame::default()
        })
        .emit()
    };
    let block = pattern(512, 5);
    initiator
        .run_out(&mut pair, THIN, &same(3, 5, false, false), &block)
        .good();
    assert_eq!(pair.lus[&THIN][3 * 512..8 * 512], block.repeat(5));
    // A block that is not all zeros is written even with UNMAP set, because unmapped blocks read as
    // zeros.
    initiator
        .run_out(&mut pair, THIN, &same(3, 5, true, false), &block)
        .good();
    assert_eq!(pair.lus[&THIN][3 * 512..8 * 512], block.repeat(5));
    initiator
        .run_out(&mut pair, THIN, &same(3, 2, true, false), &[0; 512])
        .good();
    initiator
        .run(&mut pair, THIN, &same(6, 1, true, true), 0)
        .good();
    assert!(pair.lus[&THIN][3 * 512..5 * 512].iter().all(|b| *b == 0));
    let reported = status(&mut initiator, &mut pair, 2, 8 + 16 * 5);
    let expected = [
        status_of(2, 1, true),
        status_of(3, 2, false),
        status_of(5, 1, true),
        status_of(6, 1, false),
        status_of(7, (BLOCKS - 7) as u32, true),
    ];
    assert_eq!(reported, expected);
    // 0 blocks mean all blocks up to the end.
    initiator
        .run_out(&mut pair, THIN, &same(BLOCKS - 3, 0, false, false), &block)
        .good();
    assert_eq!(pair.lus[&THIN][LU_BYTES - 3 * 512..], block.repeat(3));
    for (cdb, data, sense) in [
        (
            same(BLOCKS - 1, 2, false, false),
            512,
            Sense::LBA_OUT_OF_RANGE,
        ),
        (
            same(u64::MAX, 2, false, false),
            512,
            Sense::LBA_OUT_OF_RANGE,
        ),
        (same(0, 1, false, false), 256, Sense::INVALID_FIELD_IN_CDB),
        (same(0, 1, false, false), 1024, Sense::INVALID_FIELD_IN_CDB),
    ] {
        let answer = initiator.run_out(&mut pair, THIN, &cdb, &vec![1; data]);
        assert_eq!(answer.sense(), sense);
    }
    // An LU that cannot unmap blocks refuses UNMAP.
    let answer = initiator.run_out(&mut pair, 0, &same(0, 1, true, false), &[0; 512]);
    assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
}

#[test]
fn unmap_deallocates_all_its_ranges_or_none() {
    let (mut pair, mut initiator) = logged_in();
    let range = |lba, blocks| Blocks { lba, blocks };
    let before = pattern(LU_BYTES, 3);
    pair.lus.insert(THIN, before.clone());
    for (ranges, sense) in [
        (
            vec![range(0, 4), range(BLOCKS - 1, 2)],
            Sense::LBA_OUT_OF_RANGE,
        ),
        (
            vec![range(0, 4), range(u64::MAX, 1)],
            Sense::LBA_OUT_OF_RANGE,
        ),
        (vec![range(1 << 63, u32::MAX)], Sense::LBA_OUT_OF_RANGE),
        (
            vec![range(0, 1); 257],
            Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        ),
    ] {
        let answer = unmap(&mut initiator, &mut pair, THIN, &ranges);
        assert_eq!(answer.sense(), sense);
        assert!(pair.lus[&THIN] == before, "no partial effect");
    }
    // Lists that are shorter than their length fields state.
    let list = emit_unmap_list(&[range(0, 1), range(4, 1)]);
    for cut in 1..list.len() {
        let answer = initiator.run_out(&mut pair, THIN, &unmap_cdb(&list[..cut]), &list[..cut]);
        assert_eq!(answer.sense(), Sense::PARAMETER_LIST_LENGTH_ERROR, "{cut}");
    }
    assert!(pair.lus[&THIN] == before);
    initiator.run(&mut pair, THIN, &unmap_cdb(&[]), 0).good();
    let overlapping = [range(2, 4), range(4, 4), range(3, 1), range(100, 0)];
    unmap(&mut initiator, &mut pair, THIN, &overlapping).good();
    assert!(pair.lus[&THIN][2 * 512..8 * 512].iter().all(|b| *b == 0));
    assert_eq!(pair.lus[&THIN][8 * 512..], before[8 * 512..]);
    assert_eq!(
        unmap(&mut initiator, &mut pair, 0, &[range(0, 1)]).sense(),
        Sense::INVALID_COMMAND_OPERATION_CODE,
        "an LU that is not thin does not support UNMAP"
    );
}

#[test]
fn lba_status_is_truncated_to_its_allocation_length() {
    let (mut pair, mut initiator) = logged_in();
    let ranges: Vec<Blocks> = (0..20)
        .map(|i| Blocks {
            lba: i * 4,
            blocks: 2,
        })
        .collect();
    unmap(&mut initiator, &mut pair, THIN, &ranges).good();
    let full_length = 8 + 16 * 41;
    for length in [
        0,
        1,
        3,
        8,
        23,
        24,
        25,
        39,
        40,
        200,
        full_length,
        full_length + 100,
        0xffff,
    ] {
        let cdb = Cdb::GetLbaStatus {
            lba: 1,
            allocation_length: length,
        };
        let data = initiator.run_cdb(&mut pair, THIN, cdb, 0xffff).good();
        // The target returns at least one descriptor, and as many as fit.
        let returned = 8 + 16 * ((length.max(24) - 8) / 16).min(40);
        assert_eq!(data.len() as u32, length.min(returned), "{length}");
    }
    let beyond = Cdb::GetLbaStatus {
        lba: BLOCKS,
        allocation_length: 24,
    };
    let answer = initiator.run_cdb(&mut pair, THIN, beyond, 24);
    assert_eq!(answer.sense(), Sense::LBA_OUT_OF_RANGE);
    let first = status(&mut initiator, &mut pair, 5, 24);
    assert_eq!(first, [status_of(5, 1, false)]);
}

#[test]
fn write_atomic_accepts_the_reported_length_on_lus_that_support_it() {
    let (mut pair, mut initiator) = logged_in();
    let atomic = |blocks, boundary| {
        Cdb::WriteAtomic(WriteAtomic {
            lba: 1,
            blocks,
            boundary,
            ..WriteAtomic::default()
        })
        .emit()
    };
    let data = pattern(129 * 512, 9);
    initiator
        .run_out(&mut pair, THIN, &atomic(128, 0), &data[..128 * 512])
        .good();
    assert_eq!(pair.lus[&THIN][512..129 * 512], data[..128 * 512]);
    for (cdb, bytes) in [(atomic(129, 0), 129 * 512), (atomic(2, 1), 1024)] {
        let answer = initiator.run_out(&mut pair, THIN, &cdb, &data[..bytes]);
        assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
    let answer = initiator.run_out(&mut pair, 0, &atomic(1, 0), &data[..512]);
    assert_eq!(answer.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
}

#[test]
fn a_read_only_lu_refuses_all_commands_that_write() {
    let (mut pair, mut initiator) = logged_in();
    let commands = [
        (Cdb::WriteAndVerify(verify(0, 1, ByteCheck::Whole)), 512),
        (Cdb::CompareAndWrite(transfer(0, 1)), 1024),
        (Cdb::OrWrite(transfer(0, 1)), 512),
        (
            Cdb::WriteSame(WriteSame {
                blocks: 1,
                ..WriteSame::default()
            }),
            512,
        ),
    ];
    for (cdb, bytes) in commands {
        let answer = initiator.run_out(&mut pair, 7, &cdb.emit(), &vec![0; bytes]);
        assert_eq!(answer.sense(), Sense::WRITE_PROTECTED, "{cdb:?}");
    }
    initiator
        .run_out(
            &mut pair,
            7,
            &Cdb::Verify(verify(0, 1, ByteCheck::Whole)).emit(),
            &[0; 512],
        )
        .good();
}

#[test]
fn programs_of_a_session_hold_no_more_than_its_share() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let medium = Cdb::Verify(verify(0, 2048, ByteCheck::Medium)).emit();
    let mut commands = Vec::new();
    for _ in 0..100 {
        let command = initiator.command(0, &medium, false, false, 0);
        initiator.send_command(&mut pair, &command, &[]);
        commands.push(command);
    }
    // Programs that read 8 MiB, and the one that exceeds the limit.
    assert_eq!(pair.held.len(), 33);
    pair.release();
    let answers = initiator.receive(&mut pair);
    assert_eq!(answers.len(), 100);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn a_write_that_needs_space_in_a_full_pool_fails_with_that_sense_data() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let or = Cdb::OrWrite(transfer(0, 1)).emit();
    let command = initiator.begin_out(&mut pair, THIN, &or, &[1; 512]);
    pair.release_one();
    let io = pair.held.remove(0);
    assert!(matches!(io.op, IoOp::Write { .. }));
    pair.target
        .handle_io_done(pair.time, io.id, IoResult::Failed(IoFailure::Space));
    pair.run();
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT);
    assert_eq!(answer.sense().key, SenseKey::DataProtect);
}
