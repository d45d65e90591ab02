//! Commands that move cartridges, and the reasons for which they are refused.

use hakaru_wire::scsi::FieldPointer;

use super::library::{elements, status};
use super::*;

const MOVE: u8 = 0xa5;
const EXCHANGE: u8 = 0xa6;

/// Returns sense data that point to a byte of the CDB.
fn at(byte: u16, sense: Sense) -> Option<Sense> {
    Some(sense.with_field(FieldPointer {
        in_cdb: true,
        byte,
        bit: None,
    }))
}

impl Scene {
    /// Runs a command of the changer, given as its bytes.
    fn bytes(&mut self, cdb: &[u8]) -> Answer {
        self.initiator.run(&mut self.pair, CHANGER, cdb, 0)
    }

    /// Moves or exchanges cartridges, with the three addresses of EXCHANGE MEDIUM.
    fn request(&mut self, opcode: u8, [source, first, second]: [u16; 3]) -> Answer {
        match opcode {
            MOVE => self.move_medium(source, first),
            _ => self.exchange(source, first, second),
        }
    }

    fn open_close(&mut self, address: u16, open: bool) -> Answer {
        self.change(ChangerCommand::OpenCloseImportExport { address, open }, 0)
    }

    fn prevent(&mut self, lun: u8, prevent: u8) {
        self.run(lun, Cdb::PreventAllowMediumRemoval { prevent }, 0)
            .good();
    }

    /// Returns address, source and barcode of each cartridge.
    fn cartridges(&mut self) -> Vec<(u16, Option<u16>, String)> {
        let data = self.change(status(0, u16::MAX, 0, false), 4096).good();
        let full = elements(&data)
            .into_iter()
            .filter(|element| element.1 & 1 != 0);
        full.map(|(address, _, source, barcode)| (address, source, barcode))
            .collect()
    }
}

#[test]
fn an_exchange_moves_both_cartridges_with_their_data_and_their_slots() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 5, b"first").good();
    scene.exchange(DRIVE + 1, DRIVE, DRIVE + 1).good();
    let barcodes = ["HAK001L5", "HAK002L5"].map(str::to_owned);
    let [first, second] = barcodes;
    let expected = [
        (DRIVE, Some(SLOT + 1), second.clone()),
        (DRIVE + 1, Some(SLOT), first.clone()),
    ];
    assert_eq!(scene.cartridges(), expected);
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    let empty = scene.read(false, 5, 5);
    assert_eq!(empty.sense(), Sense::END_OF_DATA_DETECTED);
    // The cartridge of the drive goes to a slot, and the other one into the drive.
    scene.exchange(DRIVE + 1, DRIVE, SLOT + 2).good();
    let expected = [
        (DRIVE, Some(SLOT), first.clone()),
        (SLOT + 2, Some(SLOT + 1), second.clone()),
    ];
    assert_eq!(scene.cartridges(), expected);
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(scene.position(), 0);
    assert_eq!(scene.read(false, 5, 5).good(), b"first");
    // A cartridge remembers the last slot that it was in.
    scene.exchange(SLOT + 2, DRIVE, SLOT + 2).good();
    scene.exchange(SLOT + 2, DRIVE, SLOT + 2).good();
    let expected = [
        (DRIVE, Some(SLOT + 2), first),
        (SLOT + 2, Some(SLOT + 2), second),
    ];
    assert_eq!(scene.cartridges(), expected);
}

#[test]
fn every_initiator_learns_of_each_drive_that_has_another_cartridge() {
    let mut scene = Scene::new(&[]);
    let mut other = scene.log_in(2);
    scene.exchange(DRIVE, DRIVE + 1, DRIVE).good();
    for lun in DRIVES {
        for _ in 0..2 {
            core::mem::swap(&mut scene.initiator, &mut other);
            let attention = scene.run(lun, Cdb::TestUnitReady, 0);
            assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
            scene.run(lun, Cdb::TestUnitReady, 0).good();
        }
    }
    // A drive that only loses its cartridge has no condition, and is not ready.
    scene.exchange(DRIVE, DRIVE + 1, SLOT).good();
    let empty = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(empty.sense(), Sense::MEDIUM_NOT_PRESENT);
    let attention = scene.run(DRIVES[1], Cdb::TestUnitReady, 0);
    assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
    assert!(scene.run(CHANGER, Cdb::TestUnitReady, 0).sense.is_none());
}

#[test]
fn a_refusal_points_to_the_address_at_fault_and_moves_nothing() {
    let mut scene = Scene::new(&[]);
    scene.move_medium(DRIVE + 1, SLOT + 1).good();
    let before = scene.cartridges();
    let (empty, none) = (SLOT + 2, 0x0200);
    let (full, nothing, invalid) = (
        Sense::MEDIUM_DESTINATION_ELEMENT_FULL,
        Sense::MEDIUM_SOURCE_ELEMENT_EMPTY,
        Sense::INVALID_ELEMENT_ADDRESS,
    );
    for (opcode, addresses, byte, sense) in [
        (MOVE, [empty, DRIVE + 1, 0], 4, nothing),
        (MOVE, [SLOT + 1, DRIVE, 0], 6, full),
        (MOVE, [none, DRIVE + 1, 0], 4, invalid),
        (MOVE, [DRIVE, none, 0], 6, invalid),
        (MOVE, [1, DRIVE + 1, 0], 4, invalid),
        (MOVE, [DRIVE, 1, 0], 6, invalid),
        (EXCHANGE, [empty, DRIVE, empty], 4, nothing),
        (EXCHANGE, [DRIVE, empty, DRIVE], 6, nothing),
        (EXCHANGE, [DRIVE, DRIVE, empty], 4, nothing),
        (EXCHANGE, [SLOT + 1, DRIVE, DRIVE], 8, full),
        (EXCHANGE, [none, DRIVE, empty], 4, invalid),
        (EXCHANGE, [SLOT + 1, none, empty], 6, invalid),
        (EXCHANGE, [SLOT + 1, DRIVE, none], 8, invalid),
        (EXCHANGE, [SLOT + 1, DRIVE, 1], 8, invalid),
    ] {
        let refused = scene.request(opcode, addresses);
        let request = (opcode, addresses);
        assert_eq!(refused.sense, at(byte, sense), "{request:04x?}");
    }
    // A second destination that is full and not the source.
    scene.move_medium(SLOT + 1, DRIVE + 1).good();
    scene.move_medium(DRIVE + 1, IMPORT_EXPORT).good();
    let refused = scene.exchange(DRIVE, IMPORT_EXPORT, IMPORT_EXPORT);
    assert_eq!(refused.sense, at(8, full));
    scene.move_medium(IMPORT_EXPORT, SLOT + 1).good();
    assert_eq!(scene.cartridges(), before);
    // Another transport than the only one, and a medium to be turned over.
    for opcode in [MOVE, EXCHANGE] {
        let refused = scene.bytes(&[opcode, 0, 0, 2, 1, 0, 4, 1, 1, 0, 0, 0]);
        assert_eq!(refused.sense, at(2, invalid));
        let refused = scene.bytes(&[opcode, 0, 0, 1, 1, 0, 4, 1, 1, 0, 1, 0]);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn a_drive_that_moves_data_keeps_its_cartridge() {
    let mut scene = Scene::new(&[]);
    scene.pair.stalled = true;
    let length = 5;
    let cdb = Cdb::Stream(StreamCommand::Write {
        fixed: false,
        length,
    });
    let (initiator, data) = (&mut scene.initiator, b"data!");
    let write = initiator.begin_out(&mut scene.pair, DRIVES[0], &cdb.emit()[..6], data);
    for (opcode, addresses) in [
        (MOVE, [DRIVE, SLOT, 0]),
        (EXCHANGE, [DRIVE, DRIVE + 1, DRIVE]),
        (EXCHANGE, [DRIVE + 1, DRIVE, DRIVE + 1]),
    ] {
        let refused = scene.request(opcode, addresses);
        assert_eq!(refused.status, Status::BUSY.0, "{opcode:#04x}");
    }
    scene.pair.stalled = false;
    scene.pair.release();
    Answer::of(scene.initiator.receive(&mut scene.pair), write.itt).good();
    scene.exchange(DRIVE, DRIVE + 1, DRIVE).good();
}

#[test]
fn removal_that_an_initiator_prevents_is_refused() {
    let mut scene = Scene::new(&[]);
    let before = scene.cartridges();
    scene.prevent(DRIVES[1], 1);
    for (opcode, addresses) in [
        (MOVE, [DRIVE + 1, SLOT, 0]),
        (EXCHANGE, [DRIVE + 1, DRIVE, SLOT]),
        (EXCHANGE, [DRIVE, DRIVE + 1, SLOT]),
    ] {
        let refused = scene.request(opcode, addresses);
        assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    scene.open_close(IMPORT_EXPORT, true).good();
    scene.open_close(IMPORT_EXPORT, false).good();
    scene.prevent(DRIVES[1], 0);
    // The changer prevents all moves, and that a slot is opened.
    scene.prevent(CHANGER, 1);
    for opcode in [MOVE, EXCHANGE] {
        let refused = scene.request(opcode, [DRIVE, DRIVE + 1, SLOT]);
        assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    let refused = scene.open_close(IMPORT_EXPORT, true);
    assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    assert_eq!(scene.cartridges(), before);
    scene.prevent(CHANGER, 0);
    scene.exchange(DRIVE, DRIVE + 1, SLOT).good();
}

#[test]
fn an_open_import_and_export_slot_is_out_of_reach() {
    let mut scene = Scene::new(&[]);
    let mut other = scene.log_in(2);
    let access = |scene: &mut Scene| {
        let data = scene
            .change(status(IMPORT_EXPORT, 1, 3, false), 4096)
            .good();
        elements(&data)[0].1
    };
    // EXENAB, INENAB and ACCESS; when it is open, without ACCESS.
    assert_eq!(access(&mut scene), 0x38);
    scene.open_close(IMPORT_EXPORT, true).good();
    scene.open_close(IMPORT_EXPORT, true).good();
    assert_eq!(access(&mut scene), 0x30);
    for (opcode, addresses) in [
        (MOVE, [DRIVE, IMPORT_EXPORT, 0]),
        (MOVE, [IMPORT_EXPORT, SLOT, 0]),
        (EXCHANGE, [DRIVE, DRIVE + 1, IMPORT_EXPORT]),
    ] {
        let refused = scene.request(opcode, addresses);
        assert_eq!(refused.sense(), Sense::A_DOOR_IS_OPEN);
    }
    scene.open_close(IMPORT_EXPORT, false).good();
    assert_eq!(access(&mut scene), 0x38);
    // The others learn that it was open, once.
    let attention = other.run_cdb(&mut scene.pair, CHANGER, Cdb::TestUnitReady, 0);
    assert_eq!(attention.sense(), Sense::IMPORT_OR_EXPORT_ELEMENT_ACCESSED);
    scene.open_close(IMPORT_EXPORT, false).good();
    other
        .run_cdb(&mut scene.pair, CHANGER, Cdb::TestUnitReady, 0)
        .good();
    scene.move_medium(DRIVE, IMPORT_EXPORT).good();
    // Only import and export slots can be opened, and there is no third action.
    for address in [SLOT, DRIVE, 1, IMPORT_EXPORT + 1] {
        let refused = scene.open_close(address, true);
        assert_eq!(refused.sense, at(2, Sense::INVALID_ELEMENT_ADDRESS));
    }
    let refused = scene.bytes(&[0x1b, 0, 3, 0, 2, 0]);
    assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
}

#[test]
fn status_is_initialized_and_the_transport_positioned_where_elements_are() {
    let mut scene = Scene::new(&[]);
    let before = scene.cartridges();
    scene.bytes(&[0x07, 0, 0, 0, 0, 0]).good();
    let invalid = Sense::INVALID_ELEMENT_ADDRESS;
    for opcode in [0x37, 0xe7] {
        let range = |start: u16, count: u8| {
            let [high, low] = start.to_be_bytes();
            [opcode, 1, high, low, 0, 0, 0, count, 0, 0]
        };
        for start in [SLOT, DRIVE, IMPORT_EXPORT, 1] {
            scene.bytes(&range(start, 1)).good();
            // To the last element, and further.
            scene.bytes(&range(start, 0)).good();
            scene.bytes(&range(start, 255)).good();
        }
        for start in [0, SLOT + 3, DRIVE + 2] {
            let refused = scene.bytes(&range(start, 1));
            assert_eq!(refused.sense, at(2, invalid));
        }
        // Without RANGE, the address is ignored.
        scene
            .bytes(&[opcode, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0])
            .good();
    }
    assert_eq!(scene.cartridges(), before);
    for destination in [SLOT + 2, DRIVE + 1, IMPORT_EXPORT] {
        for transport in [0, 1] {
            let command = ChangerCommand::PositionToElement {
                transport,
                destination,
            };
            scene.change(command, 0).good();
        }
    }
    for (transport, destination, byte) in [(2, SLOT, 2), (DRIVE, SLOT, 2), (1, SLOT + 3, 4)] {
        let command = ChangerCommand::PositionToElement {
            transport,
            destination,
        };
        assert_eq!(scene.change(command, 0).sense, at(byte, invalid));
    }
    let inverted = scene.bytes(&[0x2b, 0, 0, 1, 4, 0, 0, 0, 1, 0]);
    assert_eq!(inverted.sense(), Sense::INVALID_FIELD_IN_CDB);
}
