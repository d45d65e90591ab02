//! Elements, moves, identification, attributes and pages.

use std::collections::BTreeMap;

use super::*;

/// Returns (address, flags, source, barcode) of each element descriptor with a volume tag.
pub(super) fn elements(data: &[u8]) -> Vec<(u16, u8, Option<u16>, String)> {
    let u16_at = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    let mut elements = Vec::new();
    let mut at = 8;
    while at < data.len() {
        let length = usize::from(u16_at(at + 2));
        let bytes = u32::from_be_bytes([0, data[at + 5], data[at + 6], data[at + 7]]) as usize;
        at += 8;
        for descriptor in (at..at + bytes).step_by(length) {
            let source = (data[descriptor + 9] & 0x80 != 0).then(|| u16_at(descriptor + 10));
            let tag = &data[descriptor + 12..descriptor + 44];
            let tag = String::from_utf8_lossy(tag)
                .trim_matches(['\0', ' '])
                .to_owned();
            elements.push((u16_at(descriptor), data[descriptor + 2], source, tag));
        }
        at += bytes;
    }
    elements
}

pub(super) fn status(
    start: u16,
    count: u16,
    element_type: u8,
    device_identifiers: bool,
) -> ChangerCommand {
    ChangerCommand::ReadElementStatus {
        volume_tags: true,
        element_type,
        start,
        count,
        current_data: false,
        device_identifiers,
        allocation_length: 4096,
    }
}

#[test]
fn elements_are_reported_with_barcodes_and_sources() {
    let mut scene = Scene::new(&[]);
    scene.move_medium(DRIVE + 1, IMPORT_EXPORT).good();
    let data = scene.change(status(0, u16::MAX, 0, false), 4096).good();
    assert_eq!(data[..4], [0, 1, 0, 7]);
    let first = "HAK001L5".to_owned();
    let second = "HAK002L5".to_owned();
    let none = String::new();
    assert_eq!(
        elements(&data),
        [
            (1, 0, None, none.clone()),
            (DRIVE, 0x09, Some(SLOT), first.clone()),
            (DRIVE + 1, 0x08, None, none.clone()),
            (IMPORT_EXPORT, 0x39, Some(SLOT + 1), second),
            (SLOT, 0x08, None, none.clone()),
            (SLOT + 1, 0x08, None, none.clone()),
            (SLOT + 2, 0x08, None, none),
        ]
    );
    // The `ch` driver asks for one element and compares the address in bytes 16 and 17.
    let one = scene.change(status(DRIVE, 1, 4, false), 255).good();
    assert_eq!(one[16..18], DRIVE.to_be_bytes());
    assert_eq!(elements(&one), [(DRIVE, 0x09, Some(SLOT), first)]);
    // The identifier of a drive is that of its VPD page 83h.
    let identified = scene.change(status(DRIVE, 1, 4, true), 255).good();
    let vpd = Cdb::Inquiry {
        page: Some(0x83),
        allocation_length: 255,
    };
    let vpd = scene.run(DRIVES[0], vpd, 255).good();
    assert_eq!(vpd[0], 0x01);
    assert_eq!(identified[16 + 48..][4..12], vpd[8..16]);
}

#[test]
fn impossible_moves_are_refused_with_their_reason() {
    let mut scene = Scene::new(&[]);
    for (source, destination, sense) in [
        (SLOT, SLOT + 2, Sense::MEDIUM_SOURCE_ELEMENT_EMPTY),
        (DRIVE, DRIVE + 1, Sense::MEDIUM_DESTINATION_ELEMENT_FULL),
        (DRIVE, SLOT + 3, Sense::INVALID_ELEMENT_ADDRESS),
        (7, SLOT, Sense::INVALID_ELEMENT_ADDRESS),
    ] {
        assert_eq!(scene.move_medium(source, destination).sense(), sense);
    }
}

#[test]
fn devices_identify_themselves_and_report_their_commands() {
    let mut scene = Scene::new(&[]);
    for (lun, kind, product, commands) in [
        (
            CHANGER,
            0x08,
            "TAPE LIBRARY",
            &[
                0x15_u8, 0x1b, 0x37, 0x4d, 0x55, 0xa5, 0xa6, 0xb5, 0xb6, 0xb8, 0xe7,
            ][..],
        ),
        (DRIVES[0], 0x01, "TAPE LTO-5", &[0x08, 0x11, 0x34, 0x92]),
        (DRIVES[1], 0x01, "TAPE LTO-6", &[0x0a, 0x2b, 0x44]),
        (0, 0x00, "ARRAY LU", &[0x28, 0x2a]),
    ] {
        let inquiry = Cdb::Inquiry {
            page: None,
            allocation_length: 96,
        };
        let data = Inquiry::parse(&scene.run(lun, inquiry, 96).good()).unwrap();
        assert_eq!((data.device_type, data.product.as_str()), (kind, product));
        assert_eq!(data.removable, kind != 0);
        let report = Cdb::ReportSupportedOpcodes {
            commands: ReportedCommands::All,
            timeouts: false,
            allocation_length: 65_536,
        };
        scene.run(lun, Cdb::TestUnitReady, 0);
        let data = scene.run(lun, report, 65_536).good();
        let codes: Vec<u8> = parse_all_commands(&data).iter().map(|row| row.0).collect();
        assert!(
            commands.iter().all(|code| codes.contains(code)),
            "{codes:02x?}"
        );
        // READ CAPACITY and EXTENDED COPY are for disks.
        assert_eq!(codes.contains(&0x25), kind == 0);
        assert_eq!(codes.contains(&0x83), kind == 0);
    }
    let capacity = scene.run(CHANGER, Cdb::ReadCapacity10, 8);
    assert_eq!(capacity.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
}

#[test]
fn reservation_keeps_other_initiators_away_from_a_drive() {
    let mut scene = Scene::new(&[]);
    scene.run(DRIVES[0], Cdb::Reserve, 0).good();
    let mut other = scene.log_in(2);
    let rewind = Cdb::Stream(StreamCommand::Rewind { immediate: false });
    let pair = &mut scene.pair;
    let refused = other.run_cdb(pair, DRIVES[0], rewind, 0);
    assert_eq!(refused.status, Status::RESERVATION_CONFLICT.0);
    other.run_cdb(pair, DRIVES[1], rewind, 0).good();
    scene.run(DRIVES[0], Cdb::Release, 0).good();
    let pair = &mut scene.pair;
    other.run_cdb(pair, DRIVES[0], rewind, 0).good();
}

/// Returns identifier, format and value of each attribute.
pub fn attributes_of(data: &[u8]) -> Vec<(u16, u8, Vec<u8>)> {
    let available = u32::from_be_bytes([data[0], data[1], data[2], data[3]]);
    assert_eq!(available as usize, data.len() - 4);
    let (mut rest, mut attributes) = (&data[4..], Vec::new());
    while let [high, low, format, length_high, length_low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
        let identifier = u16::from_be_bytes([*high, *low]);
        attributes.push((identifier, *format, after[..length].to_vec()));
        rest = &after[length..];
    }
    assert!(rest.is_empty());
    attributes
}

#[test]
fn memory_of_a_cartridge_has_barcode_capacity_and_loads() {
    let mut scene = Scene::new(&[]);
    let read = |form, first, allocation_length| StreamCommand::ReadAttribute {
        form,
        partition: 0,
        first,
        allocation_length,
    };
    let values = read(AttributeForm::Values, 0, 4096);
    let data = scene.stream(values, 4096).good();
    let attributes = attributes_of(&data);
    let value = |identifier| {
        let found = attributes
            .iter()
            .find(|attribute| attribute.0 == identifier);
        found.map(|attribute| attribute.2.clone()).unwrap()
    };
    assert_eq!(value(0x0000), (CAPACITY >> 20).to_be_bytes());
    assert_eq!(value(0x0003), 1_u64.to_be_bytes());
    assert_eq!(value(0x0006), [0x58]);
    assert_eq!(value(0x0806), *b"HAK001L5                        ");
    // READ ONLY, unless programs may write the attribute.
    for (identifier, format, _) in &attributes {
        assert_eq!(
            format & 0x80 != 0,
            *identifier < 0x0800,
            "{identifier:#06x}"
        );
    }
    // With exactly the length of the answer, the last attribute is complete.
    let exact = read(AttributeForm::Values, 0x0806, 4 + 5 + 32);
    let last = attributes_of(&scene.stream(exact, 41).good());
    assert_eq!(last, attributes[attributes.len() - 1..]);
    let list = scene
        .stream(read(AttributeForm::List, 0x0400, 255), 255)
        .good();
    let identifiers = [4, 0, 4, 1, 4, 2, 4, 3, 4, 4, 4, 5, 4, 8, 8, 6];
    assert_eq!((list[3], &list[4..]), (16, &identifiers[..]));
    let partition = StreamCommand::ReadAttribute {
        form: AttributeForm::Values,
        partition: 1,
        first: 0,
        allocation_length: 255,
    };
    assert_eq!(
        scene.stream(partition, 255).sense(),
        Sense::INVALID_FIELD_IN_CDB
    );
}

#[test]
fn memory_of_a_cartridge_counts_its_use_and_names_its_drives() {
    let mut scene = Scene::loaded(with_capacity(with_library(false), 8 << 20), &[]);
    let names = DRIVES.map(|lun| {
        let cdb = [0x12, 1, 0x80, 0, 255, 0];
        let serial = scene.initiator.run(&mut scene.pair, lun, &cdb, 255).good();
        let name = [&b"HAKARU  "[..], &serial[4..]].concat();
        [&name[..], &vec![b' '; 40 - name.len()]].concat()
    });
    let memory = |scene: &mut Scene, lun| {
        let cdb = [0x8c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0];
        let data = scene.initiator.run(&mut scene.pair, lun, &cdb, 4096).good();
        let attributes = attributes_of(&data);
        assert!(attributes.is_sorted_by_key(|attribute| attribute.0));
        let values = attributes.into_iter();
        values
            .map(|(identifier, _, value)| (identifier, value))
            .collect::<BTreeMap<u16, Vec<u8>>>()
    };
    let mib = |mib: u64| mib.to_be_bytes().to_vec();
    let data = pattern(1_000_100, 5);
    for _ in 0..3 {
        scene.write(false, 1_000_100, &data).good();
    }
    scene.rewind();
    for _ in 0..2 {
        scene.read(false, 1_000_100, 1_000_100).good();
    }
    let prevent = |prevent| Cdb::PreventAllowMediumRemoval { prevent };
    scene.run(DRIVES[0], prevent(1), 0).good();
    scene.run_in(&[0x1b, 0, 0, 0, 0, 0]);
    scene.run(DRIVES[0], prevent(0), 0).good();
    let used = memory(&mut scene, DRIVES[0]);
    for (identifier, value) in [
        (0x0000, mib(5)),
        // TapeAlert flag 0Ah.
        (0x0002, vec![0, 0x40, 0, 0, 0, 0, 0, 0]),
        (0x0003, mib(1)),
        (0x0008, b"HAK001L5                        ".to_vec()),
        (0x020a, names[0].clone()),
        (0x0220, mib(2)),
        (0x0221, mib(1)),
        (0x0222, mib(2)),
        (0x0223, mib(1)),
        (0x0402, vec![0, 0, 0x03, 0x4e]),
        (0x0403, vec![0, 0, 0, 127]),
        (0x0404, b"LTO-CVE ".to_vec()),
        (0x0405, vec![0x58]),
    ] {
        assert_eq!(used[&identifier], value, "{identifier:04x}");
    }
    assert!(!used.contains_key(&0x020b));
    scene.move_medium(DRIVE + 1, SLOT + 2).good();
    scene.move_medium(DRIVE, DRIVE + 1).good();
    scene.run(DRIVES[1], Cdb::TestUnitReady, 0);
    let moved = memory(&mut scene, DRIVES[1]);
    assert_eq!((&moved[&0x020a], &moved[&0x020b]), (&names[1], &names[0]));
    let counts = [0x0002, 0x0003, 0x0220, 0x0221, 0x0222, 0x0223].map(|code| moved[&code].clone());
    assert_eq!(counts, [0, 2, 2, 1, 0, 0].map(mib));
    // The last four loads.
    for _ in 0..3 {
        let load = Cdb::Stream(StreamCommand::LoadUnload {
            immediate: false,
            load: true,
            retension: false,
            end_of_tape: false,
        });
        scene.run(DRIVES[1], load, 0).good();
    }
    let loaded = memory(&mut scene, DRIVES[1]);
    assert!((0x020a..=0x020d).all(|code| loaded[&code] == names[1]));
    assert!(!loaded.contains_key(&0x020e));
}

#[test]
fn mode_and_log_pages_have_the_forms_of_ssc_and_smc() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 1000, &[1; 1000]).good();
    let cdb = |bytes: &[u8]| {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        cdb
    };
    let mut run = |lun, bytes: &[u8]| {
        let initiator = &mut scene.initiator;
        initiator.run(&mut scene.pair, lun, &cdb(bytes)[..bytes.len()], 255)
    };
    // Page 0Fh without descriptors, as `mt compression` reads it: DCE and DCC.
    let data = run(DRIVES[0], &[0x1a, 0x08, 0x0f, 0, 255, 0]).good();
    assert_eq!((data.len(), &data[4..7]), (20, &[0x0f, 0x0e, 0xc0][..]));
    let data = run(CHANGER, &[0x1a, 0, 0x1d, 0, 255, 0]).good();
    assert_eq!(data[4..6], [0x1d, 0x12]);
    assert_eq!(
        data[6..22],
        [0, 1, 0, 1, 4, 0, 0, 3, 3, 0, 0, 1, 1, 0, 0, 2]
    );
    let data = run(CHANGER, &[0x1a, 0, 0x3f, 0, 255, 0]).good();
    assert_eq!(data[4 + 20..][..2], [0x1e, 2]);
    let data = run(DRIVES[0], &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0]).good();
    let pages = [
        0x00, 0x02, 0x03, 0x0c, 0x0d, 0x11, 0x12, 0x14, 0x17, 0x1b, 0x2e, 0x30, 0x31, 0x32,
    ];
    assert_eq!(data[4..], pages);
    // Bytes received, and capacity in MiB.
    let data = run(DRIVES[0], &[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(data[8..16], 1000_u64.to_be_bytes());
    let data = run(DRIVES[0], &[0x4d, 0, 0x71, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(data[4..16], [0, 1, 3, 4, 0, 0, 0, 0, 0, 2, 3, 4]);
    assert_eq!(data[24..28], [0, 0, 0, 1]);
    let data = run(DRIVES[0], &[0x44, 1, 0, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(
        (data.len(), data[4], &data[20..27]),
        (56, 0x58, &b"LTO-CVE"[..])
    );
    let data = run(DRIVES[0], &[0x05, 0, 0, 0, 0, 0]).good();
    assert_eq!(data, [0, 0xff, 0xff, 0xff, 0, 1]);
    // A density of another generation, and a partition.
    assert_eq!(scene.set_block(512).status, 0);
    for list in [
        &[0, 0, 0x10, 8, 0x44, 0, 0, 0, 0, 0, 2, 0][..],
        &[0, 0, 0x10, 0, 0x11, 6, 0, 1, 0, 3, 0, 0],
    ] {
        let cdb = [0x15, 0x10, 0, 0, list.len() as u8, 0];
        let initiator = &mut scene.initiator;
        let refused = initiator.run_out(&mut scene.pair, DRIVES[0], &cdb, list);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_PARAMETER_LIST);
    }
}
