//! M-12 to M-14 and M-20: invalid numbers, tags and lengths.

use hakaru_wire::iscsi::{
    CmdSn, DataOut, Itt, LogoutReason, NopOut, Opcode, ScsiCommand, Snack, SnackKind, StatSn, Ttt,
};

use super::scene::{Scene, header, opcodes};
use crate::pair::{Initiator, Pdu, answer_to, pattern, r2t_of};

const WRITE_10: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
const WRITE_BYTES: u32 = 8 * 512;

pub fn command_numbers() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    // Numbers wrap, so some cases begin near zero.
    for first in [1_u32, 1000, u32::MAX - 1, u32::MAX, 0] {
        let connection = scene.connect();
        let mut initiator = Initiator::new(connection, 1);
        initiator.cmd_sn = first;
        let (response, _) = initiator.login(
            &mut scene.pair,
            hakaru_wire::iscsi::Stage::OperationalNegotiation,
            Some(hakaru_wire::iscsi::Stage::FullFeaturePhase),
            &crate::pair::names(crate::pair::INITIATOR),
        );
        assert_eq!(response.status.0, 0);
        initiator.tsih = response.tsih;
        let next = first.wrapping_add(1);
        assert_eq!(initiator.run(&mut scene.pair, 0, &[0; 6], 0).status, 0);
        // Already used, the one before that, beyond the window of 128, and half of the number space
        // away.
        for wrong in [
            first,
            first.wrapping_sub(1),
            next.wrapping_add(128),
            next.wrapping_add(1 << 31),
        ] {
            let mut command = initiator.command(0, &[0; 6], false, false, 0);
            command.cmd_sn = CmdSn(wrong);
            initiator.cmd_sn = next;
            initiator.send_command(&mut scene.pair, &command, &[]);
            assert!(
                scene.pair.received_nothing(connection),
                "CmdSN {wrong} where {next} is expected"
            );
            tried += 1;
        }
        // An early command waits for its predecessors. A second command with the same number is
        // ignored.
        let mut early = initiator.command(0, &[0; 6], false, false, 0);
        early.cmd_sn = CmdSn(next.wrapping_add(1));
        initiator.send_command(&mut scene.pair, &early, &[]);
        let mut twin = early;
        twin.itt = Itt(early.itt.0 + 1000);
        initiator.send_command(&mut scene.pair, &twin, &[]);
        assert!(scene.pair.received_nothing(connection));
        initiator.cmd_sn = next;
        let command = initiator.command(0, &[0; 6], false, false, 0);
        initiator.send_command(&mut scene.pair, &command, &[]);
        let answered: Vec<Itt> = initiator
            .receive(&mut scene.pair)
            .iter()
            .map(|pdu| pdu.bhs.itt())
            .collect();
        assert_eq!(answered, [command.itt, early.itt]);
        scene.hang_up(connection);
        tried += 2;
    }
    tried += immediate_flood(&mut scene);
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    tried
}

/// Sends 100 immediate commands, which the window does not limit. Eight are executed at a time, and
/// the rest are rejected.
fn immediate_flood(scene: &mut Scene) -> u64 {
    let mut initiator = scene.log_in(&[]);
    scene.pair.stalled = true;
    let mut rejected = 0;
    for _ in 0..100 {
        let mut command =
            initiator.command(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], true, false, 512);
        command.immediate = true;
        initiator.cmd_sn = initiator.cmd_sn.wrapping_sub(1);
        initiator.send_command(&mut scene.pair, &command, &[]);
        let received = opcodes(&initiator.receive(&mut scene.pair));
        rejected += received
            .iter()
            .filter(|opcode| **opcode == Some(Opcode::Reject))
            .count();
    }
    assert_eq!((scene.pair.held.len(), rejected), (8, 92));
    scene.pair.release();
    assert_eq!(initiator.receive(&mut scene.pair).len(), 8);
    scene.hang_up(initiator.connection);
    100
}

/// Begins a write that waits for its data. Returns the initiator, the command and the R2T.
fn waiting_write(scene: &mut Scene) -> (Initiator, ScsiCommand, hakaru_wire::iscsi::R2t) {
    let mut initiator = scene.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let command = initiator.command(0, &WRITE_10, false, true, WRITE_BYTES);
    initiator.send_command(&mut scene.pair, &command, &[]);
    let r2t = r2t_of(&initiator.receive_one(&mut scene.pair));
    (initiator, command, r2t)
}

/// Whether a PDU was refused: with Reject, with a status other than GOOD, or with the end of the
/// session.
fn refused(scene: &Scene, initiator: &Initiator, pdus: &[Pdu]) -> bool {
    let bad = |pdu: &Pdu| match pdu.opcode() {
        Opcode::Reject => true,
        Opcode::ScsiResponse => pdu.bhs.as_bytes()[3] != 0,
        _ => false,
    };
    scene.pair.is_closed(initiator.connection) || pdus.iter().any(bad)
}

pub fn data_out() -> u64 {
    type Corrupt = fn(&mut DataOut, &mut usize);
    let corruptions: [(&str, Corrupt); 13] = [
        ("an unknown TTT", |pdu, _| {
            pdu.ttt = Ttt(pdu.ttt.0.wrapping_add(1))
        }),
        ("the reserved TTT", |pdu, _| pdu.ttt = Ttt::RESERVED),
        ("an unknown ITT", |pdu, _| pdu.itt = Itt(pdu.itt.0 + 77)),
        ("the reserved ITT", |pdu, _| pdu.itt = Itt::RESERVED),
        ("another LUN", |pdu, _| {
            pdu.lun = hakaru_wire::iscsi::Lun::new(5)
        }),
        ("DataSN 27", |pdu, _| pdu.data_sn = 27),
        ("DataSN -1", |pdu, _| pdu.data_sn = u32::MAX),
        ("an offset beyond the R2T", |pdu, _| {
            pdu.buffer_offset = WRITE_BYTES
        }),
        ("an offset near 2^32", |pdu, _| {
            pdu.buffer_offset = u32::MAX - 511
        }),
        ("a gap before it", |pdu, _| pdu.buffer_offset = 512),
        ("more than was requested", |_, length| *length += 512),
        ("less than was requested, and final", |_, length| {
            *length -= 512
        }),
        ("nothing, and final", |_, length| *length = 0),
    ];
    let mut scene = Scene::new();
    for (name, corrupt) in corruptions {
        let (mut initiator, _, r2t) = waiting_write(&mut scene);
        let mut pdu = answer_to(&r2t);
        let mut length = WRITE_BYTES as usize;
        corrupt(&mut pdu, &mut length);
        initiator.send_data_out(&mut scene.pair, pdu, &pattern(length, 1));
        let pdus = initiator.receive(&mut scene.pair);
        if name.ends_with("ITT") {
            // Data of a task that has been aborted looks the same: it is discarded, and no other
            // task receives it.
            assert!(
                pdus.is_empty() && !scene.pair.is_closed(initiator.connection),
                "{name}: {pdus:?}"
            );
        } else {
            assert!(refused(&scene, &initiator, &pdus), "{name}: {pdus:?}");
        }
        scene.hang_up(initiator.connection);
        scene.assert_lu_unchanged();
        scene.assert_nothing_held();
        scene.assert_bystander_served();
    }
    let mut tried = corruptions.len() as u64;
    // The halves in reverse order, although DataPDUInOrder is Yes.
    let (mut initiator, _, r2t) = waiting_write(&mut scene);
    let half = WRITE_BYTES / 2;
    let second = DataOut {
        buffer_offset: half,
        data_sn: 1,
        ..answer_to(&r2t)
    };
    initiator.send_data_out(&mut scene.pair, second, &pattern(half as usize, 1));
    let pdus = initiator.receive(&mut scene.pair);
    assert!(refused(&scene, &initiator, &pdus), "{pdus:?}");
    scene.hang_up(initiator.connection);
    scene.assert_lu_unchanged();
    // A tag that is in use.
    let (mut initiator, command, _) = waiting_write(&mut scene);
    let mut twin = initiator.command(0, &[0; 6], false, false, 0);
    twin.itt = command.itt;
    initiator.send_command(&mut scene.pair, &twin, &[]);
    let pdus = initiator.receive(&mut scene.pair);
    assert_eq!(opcodes(&pdus), [Some(Opcode::Reject)]);
    scene.hang_up(initiator.connection);
    // Unsolicited data beyond FirstBurstLength, or although none was agreed on.
    for (initial_r2t, immediate, sent) in [
        ("No", "Yes", 1024),
        ("Yes", "No", 512),
        ("Yes", "Yes", 1024),
    ] {
        let mut initiator = scene.log_in(&[
            ("InitialR2T", initial_r2t),
            ("ImmediateData", immediate),
            ("MaxBurstLength", "4096"),
            ("FirstBurstLength", "512"),
        ]);
        let command = initiator.command(0, &WRITE_10, false, true, WRITE_BYTES);
        initiator.send_command(&mut scene.pair, &command, &pattern(sent, 1));
        let pdus = initiator.receive(&mut scene.pair);
        assert!(
            refused(&scene, &initiator, &pdus),
            "{initial_r2t} {immediate}: {pdus:?}"
        );
        scene.hang_up(initiator.connection);
        scene.assert_lu_unchanged();
        tried += 1;
    }
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    tried + 2
}

pub fn transfer_lengths() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    let inquiry = [0x12, 0, 0, 0, 96, 0];
    for cdb in [&read[..], &inquiry, &WRITE_10, &[0x35; 1], &[0; 6]] {
        for (wants_read, wants_write) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            for expected in [
                0,
                1,
                511,
                512,
                1023,
                1024,
                1025,
                4096,
                4097,
                65_536,
                u32::MAX,
            ] {
                let mut initiator = scene.log_in(&[]);
                let command = initiator.command(5, cdb, wants_read, wants_write, expected);
                initiator.send_command(&mut scene.pair, &command, &[]);
                let pdus = initiator.receive(&mut scene.pair);
                let mut moved = 0_u64;
                for pdu in &pdus {
                    if pdu.opcode() == Opcode::DataIn {
                        moved += pdu.data.len() as u64;
                    }
                }
                let case = format!("{cdb:02x?} R={wants_read} W={wants_write} of {expected}");
                assert!(
                    moved <= u64::from(if wants_read { expected } else { 0 }),
                    "{case}"
                );
                // The command is answered, or an R2T requests the data of a write.
                let last = pdus.last().map(Pdu::opcode);
                assert!(
                    matches!(
                        last,
                        Some(Opcode::ScsiResponse | Opcode::DataIn | Opcode::Reject)
                    ) || wants_write && last == Some(Opcode::R2t),
                    "{case}: {last:?}"
                );
                scene.hang_up(initiator.connection);
                tried += 1;
            }
        }
    }
    scene.assert_lu_unchanged();
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    tried
}

pub fn stray_pdus() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    // Opcodes that only targets send, and opcodes that do not exist.
    for opcode in (0..64_u8)
        .filter(|code| Opcode::from_code(*code).is_none_or(|known| !known.from_initiator()))
    {
        for length in [0_u8, 4] {
            let mut initiator = scene.log_in(&[]);
            let mut bytes = header(opcode);
            bytes[7] = length;
            let pdu = [&bytes[..], &vec![0xff; usize::from(length)]].concat();
            scene.pair.send(initiator.connection, &pdu);
            let received = opcodes(&initiator.receive(&mut scene.pair));
            assert_eq!(received, [Some(Opcode::Reject)], "opcode {opcode:02x}h");
            assert_eq!(
                initiator.run(&mut scene.pair, 0, &[0; 6], 0).status,
                0,
                "the session continues"
            );
            scene.hang_up(initiator.connection);
            tried += 1;
        }
    }
    // Every kind of SNACK. At error recovery level 0 the target retransmits nothing.
    for kind in [
        SnackKind::DataOrR2t,
        SnackKind::Status,
        SnackKind::DataAck,
        SnackKind::RData,
    ] {
        for (beg_run, run_length) in [(0, 0), (0, 1), (7, u32::MAX), (u32::MAX, u32::MAX)] {
            let mut initiator = scene.log_in(&[]);
            let mut bytes = [0; 48];
            Snack {
                kind,
                lun: hakaru_wire::iscsi::Lun::new(0),
                itt: Itt::RESERVED,
                tag: u32::MAX,
                exp_stat_sn: StatSn(0),
                beg_run,
                run_length,
            }
            .emit(&mut bytes);
            initiator.send(&mut scene.pair, &bytes, &[]);
            let received = opcodes(&initiator.receive(&mut scene.pair));
            assert!(
                received
                    .iter()
                    .all(|opcode| *opcode == Some(Opcode::Reject)),
                "{kind:?}: {received:?}"
            );
            scene.hang_up(initiator.connection);
            tried += 1;
        }
    }
    // NOP-Outs are answered if they request an answer, and only then. Tags that the target did not
    // assign get no answer.
    for (itt, ttt, immediate, answers) in [
        (Itt(5), Ttt::RESERVED, true, 1),
        (Itt(5), Ttt::RESERVED, false, 1),
        (Itt::RESERVED, Ttt(12345), true, 0),
        (Itt::RESERVED, Ttt::RESERVED, true, 0),
    ] {
        let mut initiator = scene.log_in(&[]);
        let mut bytes = [0; 48];
        NopOut {
            immediate,
            itt,
            ttt,
            cmd_sn: CmdSn(initiator.cmd_sn),
            ..NopOut::default()
        }
        .emit(&mut bytes);
        initiator.send(&mut scene.pair, &bytes, &[]);
        let received = initiator.receive(&mut scene.pair);
        let pings = received
            .iter()
            .filter(|pdu| pdu.opcode() == Opcode::NopIn)
            .count();
        assert_eq!(pings, answers, "{itt:?} {ttt:?}: {received:?}");
        scene.hang_up(initiator.connection);
        tried += 1;
    }
    // Logout of a connection that does not exist, and for a reason that is not supported.
    for (reason, cid) in [
        (LogoutReason::CloseConnection, 99),
        (LogoutReason::RemoveForRecovery, 1),
    ] {
        let mut initiator = scene.log_in(&[]);
        let mut bytes = [0; 48];
        hakaru_wire::iscsi::LogoutRequest {
            immediate: true,
            reason,
            itt: Itt(5),
            cid,
            cmd_sn: CmdSn(initiator.cmd_sn),
            exp_stat_sn: initiator.exp_stat_sn,
        }
        .emit(&mut bytes);
        initiator.send(&mut scene.pair, &bytes, &[]);
        assert_eq!(initiator.receive(&mut scene.pair).len(), 1);
        assert_eq!(
            initiator.run(&mut scene.pair, 0, &[0; 6], 0).status,
            0,
            "{reason:?} {cid}: the session continues"
        );
        scene.hang_up(initiator.connection);
        tried += 1;
    }
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    tried
}
