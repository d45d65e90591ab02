//! Task management functions: the tasks that they end, the notifications that they cause, and that
//! an aborted task has no effect afterwards.

use crate::pair::{self, Answer, Initiator, Pair, answer_to, pattern, r2t_of};
use hakaru_iscsi_target::LuDescription;
use hakaru_wire::iscsi::{
    CmdSn, Itt, Lun, Opcode, ScsiCommand, TaskManagementFunction as Function,
    TaskManagementRequest, TaskManagementResponse, TaskManagementResult as Outcome,
};
use hakaru_wire::scsi::{Cdb, Sense, Transfer};

fn read() -> [u8; 16] {
    Cdb::Read(Transfer {
        blocks: 1,
        ..Transfer::default()
    })
    .emit()
}

fn write() -> [u8; 16] {
    Cdb::Write(Transfer {
        blocks: 1,
        ..Transfer::default()
    })
    .emit()
}

fn request(initiator: &Initiator, function: Function, lun: u8) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::new(lun.into()),
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    }
}

fn send(initiator: &mut Initiator, pair: &mut Pair, request: TaskManagementRequest) {
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &[]);
}

fn result_of(initiator: &mut Initiator, pair: &mut Pair) -> Option<Outcome> {
    let pdus = initiator.receive(pair);
    pdus.last().map(|pdu| {
        TaskManagementResponse::parse(&pdu.bhs)
            .unwrap_or_else(|e| panic!("{e} {pdu:?}"))
            .result
    })
}

fn abort(initiator: &mut Initiator, pair: &mut Pair, command: &ScsiCommand) -> Option<Outcome> {
    let request = TaskManagementRequest {
        referenced_task_tag: command.itt,
        ref_cmd_sn: command.cmd_sn,
        lun: command.lun,
        ..request(initiator, Function::AbortTask, 0)
    };
    send(initiator, pair, request);
    result_of(initiator, pair)
}

fn unit_attention(initiator: &mut Initiator, pair: &mut Pair, lun: u8) -> Option<Sense> {
    let answer = initiator.run_cdb(pair, lun, Cdb::TestUnitReady, 0);
    (answer.status == 2).then(|| answer.sense())
}

#[test]
fn an_aborted_read_is_not_answered() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let command = initiator.command(0, &read(), true, false, 512);
    initiator.send_command(&mut pair, &command, &[]);
    assert_eq!(pair.target.poll_unwanted(), None);
    assert_eq!(
        abort(&mut initiator, &mut pair, &command),
        None,
        "the abort waits for the storage"
    );
    // A store that still holds the access need not execute it.
    assert_eq!(pair.target.poll_unwanted(), Some(pair.held[0].id));
    assert_eq!(pair.target.poll_unwanted(), None);
    pair.release();
    assert_eq!(
        result_of(&mut initiator, &mut pair),
        Some(Outcome::Complete)
    );
    assert_eq!(
        abort(&mut initiator, &mut pair, &command),
        Some(Outcome::NoSuchTask)
    );
}

#[test]
fn a_refused_command_whose_data_is_still_to_come_belongs_to_its_own_lu() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("InitialR2T", "No")]);
    // LU 7 is read-only.
    let refused = |pair: &mut Pair, initiator: &mut Initiator| {
        let command = ScsiCommand {
            is_final: false,
            ..initiator.command(7, &write(), false, true, 512)
        };
        initiator.send_command(pair, &command, &[]);
        assert!(initiator.receive(pair).is_empty());
        command
    };
    let command = refused(&mut pair, &mut initiator);
    let other = request(&initiator, Function::AbortTaskSet, 0);
    send(&mut initiator, &mut pair, other);
    let result = result_of(&mut initiator, &mut pair);
    assert_eq!(result, Some(Outcome::Complete));
    let data = pair::unsolicited(&command, 0, 0, true);
    initiator.send_data_out(&mut pair, data, &pattern(512, 1));
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::WRITE_PROTECTED);
    let command = refused(&mut pair, &mut initiator);
    let own = request(&initiator, Function::AbortTaskSet, 7);
    send(&mut initiator, &mut pair, own);
    let result = result_of(&mut initiator, &mut pair);
    assert_eq!(result, Some(Outcome::Complete));
    let data = pair::unsolicited(&command, 0, 0, true);
    initiator.send_data_out(&mut pair, data, &pattern(512, 1));
    assert!(initiator.receive(&mut pair).is_empty(), "it was aborted");
}

#[test]
fn an_aborted_write_never_changes_a_block_after_the_answer() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let command = initiator.command(0, &write(), false, true, 512);
    initiator.send_command(&mut pair, &command, &pattern(512, 1));
    assert_eq!(abort(&mut initiator, &mut pair, &command), None);
    // The tag is free again, and a new task with that tag is independent of the aborted one.
    let again = ScsiCommand {
        itt: command.itt,
        ..initiator.command(0, &write(), false, true, 512)
    };
    initiator.send_command(&mut pair, &again, &pattern(512, 2));
    pair.release();
    let opcodes: Vec<_> = initiator
        .receive(&mut pair)
        .iter()
        .map(pair::Pdu::opcode)
        .collect();
    assert_eq!(
        opcodes,
        [Opcode::TaskManagementResponse, Opcode::ScsiResponse]
    );
    assert_eq!(pair.lus[&0][..512], pattern(512, 2));
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn a_write_that_waits_for_its_data_is_aborted_at_once_and_late_data_is_discarded() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let command = initiator.command(0, &write(), false, true, 512);
    initiator.send_command(&mut pair, &command, &[]);
    let r2t = r2t_of(&initiator.receive_one(&mut pair));
    assert_eq!(
        abort(&mut initiator, &mut pair, &command),
        Some(Outcome::Complete)
    );
    initiator.send_data_out(&mut pair, answer_to(&r2t), &pattern(512, 1));
    assert!(initiator.receive(&mut pair).is_empty());
    assert!(pair.lus[&0].iter().all(|byte| *byte == 0));
}

#[test]
fn aborting_a_command_that_did_not_arrive_closes_its_gap() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let lost = initiator.command(0, &write(), false, true, 512);
    let next = initiator.command(0, &[0], false, false, 0);
    initiator.send_command(&mut pair, &next, &[]);
    assert!(
        initiator.receive(&mut pair).is_empty(),
        "held until the lost command arrives"
    );
    let request = TaskManagementRequest {
        referenced_task_tag: lost.itt,
        ref_cmd_sn: lost.cmd_sn,
        ..request(&initiator, Function::AbortTask, 0)
    };
    send(&mut initiator, &mut pair, request);
    let opcodes: Vec<_> = initiator
        .receive(&mut pair)
        .iter()
        .map(pair::Pdu::opcode)
        .collect();
    assert_eq!(
        opcodes,
        [Opcode::ScsiResponse, Opcode::TaskManagementResponse]
    );
    // If the command arrives later, it is outside the window.
    initiator.send_command(&mut pair, &lost, &pattern(512, 1));
    assert!(initiator.receive(&mut pair).is_empty());
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn a_task_is_aborted_on_its_own_lun_only() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let command = initiator.command(0, &read(), true, false, 512);
    initiator.send_command(&mut pair, &command, &[]);
    let request = TaskManagementRequest {
        referenced_task_tag: command.itt,
        ref_cmd_sn: command.cmd_sn,
        ..request(&initiator, Function::AbortTask, 5)
    };
    send(&mut initiator, &mut pair, request);
    assert_eq!(
        result_of(&mut initiator, &mut pair),
        Some(Outcome::NoSuchTask)
    );
    pair.release();
    Answer::of(initiator.receive(&mut pair), command.itt).good();
}

/// Returns two sessions, each with one read of LU 0 and one of LU 5 that the storage executes.
fn four_tasks() -> (Pair, Initiator, Initiator) {
    let mut pair = Pair::new();
    let mut mine = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 2, &[]);
    pair.stalled = true;
    for initiator in [&mut mine, &mut other] {
        for lun in [0, 5] {
            let command =
                initiator.command(lun, &read(), true, false, if lun == 0 { 512 } else { 4096 });
            initiator.send_command(&mut pair, &command, &[]);
        }
    }
    (pair, mine, other)
}

#[test]
fn each_function_ends_the_tasks_of_its_scope_and_notifies_the_affected_sessions() {
    let reset = Some(Sense::BUS_DEVICE_RESET_FUNCTION);
    let cleared = Some(Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
    // Answers that remain for each session, then the unit attentions of each session on LU 0 and on
    // LU 5.
    let cases = [
        (Function::AbortTaskSet, 1, 2, None, None, None, None),
        (Function::ClearTaskSet, 1, 1, None, cleared, None, None),
        (Function::LogicalUnitReset, 1, 1, reset, reset, None, None),
        (Function::TargetWarmReset, 0, 0, reset, reset, reset, reset),
    ];
    for (function, mine_left, other_left, mine_0, other_0, mine_5, other_5) in cases {
        let (mut pair, mut mine, mut other) = four_tasks();
        let request = request(&mine, function, 0);
        send(&mut mine, &mut pair, request);
        assert!(
            mine.receive(&mut pair).is_empty(),
            "{function:?} waits for the storage"
        );
        pair.release();
        let mut answers = mine.receive(&mut pair);
        let at = answers
            .iter()
            .position(|pdu| pdu.opcode() == Opcode::TaskManagementResponse)
            .unwrap();
        assert_eq!(
            TaskManagementResponse::parse(&answers.remove(at).bhs)
                .unwrap()
                .result,
            Outcome::Complete
        );
        assert_eq!(
            (answers.len(), other.receive(&mut pair).len()),
            (mine_left, other_left),
            "{function:?}"
        );
        assert_eq!(
            unit_attention(&mut mine, &mut pair, 0),
            mine_0,
            "{function:?}"
        );
        assert_eq!(
            unit_attention(&mut other, &mut pair, 0),
            other_0,
            "{function:?}"
        );
        assert_eq!(
            unit_attention(&mut mine, &mut pair, 5),
            mine_5,
            "{function:?}"
        );
        assert_eq!(
            unit_attention(&mut other, &mut pair, 5),
            other_5,
            "{function:?}"
        );
        for initiator in [&mut mine, &mut other] {
            for lun in [0, 5] {
                assert_eq!(
                    unit_attention(initiator, &mut pair, lun),
                    None,
                    "reported once"
                );
            }
        }
        assert_eq!(pair.counter("sessions", "task_management"), 1.0);
    }
}

#[test]
fn a_cold_reset_ends_every_session_and_initiators_get_a_unit_attention_at_the_next_login() {
    let (mut pair, mut mine, other) = four_tasks();
    let request = request(&mine, Function::TargetColdReset, 0);
    send(&mut mine, &mut pair, request);
    pair.release();
    assert_eq!(result_of(&mut mine, &mut pair), Some(Outcome::Complete));
    assert!(pair.is_closed(mine.connection) && pair.is_closed(other.connection));
    let mut again = pair.log_in(&[]);
    assert_eq!(
        unit_attention(&mut again, &mut pair, 0),
        Some(Sense::POWER_ON)
    );
    assert_eq!(
        unit_attention(&mut again, &mut pair, 5),
        Some(Sense::POWER_ON)
    );
    assert_eq!(unit_attention(&mut again, &mut pair, 0), None);
    let mut stranger = pair.log_in_as("iqn.2026-01.net.example:stranger", 3, &[]);
    assert_eq!(unit_attention(&mut stranger, &mut pair, 0), None);
}

#[test]
fn a_unit_attention_waits_through_inquiry_and_report_luns_and_ends_with_request_sense() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    // The second reset adds no unit attention condition.
    for _ in 0..2 {
        let reset = request(&initiator, Function::LogicalUnitReset, 0);
        send(&mut initiator, &mut pair, reset);
        let result = result_of(&mut initiator, &mut pair);
        assert_eq!(result, Some(Outcome::Complete));
    }
    let inquiry = Cdb::Inquiry {
        page: None,
        allocation_length: 36,
    };
    initiator.run_cdb(&mut pair, 0, inquiry, 36).good();
    let luns = Cdb::ReportLuns {
        select_report: 0,
        allocation_length: 64,
    };
    initiator.run_cdb(&mut pair, 0, luns, 64).good();
    let sense = Cdb::RequestSense {
        descriptor_format: false,
        allocation_length: 18,
    };
    let data = initiator.run_cdb(&mut pair, 0, sense, 18).good();
    assert_eq!(Sense::parse(&data), Some(Sense::BUS_DEVICE_RESET_FUNCTION));
    assert_eq!(unit_attention(&mut initiator, &mut pair, 0), None);
}

#[test]
fn unsupported_functions_and_missing_luns_get_the_right_response() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    for (function, lun, result) in [
        (Function::ClearAca, 0, Outcome::NotSupported),
        (Function::TaskReassign, 0, Outcome::ReassignNotSupported),
        (Function::Other(77), 0, Outcome::NotSupported),
        (Function::LogicalUnitReset, 9, Outcome::NoSuchLun),
        (Function::AbortTaskSet, 9, Outcome::NoSuchLun),
        (Function::ClearTaskSet, 9, Outcome::NoSuchLun),
        (Function::AbortTask, 0, Outcome::NoSuchTask),
        (Function::AbortTaskSet, 0, Outcome::Complete),
    ] {
        let request = request(&initiator, function, lun);
        send(&mut initiator, &mut pair, request);
        assert_eq!(
            result_of(&mut initiator, &mut pair),
            Some(result),
            "{function:?}"
        );
    }
}

#[test]
fn a_reset_reaches_commands_that_are_held_for_their_order() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let first = initiator.command(5, &[0], false, false, 0);
    let held = initiator.command(0, &write(), false, true, 512);
    initiator.send_command(&mut pair, &held, &pattern(512, 1));
    let reset = request(&initiator, Function::AbortTaskSet, 0);
    send(&mut initiator, &mut pair, reset);
    assert_eq!(
        result_of(&mut initiator, &mut pair),
        Some(Outcome::Complete)
    );
    initiator.send_command(&mut pair, &first, &[]);
    assert_eq!(
        initiator.receive_one(&mut pair).bhs.itt(),
        first.itt,
        "the held write was aborted"
    );
    assert!(pair.lus[&0].iter().all(|byte| *byte == 0));
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn ten_thousand_aborts_at_depth_128_leave_nothing_behind() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    for round in 0..80u32 {
        pair.stalled = true;
        let commands: Vec<_> = (0..127)
            .map(|_| {
                let command = initiator.command(0, &write(), false, true, 512);
                initiator.send_command(&mut pair, &command, &pattern(512, round as u8));
                command
            })
            .collect();
        for command in &commands {
            assert_eq!(abort(&mut initiator, &mut pair, command), None);
        }
        pair.release();
        let answers = initiator.receive(&mut pair);
        assert_eq!(answers.len(), 127);
        assert!(
            answers
                .iter()
                .all(|pdu| pdu.opcode() == Opcode::TaskManagementResponse)
        );
    }
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn an_aborted_long_command_whose_access_waits_for_its_turn_ends_at_once() {
    let mut config = pair::config();
    let mut large = LuDescription::new(9, 64 << 20);
    large.in_place = false;
    config.lus.push(large);
    let mut pair = Pair::with(config);
    pair.lus.insert(9, pattern(64 << 20, 1));
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    // WRITE SAME(16) of 1 MiB with NDOB. The storage gets the first 16.
    let fills: Vec<ScsiCommand> = (0..20_u64)
        .map(|number| {
            let mut cdb = [0; 16];
            (cdb[0], cdb[1]) = (0x93, 0x01);
            cdb[2..10].copy_from_slice(&(number * 2048).to_be_bytes());
            cdb[10..14].copy_from_slice(&2048_u32.to_be_bytes());
            let command = initiator.command(9, &cdb, false, false, 0);
            initiator.send_command(&mut pair, &command, &[]);
            command
        })
        .collect();
    assert_eq!(pair.held.len(), 16);
    assert_eq!(
        abort(&mut initiator, &mut pair, &fills[17]),
        Some(Outcome::Complete)
    );
    assert_eq!(
        pair.target.poll_unwanted(),
        None,
        "the storage has no access of it"
    );
    assert_eq!(abort(&mut initiator, &mut pair, &fills[0]), None);
    pair.release();
    assert_eq!(
        initiator.receive(&mut pair).len(),
        19,
        "18 statuses and the response to the second abort"
    );
    let filled: Vec<bool> = pair.lus[&9]
        .chunks(1 << 20)
        .take(20)
        .map(|fill| fill.iter().all(|byte| *byte == 0))
        .collect();
    let expected: Vec<bool> = (0..20).map(|number| number != 17).collect();
    assert_eq!(filled, expected);
}
