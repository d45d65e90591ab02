//! MODE SELECT and LOG SENSE of a changer, and its search for barcodes.

use hakaru_wire::scsi::{FieldPointer, VolumeTemplate, parse_elements};

use super::*;

impl Scene {
    fn changer(&mut self, cdb: &[u8]) -> Answer {
        self.initiator.run(&mut self.pair, CHANGER, cdb, 1024)
    }

    fn list(&mut self, cdb: &[u8], list: &[u8]) -> Answer {
        self.initiator.run_out(&mut self.pair, CHANGER, cdb, list)
    }

    /// Begins a search among elements of a type, from an address on.
    fn send_tag(&mut self, action: u8, element_type: u8, start: u16, text: &str) -> Answer {
        let list = VolumeTemplate {
            text: text.as_bytes().to_vec(),
            sequence_min: 0,
            sequence_max: u16::MAX,
        };
        self.send_template(action, element_type, start, &list.emit())
    }

    fn send_template(&mut self, action: u8, element_type: u8, start: u16, list: &[u8]) -> Answer {
        let cdb = Cdb::Changer(ChangerCommand::SendVolumeTag {
            action,
            element_type,
            start,
            parameter_list_length: list.len() as u16,
        });
        self.list(&cdb.emit()[..12], list)
    }

    fn request_addresses(&mut self, count: u16, allocation_length: u32) -> Answer {
        let command = ChangerCommand::RequestVolumeElementAddress {
            volume_tags: true,
            element_type: 0,
            start: 0,
            count,
            allocation_length,
        };
        self.change(command, allocation_length)
    }

    /// Returns address and barcode of the elements that the search reports next.
    fn found(&mut self, count: u16) -> Vec<(u16, String)> {
        let data = self.request_addresses(count, 4096).good();
        let elements = parse_elements(&data).unwrap();
        assert_eq!(usize::from(data[3]), elements.len());
        elements
            .into_iter()
            .map(|element| (element.address, element.barcode))
            .collect()
    }
}

fn in_list(byte: u16) -> Option<Sense> {
    Some(
        Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
            in_cdb: false,
            byte,
            bit: None,
        }),
    )
}

#[test]
fn mode_select_takes_the_current_values_alone() {
    let mut scene = Scene::new(&[]);
    let mut other = scene.log_in(2);
    for (ten, header) in [(false, 4), (true, 8)] {
        let sense: &[u8] = if ten {
            &[0x5a, 0x08, 0x3f, 0, 0, 0, 0, 0, 255, 0]
        } else {
            &[0x1a, 0x08, 0x3f, 0, 255, 0]
        };
        let select = |length: usize| {
            if ten {
                vec![0x55, 0x10, 0, 0, 0, 0, 0, 0, length as u8, 0]
            } else {
                vec![0x15, 0x10, 0, 0, length as u8, 0]
            }
        };
        let mut current = scene.changer(sense).good();
        // MODE DATA LENGTH is reserved in a list.
        current[..if ten { 2 } else { 1 }].fill(0);
        scene.list(&select(current.len()), &current).good();
        scene.list(&select(header), &current[..header]).good();
        scene.list(&select(0), &[]).good();
        // Every byte of every page, but the code and the length.
        for byte in (header + 2..header + 20).chain([header + 22]) {
            let mut changed = current.clone();
            changed[byte] ^= 1;
            let refused = scene.list(&select(changed.len()), &changed);
            assert_eq!(refused.sense, in_list(byte as u16));
        }
        let mut unknown = current.clone();
        unknown[header] = 0x0a;
        let refused = scene.list(&select(unknown.len()), &unknown);
        assert_eq!(refused.sense, in_list(header as u16));
        let cut = &current[..current.len() - 1];
        let refused = scene.list(&select(cut.len()), cut);
        assert_eq!(refused.sense(), Sense::PARAMETER_LIST_LENGTH_ERROR);
        // A changer has no block descriptor.
        let mut blocks = vec![0; header + 8];
        blocks[header - 1] = 8;
        let refused = scene.list(&select(blocks.len()), &blocks);
        assert_eq!(refused.sense, in_list(if ten { 6 } else { 3 }));
        // Pages are not saved, and have the format of the standard.
        for flags in [0x11, 0x00] {
            let mut cdb = select(header);
            cdb[1] = flags;
            let refused = scene.list(&cdb, &current[..header]);
            assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
        }
    }
    let changeable = scene.changer(&[0x1a, 0x08, 0x7f, 0, 255, 0]).good();
    let page = |at: usize, length: usize| &changeable[at..][..length];
    assert_eq!((page(4, 2), page(6, 18)), (&[0x1d, 18][..], &[0; 18][..]));
    assert_eq!((page(24, 2), page(26, 2)), (&[0x1e, 2][..], &[0; 2][..]));
    assert_eq!((page(28, 2), page(30, 18)), (&[0x1f, 18][..], &[0; 18][..]));
    other
        .run_cdb(&mut scene.pair, CHANGER, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn capabilities_say_that_cartridges_are_exchanged() {
    let mut scene = Scene::new(&[]);
    let page = scene.changer(&[0x1a, 0x08, 0x1f, 0, 255, 0]).good();
    // Kept in drives, import/export and slots; moved and exchanged between them.
    assert_eq!(page[6..10], [0x0e, 0, 0, 0x0e]);
    assert_eq!(page[10..14], [0x0e, 0x0e, 0, 0]);
    assert_eq!(page[14..20], [0, 0, 0, 0x0e, 0x0e, 0x0e]);
}

#[test]
fn log_pages_of_a_changer_are_tape_alert() {
    let mut scene = Scene::new(&[]);
    let log = |control: u8, page: u8, subpage: u8, pointer: u8| {
        let page = control << 6 | page;
        [0x4d, 0, page, subpage, 0, 0, pointer, 4, 0, 0]
    };
    assert_eq!(
        scene.changer(&log(1, 0, 0, 0)).good(),
        [0, 0, 0, 2, 0, 0x2e]
    );
    let subpages = scene.changer(&log(1, 0, 0xff, 0)).good();
    assert_eq!(subpages, [0x40, 0xff, 0, 6, 0, 0, 0, 0xff, 0x2e, 0]);
    let alerts = scene.changer(&log(1, 0x2e, 0, 0)).good();
    assert_eq!(
        (alerts.len(), &alerts[..4]),
        (4 + 64 * 5, &[0x2e, 0, 1, 64][..])
    );
    for (flag, parameter) in alerts[4..].chunks(5).enumerate() {
        assert_eq!(parameter, [0, flag as u8 + 1, 3, 1, 0]);
    }
    let last = scene.changer(&log(1, 0x2e, 0, 64)).good();
    assert_eq!(last[4..], [0, 64, 3, 1, 0]);
    for refused in [
        log(1, 0x2e, 0, 65),
        log(1, 0x2e, 0xff, 0),
        log(1, 0x31, 0, 0),
        log(2, 0x2e, 0, 0),
        log(3, 0x2e, 0, 0),
    ] {
        let refused = scene.changer(&refused);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn cartridges_are_found_by_their_barcodes() {
    let mut scene = Scene::new(&[]);
    let (first, second) = ("HAK001L5".to_owned(), "HAK002L5".to_owned());
    let early = scene.request_addresses(1, 255);
    assert_eq!(early.sense(), Sense::COMMAND_SEQUENCE_ERROR);
    scene.move_medium(DRIVE, SLOT + 2).good();
    // In parts, each element once.
    scene.send_tag(5, 0, 0, "HAK*").good();
    assert_eq!(scene.found(1), [(DRIVE + 1, second.clone())]);
    assert_eq!(scene.found(9), [(SLOT + 2, first.clone())]);
    let done = scene.request_addresses(9, 255).good();
    assert_eq!(done, [0, 0, 0, 0, 5, 0, 0, 0]);
    // An answer that is cut reports the elements whose descriptors are complete.
    scene.send_tag(4, 0, 0, "*").good();
    let cut = scene.request_addresses(9, 8 + 8 + 52 + 20).good();
    assert_eq!((cut.len(), cut[3], cut[7]), (88, 2, 2 * 60));
    assert_eq!(scene.found(9), [(SLOT + 2, first.clone())]);
    scene.send_tag(0, 0, 0, "*").good();
    scene.request_addresses(9, 8).good();
    assert_eq!(scene.found(9).len(), 2);
    // By type, from an address on, and by characters.
    for (element_type, start, text, expected) in [
        (4, 0, "*", vec![(DRIVE + 1, second.clone())]),
        (2, 0, "HAK00?L5", vec![(SLOT + 2, first.clone())]),
        (0, DRIVE + 2, "HAK*", vec![(SLOT + 2, first.clone())]),
        (0, 0, "HAK002L5", vec![(DRIVE + 1, second)]),
        (3, 0, "*", vec![]),
        (0, 0, "HAK002", vec![]),
    ] {
        scene.send_tag(5, element_type, start, text).good();
        assert_eq!(scene.found(9), expected, "{text}");
    }
    // There are no alternate tags, and the sequence numbers are 0.
    scene.send_tag(6, 0, 0, "*").good();
    assert!(scene.found(9).is_empty());
    let numbered = VolumeTemplate {
        text: b"*".to_vec(),
        sequence_min: 1,
        sequence_max: 9,
    };
    for (action, count) in [(1, 0), (5, 2)] {
        scene.send_template(action, 0, 0, &numbered.emit()).good();
        assert_eq!(scene.found(9).len(), count);
    }
}

#[test]
fn searches_belong_to_their_initiator_and_change_no_barcode() {
    let mut scene = Scene::new(&[]);
    scene.send_tag(5, 0, 0, "*").good();
    let mut other = scene.log_in(2);
    core::mem::swap(&mut scene.initiator, &mut other);
    let none = scene.request_addresses(9, 255);
    assert_eq!(none.sense(), Sense::COMMAND_SEQUENCE_ERROR);
    core::mem::swap(&mut scene.initiator, &mut other);
    // Assert, replace and undefine tags; and codes that are reserved.
    for action in [0x03, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x1f] {
        let refused = scene.send_tag(action, 0, 0, "*");
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
    let refused = scene.send_template(5, 0, 0, &[b'*'; 32]);
    assert_eq!(refused.sense(), Sense::PARAMETER_LIST_LENGTH_ERROR);
    let refused = scene.changer(&[0xb5, 0x05, 0, 0, 0, 9, 0, 0, 0, 255, 0, 0]);
    assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    // A search that is refused, or has no list, leaves the earlier one as it is.
    scene
        .list(&[0xb6, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0], &[])
        .good();
    assert_eq!(scene.found(9).len(), 2);
}
