//! SANITIZE, EXTENDED COPY, PRE-FETCH, READ DEFECT DATA, and commands so long that accesses of
//! other commands must be executed between theirs.

use crate::pair::control::switch_cache_off;
use crate::pair::{self, Answer, Initiator, LU_BYTES, Pair, config_with_thin_lu, pattern};
use hakaru_iscsi_target::{IoFailure, IoOp, IoResult, LuDescription, Thin};
use hakaru_wire::iscsi::{
    TaskManagementFunction as Function, TaskManagementRequest, TaskManagementResponse,
    TaskManagementResult,
};
use hakaru_wire::scsi::{
    Blocks, Cdb, CopyResults, Designator, DesignatorKind, ReadDefectData, Sanitize, SanitizeAction,
    Sense, SenseKey, StartStopUnit, Transfer, Vpd, emit_unmap_list,
};

const THIN: u8 = 3;

fn logged_in() -> (Pair, Initiator) {
    let mut pair = Pair::with(config_with_thin_lu());
    let initiator = pair.log_in(&[]);
    (pair, initiator)
}

fn sanitize(action: SanitizeAction, immediate: bool, length: usize) -> [u8; 16] {
    Cdb::Sanitize(Sanitize {
        action,
        immediate,
        unrestricted_exit: false,
        parameter_list_length: length as u16,
    })
    .emit()
}

/// Returns the parameter list of an overwrite with this number of passes and this pattern.
fn overwrite(passes: u8, pattern: &[u8]) -> Vec<u8> {
    let length = (pattern.len() as u16).to_be_bytes();
    [&[passes, 0, length[0], length[1]], pattern].concat()
}

fn test_unit_ready(initiator: &mut Initiator, pair: &mut Pair) -> Answer {
    initiator.run_cdb(pair, THIN, Cdb::TestUnitReady, 0)
}

/// Executes held accesses until none is left, then lets the storage continue.
fn finish(pair: &mut Pair) {
    while !pair.held.is_empty() {
        pair.release_one();
    }
    pair.stalled = false;
}

#[test]
fn each_way_of_sanitizing_erases_all_data() {
    for (action, thin, expected) in [
        (SanitizeAction::Overwrite, true, 0xaa),
        (SanitizeAction::BlockErase, true, 0),
        (SanitizeAction::CryptographicErase, true, 0),
        (SanitizeAction::BlockErase, false, 0),
    ] {
        let mut config = config_with_thin_lu();
        if !thin {
            config.lus.last_mut().unwrap().thin = None;
        }
        let mut pair = Pair::with(config);
        let mut initiator = pair.log_in(&[]);
        pair.lus.insert(THIN, pattern(LU_BYTES, 1));
        let list = match action {
            SanitizeAction::Overwrite => overwrite(1, &[0xaa; 4]),
            _ => Vec::new(),
        };
        let cdb = sanitize(action, false, list.len());
        initiator.run_out(&mut pair, THIN, &cdb, &list).good();
        assert!(pair.lus[&THIN].iter().all(|byte| *byte == expected));
        test_unit_ready(&mut initiator, &mut pair).good();
    }
}

#[test]
fn an_erase_of_an_lu_with_a_cache_ends_on_stable_storage() {
    for thin in [true, false] {
        let mut config = config_with_thin_lu();
        let lu = config.lus.last_mut().unwrap();
        lu.write_cache = true;
        if !thin {
            lu.thin = None;
        }
        let mut pair = Pair::with(config);
        let mut initiator = pair.log_in(&[]);
        pair.stalled = true;
        let cdb = sanitize(SanitizeAction::BlockErase, false, 0);
        let command = initiator.command(THIN, &cdb, false, false, 0);
        initiator.send_command(&mut pair, &command, &[]);
        let mut is_stable = false;
        while !pair.held.is_empty() {
            let last = &pair.held[0].op;
            is_stable = matches!(last, IoOp::Flush | IoOp::WriteSame { fua: true, .. });
            pair.release_one();
        }
        assert!(is_stable, "thin: {thin}");
        Answer::of(initiator.receive(&mut pair), command.itt).good();
    }
}

#[test]
fn an_overwrite_has_the_requested_passes_and_inverts_every_other_one() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let mut list = overwrite(3, &[0x0f, 0xf0]);
    list[0] |= 0x80;
    let cdb = sanitize(SanitizeAction::Overwrite, false, list.len());
    let command = initiator.begin_out(&mut pair, THIN, &cdb, &list);
    let mut first_bytes = Vec::new();
    while !pair.held.is_empty() {
        let IoOp::WriteSame { block, range, .. } = &pair.held[0].op else {
            panic!("{:?}", pair.held[0].op)
        };
        assert_eq!((block.len(), range.length_bytes), (512, 1 << 20));
        first_bytes.push(block[0]);
        pair.release_one();
    }
    assert_eq!(first_bytes, [0x0f, 0xf0, 0x0f]);
    Answer::of(initiator.receive(&mut pair), command.itt).good();
}

#[test]
fn while_it_is_sanitized_an_lu_refuses_other_commands_and_reports_progress() {
    let mut config = config_with_thin_lu();
    // The overwrite takes two accesses of 1 MiB.
    config.lus.last_mut().unwrap().size_bytes = 2 << 20;
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let list = overwrite(1, &[1]);
    let cdb = sanitize(SanitizeAction::Overwrite, true, list.len());
    initiator.run_out(&mut pair, THIN, &cdb, &list).good();
    pair.release_one();
    let busy = Sense::SANITIZE_IN_PROGRESS;
    let answer = test_unit_ready(&mut initiator, &mut pair);
    assert_eq!(answer.sense.unwrap(), busy.with_progress(1 << 15), "half");
    let read = Cdb::Read(Transfer {
        blocks: 1,
        ..Transfer::default()
    });
    let start = Cdb::StartStopUnit(StartStopUnit {
        start: true,
        ..StartStopUnit::default()
    });
    for cdb in [read, start, Cdb::ReadCapacity10] {
        let answer = initiator.run_cdb(&mut pair, THIN, cdb, 512);
        assert_eq!(
            (answer.sense().key, answer.sense().additional),
            (busy.key, busy.additional)
        );
    }
    let again = initiator.run_out(&mut pair, THIN, &cdb, &list);
    assert_eq!(again.sense().additional, busy.additional);
    // These commands report the operation, or do not access the medium.
    let query = Cdb::RequestSense {
        descriptor_format: false,
        allocation_length: 18,
    };
    let data = initiator.run_cdb(&mut pair, THIN, query, 18).good();
    assert_eq!(Sense::parse(&data).unwrap().additional, busy.additional);
    let inquiry = Cdb::Inquiry {
        page: None,
        allocation_length: 36,
    };
    initiator.run_cdb(&mut pair, THIN, inquiry, 36).good();
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
    finish(&mut pair);
    test_unit_ready(&mut initiator, &mut pair).good();
    assert!(pair.lus[&THIN].iter().all(|byte| *byte == 1));
}

#[test]
fn neither_abort_nor_reset_nor_the_end_of_its_session_ends_a_sanitize() {
    let mut config = config_with_thin_lu();
    config.lus.last_mut().unwrap().size_bytes = 4 << 20;
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let list = overwrite(1, &[1]);
    let cdb = sanitize(SanitizeAction::Overwrite, false, list.len());
    let command = initiator.begin_out(&mut pair, THIN, &cdb, &list);
    pair.release_one();
    for function in [
        Function::AbortTask,
        Function::AbortTaskSet,
        Function::LogicalUnitReset,
        Function::TargetWarmReset,
    ] {
        let mut header = [0; 48];
        TaskManagementRequest {
            function,
            lun: command.lun,
            itt: hakaru_wire::iscsi::Itt(9000 + function.code() as u32),
            referenced_task_tag: command.itt,
            cmd_sn: hakaru_wire::iscsi::CmdSn(initiator.cmd_sn),
            ref_cmd_sn: command.cmd_sn,
            exp_stat_sn: initiator.exp_stat_sn,
            exp_data_sn: 0,
            immediate: true,
        }
        .emit(&mut header);
        initiator.send(&mut pair, &header, &[]);
        let pdu = initiator.receive_one(&mut pair);
        let response = TaskManagementResponse::parse(&pdu.bhs).unwrap();
        assert_eq!(
            response.result,
            TaskManagementResult::Complete,
            "{function:?}"
        );
        assert_eq!(pair.held.len(), 1, "the operation continues");
    }
    pair.target.handle_closed(pair.time, initiator.connection);
    pair.run();
    let mut again = pair.log_in(&[]);
    let refused = loop {
        let answer = test_unit_ready(&mut again, &mut pair).sense();
        if answer.key != SenseKey::UnitAttention {
            break answer;
        }
    };
    assert_eq!(refused.additional, Sense::SANITIZE_IN_PROGRESS.additional);
    finish(&mut pair);
    test_unit_ready(&mut again, &mut pair).good();
    assert!(pair.lus[&THIN].iter().all(|byte| *byte == 1));
}

#[test]
fn an_lu_whose_sanitize_failed_is_not_ready_until_exit_failure_mode() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let cdb = sanitize(SanitizeAction::BlockErase, false, 0);
    let command = initiator.command(THIN, &cdb, false, false, 0);
    initiator.send_command(&mut pair, &command, &[]);
    let io = pair.held.remove(0);
    pair.target
        .handle_io_done(pair.time, io.id, IoResult::Failed(IoFailure::Write));
    pair.run();
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::WRITE_ERROR);
    pair.stalled = false;
    let failed = test_unit_ready(&mut initiator, &mut pair);
    assert_eq!(failed.sense(), Sense::SANITIZE_COMMAND_FAILED);
    let exit = sanitize(SanitizeAction::ExitFailureMode, false, 0);
    initiator.run(&mut pair, THIN, &exit, 0).good();
    test_unit_ready(&mut initiator, &mut pair).good();
}

#[test]
fn a_sanitize_waits_for_writes_in_flight() {
    let (mut pair, mut initiator) = logged_in();
    pair.stalled = true;
    let write = Cdb::Write(Transfer {
        blocks: 1,
        ..Transfer::default()
    })
    .emit();
    let earlier = initiator.begin_out(&mut pair, THIN, &write, &[7; 512]);
    let cdb = sanitize(SanitizeAction::BlockErase, true, 0);
    initiator.run(&mut pair, THIN, &cdb, 0).good();
    assert_eq!(pair.held.len(), 1, "only the write");
    pair.release();
    Answer::of(initiator.receive(&mut pair), earlier.itt).good();
    assert!(pair.lus[&THIN].iter().all(|byte| *byte == 0));
}

#[test]
fn invalid_parameter_lists_of_sanitize_are_refused_before_a_byte_is_written() {
    let (mut pair, mut initiator) = logged_in();
    let before = pattern(LU_BYTES, 4);
    pair.lus.insert(THIN, before.clone());
    let list = Sense::INVALID_FIELD_IN_PARAMETER_LIST;
    let cdb = Sense::INVALID_FIELD_IN_CDB;
    for (bytes, sense) in [
        (vec![], cdb),
        (overwrite(1, &[]), cdb),
        (overwrite(1, &[0; 513]), cdb),
        (overwrite(0, &[1]), list),
        (overwrite(0x20 | 1, &[1]), list),
        ([&[1, 0, 0, 0][..], &[1; 4]].concat(), list),
        ([&[1, 0, 0, 5][..], &[1; 4]].concat(), list),
    ] {
        let cdb = sanitize(SanitizeAction::Overwrite, false, bytes.len());
        let answer = initiator.run_out(&mut pair, THIN, &cdb, &bytes);
        assert_eq!(answer.sense(), sense, "{bytes:?}");
    }
    let erase = sanitize(SanitizeAction::BlockErase, false, 4);
    let answer = initiator.run_out(&mut pair, THIN, &erase, &[0; 4]);
    assert_eq!(answer.sense(), cdb);
    let erase = sanitize(SanitizeAction::BlockErase, false, 0);
    let answer = initiator.run(&mut pair, 0, &erase, 0);
    assert_eq!(answer.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
    assert!(pair.lus[&THIN] == before);
}

/// Returns the NAA designator of an LU.
fn name_of(initiator: &mut Initiator, pair: &mut Pair, lun: u8) -> Designator {
    let cdb = Cdb::Inquiry {
        page: Some(0x83),
        allocation_length: 512,
    };
    let data = initiator.run_cdb(pair, lun, cdb, 512).good();
    let Ok(Vpd::DeviceIdentification(names)) = Vpd::parse(&data) else {
        panic!("{data:?}")
    };
    let naa = names
        .into_iter()
        .find(|name| name.kind == DesignatorKind::Naa);
    naa.expect("an NAA designator")
}

/// Returns a parameter list with these devices and segments, each `(from, to, blocks, from_lba,
/// to_lba)`.
fn copy_list(id: u8, devices: &[&Designator], segments: &[(u16, u16, u16, u64, u64)]) -> Vec<u8> {
    let mut out = vec![0; 16];
    out[0] = id;
    out[2..4].copy_from_slice(&(devices.len() as u16 * 32).to_be_bytes());
    out[8..12].copy_from_slice(&(segments.len() as u32 * 28).to_be_bytes());
    for name in devices {
        let mut device = [0; 32];
        device[0] = 0xe4;
        (device[4], device[5], device[7]) =
            (name.code_set, name.kind as u8, name.bytes.len() as u8);
        device[8..8 + name.bytes.len()].copy_from_slice(&name.bytes);
        out.extend_from_slice(&device);
    }
    for (from, to, blocks, from_lba, to_lba) in segments {
        out.extend_from_slice(&[2, 0, 0, 24]);
        out.extend_from_slice(&from.to_be_bytes());
        out.extend_from_slice(&to.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&blocks.to_be_bytes());
        out.extend_from_slice(&from_lba.to_be_bytes());
        out.extend_from_slice(&to_lba.to_be_bytes());
    }
    out
}

fn copy(initiator: &mut Initiator, pair: &mut Pair, list: &[u8]) -> Answer {
    let cdb = Cdb::ExtendedCopy {
        parameter_list_length: list.len() as u32,
    };
    initiator.run_out(pair, THIN, &cdb.emit(), list)
}

#[test]
fn a_copy_to_an_lu_whose_cache_is_off_bypasses_it() {
    let (mut pair, mut initiator) = logged_in();
    switch_cache_off(&mut initiator, &mut pair, 5);
    let (thin, large) = (
        name_of(&mut initiator, &mut pair, THIN),
        name_of(&mut initiator, &mut pair, 5),
    );
    let list = copy_list(7, &[&thin, &large], &[(0, 1, 8, 0, 0)]);
    let cdb = Cdb::ExtendedCopy {
        parameter_list_length: list.len() as u32,
    };
    pair.stalled = true;
    let command = initiator.begin_out(&mut pair, THIN, &cdb.emit(), &list);
    assert!(matches!(pair.held[0].op, IoOp::Read { .. }));
    pair.release_one();
    assert!(matches!(pair.held[0].op, IoOp::Write { fua: true, .. }));
    finish(&mut pair);
    Answer::of(initiator.receive(&mut pair), command.itt).good();
}

#[test]
fn segments_are_copied_between_lus_of_any_block_length() {
    let (mut pair, mut initiator) = logged_in();
    let (thin, large) = (
        name_of(&mut initiator, &mut pair, THIN),
        name_of(&mut initiator, &mut pair, 5),
    );
    let data = pattern(LU_BYTES, 2);
    pair.lus.insert(THIN, data.clone());
    // Copies 1000 blocks of 512 bytes within the LU, and 800 of them as 100 blocks of 4096 bytes.
    let list = copy_list(
        7,
        &[&thin, &large],
        &[(0, 0, 1000, 0, 1048), (0, 1, 800, 8, 3)],
    );
    copy(&mut initiator, &mut pair, &list).good();
    assert!(pair.lus[&THIN][1048 * 512..] == data[..1000 * 512]);
    assert!(pair.lus[&5][3 * 4096..103 * 4096] == data[8 * 512..808 * 512]);
    let query = |list| Cdb::ReceiveCopyResults {
        results: CopyResults::Status,
        list,
        allocation_length: 64,
    };
    let report = initiator.run_cdb(&mut pair, THIN, query(7), 64).good();
    assert_eq!(report, [0, 0, 0, 8, 1, 0, 2, 0, 0, 0x0e, 0x10, 0]);
    for list in [7, 8] {
        // The result is reported only once.
        let answer = initiator.run_cdb(&mut pair, THIN, query(list), 64);
        assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn empty_segments_of_a_copy_count_as_processed() {
    let (mut pair, mut initiator) = logged_in();
    let thin = name_of(&mut initiator, &mut pair, THIN);
    let status = |list| Cdb::ReceiveCopyResults {
        results: CopyResults::Status,
        list,
        allocation_length: 12,
    };
    let middle = [(0, 0, 1, 0, 8), (0, 0, 0, 0, 0), (0, 0, 1, 1, 9)];
    for (segments, processed) in [(&middle[..], 3), (&middle[1..2], 1)] {
        let list = copy_list(7, &[&thin], segments);
        copy(&mut initiator, &mut pair, &list).good();
        let report = initiator.run_cdb(&mut pair, THIN, status(7), 12).good();
        assert_eq!(report[4..7], [1, 0, processed], "{segments:?}");
    }
}

#[test]
fn a_copy_that_cannot_be_completed_is_not_begun() {
    let (mut pair, mut initiator) = logged_in();
    let mut name = |lun| name_of(&mut initiator, &mut pair, lun);
    let (thin, large, read_only) = (name(THIN), name(5), name(7));
    let mut foreign = thin.clone();
    foreign.bytes[7] ^= 1;
    let before = pair.lus.clone();
    let aborted = |code, qualifier| Sense::new(SenseKey::CopyAborted, code, qualifier);
    for (devices, segment, sense) in [
        ([&thin, &foreign], (0, 1, 1, 0, 0), aborted(0x0d, 0x02)),
        ([&foreign, &thin], (0, 1, 1, 0, 0), aborted(0x0d, 0x02)),
        ([&thin, &large], (0, 2, 1, 0, 0), aborted(0x08, 0x04)),
        ([&thin, &large], (0, 1, 8, 2041, 0), aborted(0, 0)),
        ([&thin, &large], (0, 1, 8, 0, 256), aborted(0, 0)),
        ([&thin, &large], (0, 1, 8, u64::MAX, 0), aborted(0, 0)),
        (
            [&thin, &large],
            (0, 1, 7, 0, 0),
            Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        ),
        ([&thin, &read_only], (0, 1, 1, 0, 0), Sense::WRITE_PROTECTED),
    ] {
        let list = copy_list(1, &devices, &[(0, 0, 1, 0, 9), segment]);
        let answer = copy(&mut initiator, &mut pair, &list);
        assert_eq!(answer.sense(), sense, "{segment:?}");
    }
    assert!(pair.lus == before, "no partial effect");
    let nothing = copy_list(1, &[&thin], &[(0, 0, 0, 0, 0)]);
    copy(&mut initiator, &mut pair, &nothing).good();
    copy(&mut initiator, &mut pair, &[]).good();
}

#[test]
fn a_copy_whose_source_cannot_be_read_ends_with_that_error_and_is_reported_as_failed() {
    let (mut pair, mut initiator) = logged_in();
    let thin = name_of(&mut initiator, &mut pair, THIN);
    let list = copy_list(3, &[&thin], &[(0, 0, 1, 0, 1), (0, 0, 1, 2, 3)]);
    pair.stalled = true;
    let cdb = Cdb::ExtendedCopy {
        parameter_list_length: list.len() as u32,
    };
    let command = initiator.begin_out(&mut pair, THIN, &cdb.emit(), &list);
    pair.release_one();
    pair.release_one();
    let io = pair.held.remove(0);
    pair.target
        .handle_io_done(pair.time, io.id, IoResult::Failed(IoFailure::Read));
    pair.run();
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::UNRECOVERED_READ_ERROR);
    let query = Cdb::ReceiveCopyResults {
        results: CopyResults::Status,
        list: 3,
        allocation_length: 12,
    };
    let report = initiator.run_cdb(&mut pair, THIN, query, 12).good();
    assert_eq!(report, [0, 0, 0, 8, 2, 0, 1, 0, 0, 0, 2, 0]);
}

#[test]
fn a_copy_to_an_lu_that_is_removed_ends_without_further_access_to_it() {
    let (mut pair, mut initiator) = logged_in();
    let mut name = |lun| name_of(&mut initiator, &mut pair, lun);
    let (thin, large) = (name(THIN), name(5));
    let list = copy_list(3, &[&thin, &large], &[(0, 1, 1024, 0, 0)]);
    let cdb = Cdb::ExtendedCopy {
        parameter_list_length: list.len() as u32,
    };
    // The LU is removed while the copy reads from one LU, and while it writes to the other.
    for ended_accesses in [0, 1] {
        let description = pair::config().lus.into_iter().find(|lu| lu.lun == 5);
        pair.stalled = true;
        let command = initiator.begin_out(&mut pair, THIN, &cdb.emit(), &list);
        for _ in 0..ended_accesses {
            pair.release_one();
        }
        assert!(pair.target.remove_lu(pair.time, 5));
        assert_eq!(pair.target.is_in_use(5), ended_accesses == 1);
        while !pair.held.is_empty() {
            pair.release_one();
            assert!(pair.held.iter().all(|io| io.lun != 5));
        }
        let pdus = initiator.receive(&mut pair);
        let sense = Answer::of(pdus, command.itt).sense();
        assert_eq!(sense, Sense::LOGICAL_UNIT_NOT_SUPPORTED);
        assert!(!pair.target.is_in_use(5));
        pair.stalled = false;
        pair.target.add_lu(description.expect("LU 5"));
        // Consumes the unit attention condition for the removed and added LUs.
        initiator.run_cdb(&mut pair, THIN, Cdb::TestUnitReady, 0);
    }
}

#[test]
fn pre_fetch_reads_up_to_the_longest_transfer() {
    let (mut pair, mut initiator) = logged_in();
    let fetch = |lba, blocks, immediate| Cdb::PreFetch {
        lba,
        blocks,
        immediate,
    };
    initiator
        .run_cdb(&mut pair, 0, fetch(0, 0, false), 0)
        .good();
    assert_eq!(pair.counter("lu/0", "read_bytes"), LU_BYTES as f64);
    initiator.run_cdb(&mut pair, 0, fetch(0, 8, true), 0).good();
    let answer = initiator.run_cdb(&mut pair, 0, fetch(2048, 1, false), 0);
    assert_eq!(answer.sense(), Sense::LBA_OUT_OF_RANGE);
}

#[test]
fn the_defect_lists_are_empty_in_either_form() {
    let (mut pair, mut initiator) = logged_in();
    let query = |twelve, format, allocation_length| {
        Cdb::ReadDefectData(ReadDefectData {
            twelve,
            primary: true,
            grown: true,
            format,
            allocation_length,
        })
    };
    let ten = initiator
        .run_cdb(&mut pair, 0, query(false, 5, 255), 255)
        .good();
    assert_eq!(ten, [0, 0x1d, 0, 0]);
    let twelve = initiator
        .run_cdb(&mut pair, 0, query(true, 0, 255), 255)
        .good();
    assert_eq!(twelve, [0, 0x18, 0, 0, 0, 0, 0, 0]);
    let cut = initiator
        .run_cdb(&mut pair, 0, query(true, 0, 3), 255)
        .good();
    assert_eq!(cut, [0, 0x18, 0]);
    let answer = initiator.run_cdb(&mut pair, 0, query(false, 7, 255), 255);
    assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
}

#[test]
fn unmapping_64_tebibytes_is_split_into_steps_between_which_others_are_served() {
    const SIZE: u64 = 64 << 40;
    let mut config = config_with_thin_lu();
    let mut huge = LuDescription::new(9, SIZE);
    huge.thin = Some(Thin { page_bytes: 4096 });
    config.lus.push(huge);
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    // 2^37 blocks are more than one descriptor can specify.
    let ranges: Vec<Blocks> = (0..64)
        .map(|i| Blocks {
            lba: i << 31,
            blocks: 1 << 31,
        })
        .collect();
    let list = emit_unmap_list(&ranges);
    let cdb = Cdb::Unmap {
        anchor: false,
        parameter_list_length: list.len() as u16,
    };
    let command = initiator.begin_out(&mut pair, 9, &cdb.emit(), &list);
    let (mut unmapped, mut steps) = (0, 0);
    while let Some(io) = pair.held.pop() {
        assert!(pair.held.is_empty(), "one access at a time");
        let IoOp::Unmap { ranges } = &io.op else {
            panic!("{io:?}")
        };
        unmapped += ranges.iter().map(|range| range.length_bytes).sum::<u64>();
        steps += 1;
        if steps == 1000 {
            // Another command does not wait for the remaining steps.
            let read = Cdb::Read(Transfer {
                blocks: 1,
                ..Transfer::default()
            });
            pair.stalled = false;
            initiator.run_cdb(&mut pair, 0, read, 512).good();
            pair.stalled = true;
        }
        pair.target.handle_io_done(pair.time, io.id, IoResult::Done);
        pair.run();
    }
    assert_eq!((unmapped, steps), (SIZE, 65_536));
    Answer::of(initiator.receive(&mut pair), command.itt).good();
}
