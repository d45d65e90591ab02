//! The device server as a transport uses it: CDBs of two nexuses, and their outcomes.

use hakaru_scsi_device::{
    DeviceServer, Directions, LuDescription, Nexus, NexusState, Notice, Outcome, Rights,
    TapeLibrary, TargetPorts, Verdict, WRONG_DIRECTION,
};
use hakaru_tape::{Generation, LibraryConfig, Placed, Ratio};
use hakaru_wire::scsi::{Isid, Lun, Sense, Status};

const BLOCKS: u64 = 2048;
const READ: Directions = Directions {
    read: true,
    write: false,
};
const WRITE: Directions = Directions {
    read: false,
    write: true,
};
const NO_DATA: Directions = Directions {
    read: false,
    write: false,
};

fn server() -> DeviceServer {
    let mut read_only = LuDescription::new(7, BLOCKS * 512);
    read_only.read_only = true;
    let units = [LuDescription::new(0, BLOCKS * 512), read_only];
    DeviceServer::new(
        "iqn.2026-01.net.example:t",
        &units,
        TargetPorts::new(2, &[]),
        1 << 20,
    )
}

fn nexus(name: &str, rights: Rights) -> NexusState {
    let nexus = Nexus {
        initiator_name: name.to_owned(),
        isid: Isid::default(),
        port: 1,
    };
    NexusState::new(nexus, rights)
}

fn check(sense: Sense) -> Verdict {
    Verdict::Check(sense)
}

/// Returns the verdict of a command that ends at once.
fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::End(verdict) => verdict,
        outcome => panic!("not an end: {outcome:?}"),
    }
}

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const READ_10: [u8; 10] = [0x28, 0, 0, 0, 0, 8, 0, 0, 4, 0];
const WRITE_10: [u8; 10] = [0x2a, 0, 0, 0, 0, 8, 0, 0, 4, 0];

#[test]
fn read_and_write_become_ranges_of_bytes() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    assert!(matches!(
        server.execute(&mut a, Lun::new(0), &READ_10, READ),
        Outcome::Read {
            lu: 0,
            offset_bytes: 4096,
            length_bytes: 2048
        }
    ));
    assert!(matches!(
        server.execute(&mut a, Lun::new(0), &WRITE_10, WRITE),
        Outcome::Write {
            lu: 0,
            offset_bytes: 4096,
            length_bytes: 2048,
            fua: false
        }
    ));
}

#[test]
fn command_beyond_the_last_block_is_refused_with_its_address() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    let cdb = [0x28, 0, 0, 0, 0x07, 0xff, 0, 0, 2, 0];
    let Verdict::Check(sense) = verdict(server.execute(&mut a, Lun::new(0), &cdb, READ)) else {
        panic!("a read beyond the LU succeeded");
    };
    assert_eq!(sense.additional, Sense::LBA_OUT_OF_RANGE.additional);
}

#[test]
fn write_needs_a_writable_unit_and_a_nexus_that_may_write() {
    let mut server = server();
    let mut a = nexus("iqn.a", Rights::ALL);
    let protected = check(Sense::WRITE_PROTECTED);
    let outcome = server.execute(&mut a, Lun::new(7), &WRITE_10, WRITE);
    assert_eq!(verdict(outcome), protected);
    let mut rights = Rights::NONE;
    rights.allow(0, true);
    let mut reader = nexus("iqn.reader", rights);
    let outcome = server.execute(&mut reader, Lun::new(0), &WRITE_10, WRITE);
    assert_eq!(verdict(outcome), protected);
    let outcome = server.execute(&mut reader, Lun::new(0), &READ_10, READ);
    assert!(matches!(outcome, Outcome::Read { .. }));
}

#[test]
fn unit_that_a_nexus_may_not_see_answers_as_a_missing_unit() {
    let mut server = server();
    let mut blind = nexus("iqn.blind", Rights::NONE);
    for lun in [0, 9] {
        let outcome = server.execute(&mut blind, Lun::new(lun), &TEST_UNIT_READY, NO_DATA);
        assert_eq!(verdict(outcome), check(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    }
}

#[test]
fn unit_attention_is_reported_once_and_inquiry_passes_it() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    a.attend(0, Sense::CAPACITY_DATA_CHANGED);
    let inquiry = [0x12, 0, 0, 0, 96, 0];
    let outcome = server.execute(&mut a, Lun::new(0), &inquiry, READ);
    assert!(matches!(outcome, Outcome::Data));
    let good = Verdict::Status(Status::GOOD);
    for expected in [check(Sense::CAPACITY_DATA_CHANGED), good] {
        let outcome = server.execute(&mut a, Lun::new(0), &TEST_UNIT_READY, NO_DATA);
        assert_eq!(verdict(outcome), expected);
    }
}

#[test]
fn parameter_data_is_cut_to_the_allocation_length_and_replaced_by_the_next_command() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    for allocation_length in [96, 5, 36] {
        let inquiry = [0x12, 0, 0, 0, allocation_length, 0];
        server.execute(&mut a, Lun::new(0), &inquiry, READ);
        assert!(server.out.len() <= usize::from(allocation_length));
        assert!(!server.out.is_empty());
    }
    server.execute(&mut a, Lun::new(0), &TEST_UNIT_READY, NO_DATA);
    assert!(server.out.is_empty());
}

#[test]
fn command_whose_data_moves_the_other_way_is_refused() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    let outcome = server.execute(&mut a, Lun::new(0), &WRITE_10, READ);
    assert_eq!(verdict(outcome), check(WRONG_DIRECTION));
}

/// Executes PERSISTENT RESERVE OUT of type Write Exclusive with this service action and these keys.
fn reserve_out(
    server: &mut DeviceServer,
    nexus: &mut NexusState,
    action: u8,
    key: u64,
    new_key: u64,
) -> Outcome {
    let cdb = [0x5f, action, 1, 0, 0, 0, 0, 0, 24, 0];
    let outcome = server.execute(nexus, Lun::new(0), &cdb, WRITE);
    let Outcome::Parameters { length_bytes, .. } = outcome else {
        return outcome;
    };
    assert_eq!(length_bytes, 24);
    let mut list = [0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&new_key.to_be_bytes());
    server.execute_with_list(nexus, Lun::new(0), &cdb, &list)
}

#[test]
fn reservation_keeps_others_from_writing_and_preempt_and_abort_names_their_nexus() {
    let mut server = server();
    let (mut a, mut b) = (nexus("iqn.a", Rights::ALL), nexus("iqn.b", Rights::ALL));
    let good = Verdict::Status(Status::GOOD);
    for (nexus, key) in [(&mut a, 1), (&mut b, 2)] {
        let outcome = reserve_out(&mut server, nexus, 0, 0, key);
        assert_eq!(verdict(outcome), good);
    }
    assert_eq!(verdict(reserve_out(&mut server, &mut a, 1, 1, 0)), good);
    let outcome = server.execute(&mut b, Lun::new(0), &WRITE_10, WRITE);
    let conflict = Verdict::Status(Status::RESERVATION_CONFLICT);
    assert_eq!(verdict(outcome), conflict);
    let outcome = server.execute(&mut b, Lun::new(0), &READ_10, READ);
    assert!(matches!(outcome, Outcome::Read { .. }), "write exclusive");

    server.notices.clear();
    assert_eq!(verdict(reserve_out(&mut server, &mut b, 5, 2, 1)), good);
    let aborted = Notice::Abort {
        nexus: a.nexus.clone(),
        lu: 0,
    };
    assert!(server.notices.contains(&aborted), "{:?}", server.notices);
    let outcome = server.execute(&mut a, Lun::new(0), &WRITE_10, WRITE);
    assert_eq!(verdict(outcome), conflict);
}

#[test]
fn any_cdb_of_any_direction_ends_without_a_panic_and_within_the_unit() {
    let (mut server, mut a) = (server(), nexus("iqn.a", Rights::ALL));
    let mut random = 1_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut moved, mut refused) = (0, 0);
    for _ in 0..200_000 {
        let mut cdb = [0; 16];
        cdb[..8].copy_from_slice(&next().to_le_bytes());
        if next() % 2 == 0 {
            // A READ (10) or WRITE (10) of a few blocks, before or beyond the end of the LU.
            cdb[0] = if cdb[0] % 2 == 0 { 0x28 } else { 0x2a };
            (cdb[1], cdb[2], cdb[3], cdb[6], cdb[7], cdb[9]) = (0, 0, 0, 0, 0, 0);
            cdb[4] &= 0x0f;
        }
        // An earlier command may have stopped the LU.
        server.units.reset(0);
        let directions = [READ, WRITE, NO_DATA][(next() % 3) as usize];
        match server.execute(&mut a, Lun::new(0), &cdb, directions) {
            Outcome::Read {
                offset_bytes,
                length_bytes,
                ..
            }
            | Outcome::Write {
                offset_bytes,
                length_bytes,
                ..
            } => {
                assert!(offset_bytes + u64::from(length_bytes) <= BLOCKS * 512);
                moved += 1;
            }
            Outcome::End(Verdict::Check(_)) => refused += 1,
            _ => {}
        }
    }
    assert!(moved > 1000 && refused > 1000, "{moved} {refused}");
}

#[test]
fn nexus_that_may_not_see_a_drive_gets_no_attention_from_it() {
    let library = LibraryConfig {
        timed: false,
        drives: vec![Generation::Lto5],
        slots: 1,
        import_export: 0,
        cartridges: vec![Placed {
            barcode: "HAK001L5".to_owned(),
            slot: 1,
            write_protected: false,
            generation: None,
            recovered: None,
        }],
        capacity_bytes: 1 << 20,
        early_warning_bytes: 0,
        ratio: Ratio::ONE,
    };
    let drive_luns = vec![1];
    let units = [
        LuDescription::changer(
            0,
            TapeLibrary {
                library,
                drive_luns,
            },
        ),
        LuDescription::tape_drive(1),
    ];
    let mut server = DeviceServer::new(
        "iqn.2026-01.net.example:t",
        &units,
        TargetPorts::new(1, &[]),
        1 << 20,
    );
    let mut rights = Rights::NONE;
    rights.allow(0, false);
    let good = Verdict::Status(Status::GOOD);
    let (slot, drive) = ([4, 0], [1, 0]);
    for (rights, attends) in [(rights, false), (Rights::ALL, true)] {
        let mut a = nexus("iqn.a", rights);
        for (from, to) in [(slot, drive), (drive, slot)] {
            let cdb = [0xa5, 0, 0, 0, from[0], from[1], to[0], to[1], 0, 0, 0, 0];
            let outcome = server.execute(&mut a, Lun::new(0), &cdb, NO_DATA);
            assert_eq!(verdict(outcome), good);
        }
        assert_eq!(a.has_attentions(), attends);
    }
    let loaded = Notice::Others {
        lu: 1,
        sense: Sense::MEDIUM_MAY_HAVE_CHANGED,
    };
    assert!(server.notices.contains(&loaded));
}
