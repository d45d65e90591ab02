//! Each initiator sees and accesses only the LUs that the access list shows to it.
use super::scene::pair_with;
use crate::pair::{Answer, INITIATOR, Initiator, LU_BYTES, Pair, pattern};
use hakaru_iscsi_target::{Access, IoFailure, IoOp, IoResult, LuAccess, Rule};
use hakaru_wire::iscsi::{
    CmdSn, Itt, Lun, Opcode, TaskManagementFunction, TaskManagementRequest, TaskManagementResponse,
    TaskManagementResult,
};
use hakaru_wire::scsi::{Cdb, Sense, SenseKey, Transfer};

/// Shows LU 0 read-only and LU 5 writable, and hides LU 7 (which is read-only for all).
fn partial() -> Access {
    Access {
        rules: Some(vec![Rule {
            initiator_name: Some(INITIATOR.into()),
            lus: Some(vec![
                LuAccess {
                    lun: 0,
                    read_only: true,
                },
                LuAccess {
                    lun: 5,
                    read_only: false,
                },
            ]),
            ..Rule::default()
        }]),
        ..Access::default()
    }
}

#[test]
fn an_lu_that_the_list_hides_does_not_exist_for_the_initiator() {
    let mut pair = pair_with(partial());
    let mut initiator = pair.log_in(&[]);
    let luns = Cdb::ReportLuns {
        select_report: 0,
        allocation_length: 256,
    };
    let listed = initiator.run_cdb(&mut pair, 5, luns, 256).good();
    assert_eq!(listed[..4], 16u32.to_be_bytes());
    assert_eq!((listed[9], listed[17]), (0, 5));
    let inquiry = Cdb::Inquiry {
        page: None,
        allocation_length: 36,
    };
    for (lun, qualifier) in [(5, 0), (7, 0x7f), (9, 0x7f)] {
        let data = initiator.run_cdb(&mut pair, lun, inquiry, 36).good();
        assert_eq!(
            data[0], qualifier,
            "LUN {lun}: hidden and absent answer alike"
        );
    }
    let hidden = initiator.run_cdb(&mut pair, 7, Cdb::TestUnitReady, 0);
    let absent = initiator.run_cdb(&mut pair, 9, Cdb::TestUnitReady, 0);
    assert_eq!(hidden, absent);
    assert_eq!(hidden.sense(), Sense::LOGICAL_UNIT_NOT_SUPPORTED);
}

#[test]
fn resets_of_lus_without_write_access_are_refused() {
    let mut pair = pair_with(partial());
    let mut initiator = pair.log_in(&[]);
    use TaskManagementFunction as Function;
    for (function, lun, expected) in [
        (
            Function::LogicalUnitReset,
            7,
            TaskManagementResult::NoSuchLun,
        ),
        (Function::ClearTaskSet, 7, TaskManagementResult::NoSuchLun),
        (Function::AbortTaskSet, 7, TaskManagementResult::NoSuchLun),
        (
            Function::TargetWarmReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::TargetColdReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::LogicalUnitReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::ClearTaskSet,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::LogicalUnitReset,
            5,
            TaskManagementResult::Complete,
        ),
    ] {
        initiator.itt += 1;
        let mut header = [0; 48];
        TaskManagementRequest {
            immediate: true,
            function,
            lun: Lun::new(lun),
            itt: Itt(initiator.itt),
            referenced_task_tag: Itt::RESERVED,
            cmd_sn: CmdSn(initiator.cmd_sn + 1),
            exp_stat_sn: initiator.exp_stat_sn,
            ref_cmd_sn: CmdSn(0),
            exp_data_sn: 0,
        }
        .emit(&mut header);
        initiator.send(&mut pair, &header, &[]);
        let pdu = initiator.receive_one(&mut pair);
        assert_eq!(pdu.opcode(), Opcode::TaskManagementResponse);
        let response = TaskManagementResponse::parse(&pdu.bhs).unwrap();
        assert_eq!(response.result, expected, "{function:?} of LUN {lun}");
    }
}

#[test]
fn an_lu_shown_read_only_is_write_protected_only_for_that_initiator() {
    let mut pair = pair_with(Access {
        rules: Some(vec![
            partial().rules.unwrap().remove(0),
            Rule {
                initiator_name: Some("iqn.2026-01.net.example:vm2".into()),
                ..Rule::default()
            },
        ]),
        ..Access::default()
    });
    let mut restricted = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:vm2", 2, &[]);
    let write = Cdb::Write(Transfer {
        lba: 0,
        blocks: 1,
        ..Transfer::default()
    });
    for (initiator, allowed) in [(&mut restricted, false), (&mut other, true)] {
        let command = initiator.command(0, &write.emit(), false, true, 512);
        initiator.send_command(&mut pair, &command, &[7; 512]);
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(answer.status == 0, allowed);
        if !allowed {
            assert_eq!(answer.sense(), Sense::WRITE_PROTECTED);
            assert_eq!(answer.sense().key, SenseKey::DataProtect);
            assert_eq!(pair.lus[&0][0], 0);
        }
    }
    assert_eq!(pair.lus[&0][..512], [7; 512]);
}

/// No command, present or future, makes the target request an access that the list does not allow.
#[test]
fn no_command_reaches_storage_beyond_the_list() {
    let mut pair = pair_with(partial());
    pair.stalled = true;
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "Yes")]);
    let (mut tried, mut reads) = (0, 0);
    for opcode in 0..=0xff_u8 {
        for byte_1 in 0..=0x1f_u8 {
            for lun in [0, 7] {
                // Each command addresses one block at LBA 0 or has a parameter list of 24 bytes.
                // Half of the commands send data.
                let mut cdb = [0; 16];
                (cdb[0], cdb[1]) = (opcode, byte_1);
                (cdb[4], cdb[8], cdb[9], cdb[13]) = (1, 24 * u8::from(opcode == 0x42), 1, 1);
                if opcode == 0xa8 || opcode == 0xaa {
                    cdb[13] = 0;
                }
                for write in [false, true] {
                    let command = initiator.command(lun, &cdb, !write, write, 512);
                    initiator.send_command(
                        &mut pair,
                        &command,
                        if write { &[0; 512] } else { &[] },
                    );
                    tried += 1;
                    for io in std::mem::take(&mut pair.held) {
                        assert_eq!(io.lun, 0, "{cdb:02x?} reached an LU that is not shown");
                        let harmless =
                            matches!(io.op, IoOp::Read { .. } | IoOp::Flush | IoOp::Status { .. });
                        assert!(
                            harmless,
                            "{cdb:02x?} would change a read-only LU: {:?}",
                            io.op
                        );
                        reads += 1;
                        let failed = IoResult::Failed(IoFailure::Internal);
                        pair.target.handle_io_done(pair.time, io.id, failed);
                    }
                    // An unanswered command would close the command window.
                    pair.target.handle_closed(pair.time, initiator.connection);
                    initiator = pair.log_in(&[]);
                }
            }
        }
    }
    assert!(reads > 0, "no command reached the storage");
    println!("S-10: {tried} commands tried, {reads} accesses, none beyond the list");
}

/// Returns the parameter list of an EXTENDED COPY (LID1) of 4 KiB between LUs that are named by
/// their NAA designators.
fn copy(from: &[u8], from_blocks: u16, to: &[u8]) -> Vec<u8> {
    let mut list = vec![0; 16 + 2 * 32 + 28];
    list[3] = 2 * 32;
    list[11] = 28;
    for (at, (naa, block_bytes)) in [(from, 4096 / from_blocks), (to, 0)]
        .into_iter()
        .enumerate()
    {
        let device = &mut list[16 + 32 * at..][..32];
        (device[0], device[4], device[5], device[7]) = (0xe4, 1, 3, 8);
        device[8..16].copy_from_slice(naa);
        device[30..32].copy_from_slice(&block_bytes.to_be_bytes());
    }
    let segment = &mut list[80..];
    (segment[0], segment[3], segment[7]) = (0x02, 0x18, 1);
    segment[10..12].copy_from_slice(&from_blocks.to_be_bytes());
    list
}

/// S-10.
#[test]
fn a_copy_cannot_use_an_lu_that_the_list_hides() {
    let mut pair = pair_with(Access {
        rules: Some(vec![
            partial().rules.unwrap().remove(0),
            Rule {
                initiator_name: Some("iqn.2026-01.net.example:vm2".into()),
                ..Rule::default()
            },
        ]),
        ..Access::default()
    });
    let mut restricted = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:vm2", 2, &[]);
    let page = Cdb::Inquiry {
        page: Some(0x83),
        allocation_length: 255,
    };
    let naa = [0, 5, 7].map(|lun| other.run_cdb(&mut pair, lun, page, 255).good()[8..16].to_vec());
    let [read_only, own, hidden] = &naa;
    for (lun, seed) in [(0, 1), (5, 2), (7, 3)] {
        let data = pattern(LU_BYTES, seed);
        pair.lus.insert(lun, data);
    }
    let before = pair.lus.clone();
    let outcome = |initiator: &mut Initiator, list: &[u8], pair: &mut Pair| {
        let cdb = [
            &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[list.len() as u8, 0, 0],
        ]
        .concat();
        let command = initiator.command(5, &cdb, false, true, list.len() as u32);
        initiator.send_command(pair, &command, list);
        Answer::of(initiator.receive(pair), command.itt)
    };
    for (case, list) in [
        ("from an LU that is not shown", copy(hidden, 8, own)),
        ("to an LU that is not shown", copy(own, 1, hidden)),
        ("to an LU shown read-only", copy(own, 1, read_only)),
    ] {
        let answer = outcome(&mut restricted, &list, &mut pair);
        assert_eq!(answer.status, 2, "{case}: {answer:?}");
        assert_eq!(pair.lus, before, "{case}");
    }
    // The parameter lists are valid: an initiator that sees all LUs may use them, and the
    // restricted one may copy between LUs that it sees.
    outcome(&mut other, &copy(hidden, 8, own), &mut pair).good();
    assert_eq!(pair.lus[&5][..4096], before[&7][..4096]);
    outcome(&mut restricted, &copy(read_only, 8, own), &mut pair).good();
    assert_eq!(pair.lus[&5][..4096], before[&0][..4096]);
}
