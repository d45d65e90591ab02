//! No initiator can deprive the others of service, whatever it sends.

use hakaru_iscsi_target::{IoOp, Limits, LuDescription, TargetConfig};
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginRequest, LoginStatus, Lun, Stage, TaskManagementFunction,
    TaskManagementRequest,
};
use hakaru_wire::scsi::{Cdb, Status};

use crate::pair::{INITIATOR, Initiator, Pair, TARGET, config, names, read};

const GREEDY: &str = "iqn.2026-01.net.example:greedy";
const SECURITY: Stage = Stage::SecurityNegotiation;

/// Begins a login that has sent its names and stays in the security stage.
fn begin_login(pair: &mut Pair, peer: &str) -> Initiator {
    let connection = pair.try_connect_from(peer).expect("a free connection");
    let mut initiator = Initiator::new(connection, 1);
    let (response, _) = initiator.login(pair, SECURITY, None, &names(GREEDY));
    assert_eq!(response.status, LoginStatus::SUCCESS);
    initiator
}

#[test]
fn a_login_that_sends_endless_text_does_not_block_other_logins() {
    let mut pair = Pair::new();
    let mut greedy = begin_login(&mut pair, "10.0.0.66:40000");
    // Exactly 64 MiB, all of which is processed and freed at once. The login then sends nothing
    // more.
    for number in 0..8192 {
        let last = 8192 - names(GREEDY).len();
        let length = if number == 8191 { last } else { 8192 };
        let (response, _) = greedy.login(&mut pair, SECURITY, None, &vec![0; length]);
        assert_eq!(response.status, LoginStatus::SUCCESS);
    }
    pair.log_in(&[]);
}

#[test]
fn logins_that_hold_as_much_text_as_possible_do_not_block_other_origins() {
    let mut pair = Pair::new();
    // Each login sends seven PDUs of 8 KiB with the C bit, because 15 PDUs (120 KiB) would be too
    // long. A thousand logins hold 56 MiB.
    for port in 0..1500u32 {
        let mut greedy = begin_login(&mut pair, &format!("10.0.0.66:{}", 10_000 + port));
        for _ in 0..7 {
            let request = LoginRequest {
                more: true,
                data_segment_length: 8192,
                ..greedy.login_request(SECURITY, None)
            };
            let (response, _) = greedy.login_with(&mut pair, request, &[b'A'; 8192]);
            if response.status != LoginStatus::SUCCESS {
                break;
            }
        }
    }
    pair.log_in(&[]);
}

#[test]
fn logins_from_one_ipv6_network_count_as_those_of_one_address() {
    let mut pair = Pair::with(TargetConfig {
        limits: Limits {
            logins_max: 4,
            logins_per_address_max: 3,
            ..Limits::default()
        },
        ..config()
    });
    let accepted = (1..=4)
        .filter_map(|host| pair.try_connect_from(&format!("[2001:db8::{host}]:40000")))
        .count();
    assert_eq!(accepted, 3);
    assert!(pair.try_connect_from("[2001:db8:0:1::1]:40000").is_some());
}

fn cold_reset(pair: &mut Pair, initiator: &mut Initiator) {
    let request = TaskManagementRequest {
        immediate: true,
        function: TaskManagementFunction::TargetColdReset,
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        lun: Lun::new(0),
        exp_stat_sn: initiator.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &[]);
}

#[test]
fn the_number_of_remembered_resets_of_sessions_that_never_return_is_bounded() {
    let mut pair = Pair::new();
    for round in 0..100 {
        let mut last = None;
        for number in 0..100 {
            let name = format!("iqn.2026-01.net.example:{round}-{number}");
            last = Some(pair.log_in_as(&name, 1, &[]));
        }
        cold_reset(&mut pair, &mut last.expect("a session"));
    }
    assert!(pair.counter("sessions", "owed_attentions_now") <= 4096.0);
    // A superfluous condition is harmless, and none is lost.
    let mut late = pair.log_in_as("iqn.2026-01.net.example:0-0", 1, &[]);
    let answer = late.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0);
    assert_eq!(answer.sense().additional.code, 0x29);
}

#[test]
fn the_list_of_aborted_accesses_is_bounded_if_the_shell_does_not_poll() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    for _ in 0..2000 {
        pair.stalled = true;
        let cdb = read_cdb(0, 1);
        let command = initiator.command(0, &cdb, true, false, 512);
        initiator.send_command(&mut pair, &command, &[]);
        let abort = TaskManagementRequest {
            immediate: true,
            function: TaskManagementFunction::AbortTask,
            itt: Itt(0x7000_0000),
            referenced_task_tag: command.itt,
            ref_cmd_sn: command.cmd_sn,
            cmd_sn: CmdSn(initiator.cmd_sn),
            lun: Lun::new(0),
            exp_stat_sn: initiator.exp_stat_sn,
            exp_data_sn: 0,
        };
        let mut header = [0; 48];
        abort.emit(&mut header);
        initiator.send(&mut pair, &header, &[]);
        pair.stalled = false;
        pair.release();
    }
    let listed = std::iter::from_fn(|| pair.target.poll_unwanted()).count();
    assert!(listed < 200, "{listed}");
}

#[test]
fn task_management_functions_that_wait_for_the_storage_are_bounded() {
    let commands_max = Limits::default().commands_max as usize;
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    for _ in 0..4 {
        let command = initiator.command(0, &read_cdb(0, 1), true, false, 512);
        initiator.send_command(&mut pair, &command, &[]);
    }
    for number in 0..1000 {
        let reset = TaskManagementRequest {
            immediate: true,
            function: TaskManagementFunction::LogicalUnitReset,
            itt: Itt(0x7000_0000 + number),
            referenced_task_tag: Itt::RESERVED,
            ref_cmd_sn: CmdSn(0),
            cmd_sn: CmdSn(initiator.cmd_sn),
            lun: Lun::new(0),
            exp_stat_sn: initiator.exp_stat_sn,
            exp_data_sn: 0,
        };
        let mut header = [0; 48];
        reset.emit(&mut header);
        initiator.send(&mut pair, &header, &[]);
    }
    assert_eq!(initiator.receive(&mut pair).len(), 1000 - commands_max);
    pair.stalled = false;
    pair.release();
    assert_eq!(initiator.receive(&mut pair).len(), commands_max);
}

fn read_cdb(lba: u64, blocks: u32) -> [u8; 16] {
    read(lba, blocks).emit()
}

#[test]
fn a_command_beyond_tasks_max_gets_task_set_full() {
    let mut pair = Pair::with(TargetConfig {
        limits: Limits {
            tasks_max: 2,
            ..Limits::default()
        },
        ..config()
    });
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let cdb = read_cdb(0, 1);
    for _ in 0..2 {
        let command = initiator.command(0, &cdb, true, false, 512);
        initiator.send_command(&mut pair, &command, &[]);
    }
    let answer = initiator.run(&mut pair, 0, &cdb, 512);
    assert_eq!(answer.status, Status::TASK_SET_FULL.0);
    pair.stalled = false;
    pair.release();
    assert_eq!(initiator.receive(&mut pair).len(), 2);
}

#[test]
fn a_read_of_another_lu_precedes_long_fills() {
    const FILLS: usize = 100;
    let mut large = LuDescription::new(9, 64 << 20);
    large.in_place = false;
    let mut configuration = config();
    configuration.lus.push(large);
    let mut pair = Pair::with(configuration);
    let mut filling = pair.log_in(&[]);
    let mut reading = pair.log_in_as("iqn.2026-01.net.example:reader", 2, &[]);
    pair.stalled = true;
    let mut bytes = Vec::new();
    for _ in 0..FILLS {
        // WRITE SAME(16), NDOB: 32 MiB of zeros without data.
        let mut cdb = [0; 16];
        cdb[0] = 0x93;
        cdb[1] = 0x01;
        cdb[10..14].copy_from_slice(&65_535u32.to_be_bytes());
        let command = filling.command(9, &cdb, false, false, 0);
        let mut header = [0; 48];
        command.emit(&mut header);
        bytes.extend_from_slice(&header);
    }
    pair.target
        .handle_received(pair.time, filling.connection, &bytes);
    let command = reading.command(0, &read_cdb(0, 8), true, false, 4096);
    let mut header = [0; 48];
    command.emit(&mut header);
    pair.target
        .handle_received(pair.time, reading.connection, &header);
    let mut left = 2 << 20;
    let accesses: Vec<_> = std::iter::from_fn(|| pair.target.poll_io_within(&mut left)).collect();
    assert!(
        matches!(accesses[0].op, IoOp::Read { .. }),
        "{:?}",
        accesses[0]
    );
    let fills = accesses
        .iter()
        .filter(|io| matches!(io.op, IoOp::WriteSame { .. }));
    assert_eq!((fills.count(), accesses.len()), (2, 3));
    assert!(pair.target.has_io());
}

#[test]
fn a_refused_login_is_reported_with_its_peer_and_the_reason_and_a_flood_is_counted() {
    let mut pair = Pair::new();
    let connection = pair
        .try_connect_from("10.0.0.66:40000")
        .expect("a free connection");
    let mut stranger = Initiator::new(connection, 1);
    let text = String::from_utf8(names(INITIATOR)).unwrap();
    let other = text.replace(TARGET, "iqn.2026-01.net.example:other");
    let full = Some(Stage::FullFeaturePhase);
    stranger.login(
        &mut pair,
        Stage::OperationalNegotiation,
        full,
        other.as_bytes(),
    );
    let refusal = pair.target.poll_refusal().expect("a refusal");
    assert_eq!(refusal.peer.to_string(), "10.0.0.66:40000");
    assert_eq!(refusal.initiator_name.as_deref(), Some(INITIATOR));
    assert_eq!(refusal.status, LoginStatus::NOT_FOUND);
    assert!(refusal.reason.contains("target name"), "{}", refusal.reason);
    for _ in 0..100 {
        let connection = pair.connect();
        let mut stranger = Initiator::new(connection, 1);
        stranger.login(
            &mut pair,
            Stage::OperationalNegotiation,
            full,
            other.as_bytes(),
        );
    }
    let reported = std::iter::from_fn(|| pair.target.poll_refusal()).count();
    assert!(reported <= 16, "{reported}");
    assert_eq!(pair.counter("sessions", "logins_refused"), 101.0);
}
