//! Functions that a drive does not have: other medium types, WORM and encryption.

use super::*;
use hakaru_wire::scsi::FieldPointer;

fn in_list(byte: u16) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte,
        bit: None,
    })
}

#[test]
fn mode_select_takes_the_medium_type_that_mode_sense_reports() {
    let mut scene = Scene::new(&[]);
    let reported = scene.run_in(&[0x1a, 0, 0, 0, 12, 0]).good()[1];
    assert_eq!(reported, 0);
    assert_eq!(
        scene.run_in(&[0x5a, 0, 0, 0, 0, 0, 0, 0, 16, 0]).good()[2],
        0
    );
    let six = |medium_type| [0, medium_type, 0x10, 8, 0, 0, 0, 0, 0, 0, 2, 0];
    let ten = |medium_type| [0, 0, medium_type, 0x10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0];
    let (select_6, select_10) = (
        [0x15, 0x10, 0, 0, 12, 0],
        [0x55, 0x10, 0, 0, 0, 0, 0, 0, 16, 0],
    );
    // 01h is a WORM medium. A list that is refused changes nothing.
    for other in [0x01, 0x18, 0x80, 0xff] {
        let refused = scene.run_list(&select_6, &six(other));
        assert_eq!(refused.sense, Some(in_list(1)));
        let refused = scene.run_list(&select_10, &ten(other));
        assert_eq!(refused.sense, Some(in_list(2)));
        let mode = scene.run_in(&[0x1a, 0, 0, 0, 12, 0]).good();
        assert_eq!(mode[9..12], [0; 3]);
    }
    scene.run_list(&select_6, &six(reported)).good();
    scene.run_list(&select_10, &ten(reported)).good();
    let mode = scene.run_in(&[0x1a, 0, 0, 0, 12, 0]).good();
    assert_eq!(mode[9..12], [0, 2, 0]);
}

#[test]
fn worm_is_refused() {
    let mut scene = Scene::new(&[]);
    // The medium configuration page, whose WORMM says that the medium is WORM.
    let page = FieldPointer {
        in_cdb: true,
        byte: 2,
        bit: Some(5),
    };
    let refused = scene.run_in(&[0x1a, 0x08, 0x1d, 0, 255, 0]);
    let sense = Sense::INVALID_FIELD_IN_CDB.with_field(page);
    assert_eq!(refused.sense, Some(sense));
    let mut list = vec![0, 0, 0x10, 0, 0x1d, 0x1e, 0x01];
    list.resize(4 + 32, 0);
    let refused = scene.run_list(&[0x15, 0x10, 0, 0, 36, 0], &list);
    assert_eq!(refused.sense, Some(in_list(4)));
    // The sequential-access device capabilities, whose WORM bit says that the drive can.
    let pages = scene.run_in(&[0x12, 1, 0x00, 0, 255, 0]).good();
    if pages[4..].contains(&0xb0) {
        let capabilities = scene.run_in(&[0x12, 1, 0xb0, 0, 255, 0]).good();
        assert_eq!(capabilities[4] & 0x01, 0);
    } else {
        let refused = scene.run_in(&[0x12, 1, 0xb0, 0, 255, 0]);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
    // A cartridge that was written is written again from its beginning.
    scene.write(false, 4, b"once").good();
    scene.rewind();
    scene.write(false, 5, b"again").good();
    scene.rewind();
    assert_eq!(scene.read(false, 5, 5).good(), b"again");
}

#[test]
fn encryption_is_refused() {
    let mut scene = Scene::new(&[]);
    let report = Cdb::ReportSupportedOpcodes {
        commands: ReportedCommands::All,
        timeouts: false,
        allocation_length: 65_536,
    };
    let data = scene.run(DRIVES[0], report, 65_536).good();
    let codes: Vec<u8> = parse_all_commands(&data).iter().map(|row| row.0).collect();
    assert!(codes.contains(&0x15) && !codes.contains(&0xa2) && !codes.contains(&0xb5));
    // SECURITY PROTOCOL IN: the list of protocols, and the pages of tape data encryption (20h).
    for (protocol, page) in [(0x00, 0x00), (0x20, 0x00), (0x20, 0x10), (0x20, 0x20)] {
        let refused = scene.run_in(&[0xa2, protocol, 0, page, 0, 0, 0, 0, 0, 255, 0, 0]);
        assert_eq!(refused.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
    }
    // SECURITY PROTOCOL OUT: set data encryption, with a key of 32 bytes.
    let mut list = vec![0, 0x10, 0, 48, 0x40, 0, 2, 2, 1];
    list.resize(52, 0xa5);
    let refused = scene.run_list(&[0xb5, 0x20, 0, 0x10, 0, 0, 0, 0, 0, 52, 0, 0], &list);
    assert_eq!(refused.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
    // The drive continues, without encryption.
    scene.write(false, 5, b"plain").good();
    scene.rewind();
    assert_eq!(scene.read(false, 5, 5).good(), b"plain");
}
