//! Consistency of the table of commands.

use hakaru_tape::{Generation, LibraryConfig, Ratio};
use hakaru_wire::scsi::CdbError;

use super::set::sort_key;
use super::*;
use crate::config::{LuDescription, TapeLibrary, Thin};
use crate::nexus::{Nexus, NexusState};
use crate::rights::Rights;

const ALL: [&CommandSet; 3] = [&DISK, &TAPE, &CHANGER];

fn known(opcode: u8, action: u8) -> bool {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[opcode, action]);
    !matches!(
        Cdb::parse(&cdb),
        Err(CdbError::UnsupportedOpcode(_)) | Err(CdbError::InvalidField { byte: 1, .. })
    )
}

#[test]
fn every_parsed_command_has_a_row_and_every_row_is_parsed() {
    for opcode in 0..=u8::MAX {
        let rows: Vec<_> = DISK_TABLE
            .iter()
            .filter(|row| row.opcode() == opcode)
            .collect();
        if rows.is_empty() {
            let parsed = (0..32).any(|action| known(opcode, action));
            assert!(!parsed, "{opcode:#04x} is parsed but has no row");
        }
        for row in &rows {
            let action = row.service_action.unwrap_or(0) as u8;
            assert!(known(opcode, action), "{opcode:#04x} {action:#04x}");
            assert_eq!(
                row.service_action.is_some(),
                rows[0].service_action.is_some()
            );
            if row.service_action.is_some() {
                assert_eq!(row.usage[1] & 0x1f, action & row.usage[1], "{opcode:#04x}");
            }
        }
    }
}

#[test]
fn the_table_ascends_and_its_usage_data_is_as_long_as_the_cdb() {
    for pair in ALL.iter().flat_map(|commands| commands.table.windows(2)) {
        assert!(
            sort_key(pair[0]) < sort_key(pair[1]),
            "{:#04x}",
            pair[1].opcode()
        );
    }
    for row in ALL.iter().flat_map(|commands| commands.table) {
        let length = [6, 10, 10, 0, 16, 12, 0, 10][usize::from(row.opcode() >> 5)];
        assert_eq!(row.usage.len(), length, "{:#04x}", row.opcode());
    }
}

/// Executes a CDB of zeros with this operation code and service action on an LU that supports every
/// command.
fn outcome(row: &CommandInfo) -> (Outcome, CdbParsed) {
    let mut server = DeviceServer::new(
        "iqn.2026-01.net.example:t",
        &[LuDescription {
            thin: Some(Thin { page_bytes: 4096 }),
            removable: true,
            sanitize: true,
            atomic_bytes: 4096,
            explicit_access: true,
            ..LuDescription::new(0, 1 << 20)
        }],
        TargetPorts::new(1, &[]),
        1 << 20,
    );
    let port = 1;
    let nexus = Nexus {
        port,
        ..Nexus::default()
    };
    let mut nexus = NexusState::new(nexus, Rights::ALL);
    let mut cdb = [0; 16];
    cdb[0] = row.opcode();
    cdb[1] = row.service_action.unwrap_or(0) as u8;
    let any = Directions {
        read: false,
        write: false,
    };
    let parsed = Cdb::parse(&cdb).is_ok();
    (
        server.execute(&mut nexus, Lun::new(0), &cdb, any),
        CdbParsed(parsed),
    )
}

struct CdbParsed(bool);

#[test]
fn every_row_is_executed_by_its_family_and_moves_data_only_in_its_direction() {
    let mut executed = 0;
    for row in DISK_TABLE {
        let (outcome, CdbParsed(parsed)) = outcome(row);
        executed += usize::from(parsed);
        let fits = match outcome {
            Outcome::Read { .. } | Outcome::Data => row.direction == Direction::In,
            Outcome::Write { .. } | Outcome::Parameters { .. } => row.direction == Direction::Out,
            Outcome::Program(job) => job.data_out_bytes == 0 || row.direction == Direction::Out,
            Outcome::Operation { .. } | Outcome::Flush { .. } => row.direction == Direction::None,
            Outcome::End(_) | Outcome::Keep => true,
        };
        assert!(fits, "{:#04x} {:?}", row.opcode(), row.service_action);
    }
    assert!(executed > DISK_TABLE.len() / 2, "{executed}");
}

#[test]
fn every_row_of_a_tape_library_is_executed_by_its_family() {
    let library = TapeLibrary {
        library: LibraryConfig {
            timed: false,
            drives: vec![Generation::Lto5],
            slots: 1,
            import_export: 1,
            cartridges: Vec::new(),
            capacity_bytes: 1 << 20,
            early_warning_bytes: 0,
            ratio: Ratio::ONE,
        },
        drive_luns: vec![1],
    };
    // Explicit access makes every row available.
    let units = [
        LuDescription::changer(0, library),
        LuDescription::tape_drive(1),
    ]
    .map(|lu| LuDescription {
        explicit_access: true,
        ..lu
    });
    let mut server = DeviceServer::new(
        "iqn.2026-01.net.example:t",
        &units,
        TargetPorts::new(1, &[]),
        1 << 20,
    );
    let any = Directions {
        read: false,
        write: false,
    };
    for (lun, commands) in [(0, &CHANGER), (1, &TAPE)] {
        for row in commands.table {
            let port = 1;
            let nexus = Nexus {
                port,
                ..Nexus::default()
            };
            let mut nexus = NexusState::new(nexus, Rights::ALL);
            let mut cdb = [0; 16];
            cdb[0] = row.opcode();
            cdb[1] = row.service_action.unwrap_or(0) as u8;
            let outcome = server.execute(&mut nexus, Lun::new(lun), &cdb, any);
            let unknown = Outcome::check(Sense::INVALID_COMMAND_OPERATION_CODE);
            assert_ne!(
                format!("{outcome:?}"),
                format!("{unknown:?}"),
                "{:#04x} of LUN {lun}",
                row.opcode()
            );
        }
    }
}
