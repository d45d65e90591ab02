//! WRITE ATTRIBUTE: what programs write into the memory of a cartridge.

use hakaru_iscsi_target::{IoFailure, IoOp, IoResult};
use hakaru_tape::recover;

use super::durable::scene as durable_scene;
use super::library::attributes_of;
use super::*;
use hakaru_wire::scsi::FieldPointer;

fn list(attributes: &[(u16, u8, &[u8])]) -> Vec<u8> {
    let mut list = vec![0; 4];
    for (identifier, format, value) in attributes {
        list.extend_from_slice(&identifier.to_be_bytes());
        list.push(*format);
        list.extend_from_slice(&(value.len() as u16).to_be_bytes());
        list.extend_from_slice(value);
    }
    let length = (list.len() - 4) as u32;
    list[..4].copy_from_slice(&length.to_be_bytes());
    list
}

fn cdb_for(list: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x8d;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    cdb
}

impl Scene {
    fn write_list(&mut self, list: &[u8]) -> Answer {
        let cdb = cdb_for(list);
        self.initiator
            .run_out(&mut self.pair, DRIVES[0], &cdb, list)
    }

    fn write_attribute(&mut self, identifier: u16, format: u8, value: &[u8]) -> Answer {
        self.write_list(&list(&[(identifier, format, value)]))
    }

    /// Returns the attributes from 0800h on.
    fn host_attributes(&mut self, form: AttributeForm) -> Vec<u8> {
        let read = StreamCommand::ReadAttribute {
            form,
            partition: 0,
            first: 0x0800,
            allocation_length: 4096,
        };
        self.stream(read, 4096).good()
    }
}

#[test]
fn attributes_stay_with_their_cartridge() {
    let mut scene = Scene::new(&[]);
    let text = [b'p'; 160];
    let written: [(u16, u8, &[u8]); 3] = [
        (0x0800, 1, b"VENDOR  "),
        (0x0805, 0, &[0x81]),
        (0x0808, 2, &text),
    ];
    scene.write_list(&list(&written)).good();
    let expected = |attributes: &[(u16, u8, &[u8])]| -> Vec<(u16, u8, Vec<u8>)> {
        let barcode: (u16, u8, &[u8]) = (0x0806, 1, b"HAK001L5                        ");
        let mut all: Vec<_> = attributes.iter().chain([&barcode]).collect();
        all.sort();
        all.into_iter()
            .map(|(identifier, format, value)| (*identifier, *format, value.to_vec()))
            .collect()
    };
    let values = scene.host_attributes(AttributeForm::Values);
    assert_eq!(attributes_of(&values), expected(&written));
    let supported = scene.host_attributes(AttributeForm::Supported);
    let all: Vec<u8> = (0x00..=0x09).flat_map(|low| [8, low]).collect();
    assert_eq!(supported[4..], all);
    // The other cartridge has none of them, and the drive shows those of its cartridge.
    scene.move_medium(DRIVE, IMPORT_EXPORT).good();
    scene.move_medium(DRIVE + 1, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    let other = scene.host_attributes(AttributeForm::List);
    assert_eq!(other[4..], [8, 6]);
    scene.move_medium(DRIVE, DRIVE + 1).good();
    scene.move_medium(IMPORT_EXPORT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    // One without a value is removed.
    scene.write_attribute(0x0805, 0, &[]).good();
    let values = scene.host_attributes(AttributeForm::Values);
    assert_eq!(attributes_of(&values), expected(&[written[0], written[2]]));
}

#[test]
fn wrong_list_is_refused_and_changes_nothing() {
    let mut scene = Scene::new(&[]);
    let at = |byte| {
        Some(
            Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
                in_cdb: false,
                byte,
                bit: None,
            }),
        )
    };
    let first: (u16, u8, &[u8]) = (0x0800, 1, b"VENDOR  ");
    for (wrong, byte) in [
        // Read-only, unknown, not ascending; another format; another length.
        ((0x0401, 1, &b"12345678901234567890123456789012"[..]), 17),
        ((0x080a, 0, &[0][..]), 17),
        ((0x0800, 1, &b"VENDOR  "[..]), 17),
        ((0x0801, 0, &[0; 32][..]), 19),
        ((0x0805, 0, &[0; 2][..]), 20),
    ] {
        let refused = scene.write_list(&list(&[first, wrong]));
        assert_eq!(refused.sense, at(byte), "{wrong:?}");
    }
    let mut long = list(&[first]);
    long[3] += 1;
    for short in [&[0, 0, 0][..], &long, &[0, 0, 0, 3, 8, 5, 0]] {
        let refused = scene.write_list(short);
        assert_eq!(refused.sense(), Sense::PARAMETER_LIST_LENGTH_ERROR);
    }
    let list_form = scene.host_attributes(AttributeForm::List);
    assert_eq!(list_form[4..], [8, 6]);
    // A partition, and a list of 64 KiB.
    let mut cdb = cdb_for(&[]);
    cdb[7] = 1;
    let run = |scene: &mut Scene, cdb: &[u8]| {
        let initiator = &mut scene.initiator;
        initiator.run(&mut scene.pair, DRIVES[0], cdb, 0).sense()
    };
    assert_eq!(run(&mut scene, &cdb), Sense::INVALID_FIELD_IN_CDB);
    (cdb[7], cdb[11]) = (0, 1);
    assert_eq!(run(&mut scene, &cdb), Sense::INVALID_FIELD_IN_CDB);
    scene.move_medium(DRIVE, SLOT).good();
    let empty = scene.write_list(&list(&[first]));
    assert_eq!(empty.sense(), Sense::MEDIUM_NOT_PRESENT);
    let mut protected = Scene::empty(with_library(true), &[]);
    protected.move_medium(SLOT, DRIVE).good();
    protected.run(DRIVES[0], Cdb::TestUnitReady, 0);
    let refused = protected.write_list(&list(&[first]));
    assert_eq!(refused.sense(), Sense::WRITE_PROTECTED);
}

/// Returns attribute 0801h as a crash of the array now would leave it.
fn kept_name(scene: &Scene) -> Option<Vec<u8>> {
    let bytes = &scene.pair.lus[&CHANGER];
    let recovered = recover(&mut |offset, buffer| {
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    });
    let attributes = recovered.expect("a sound cartridge").attributes;
    attributes.get(0x0801).map(<[u8]>::to_vec)
}

#[test]
fn attribute_is_durable_when_the_command_ends() {
    let mut scene = durable_scene();
    assert_eq!(kept_name(&scene), None);
    for fill in b'a'..b'e' {
        scene.write_attribute(0x0801, 1, &[fill; 32]).good();
        assert_eq!(kept_name(&scene), Some(vec![fill; 32]));
    }
    scene.write(false, 4, b"data").good();
    scene.marks(1).good();
    assert_eq!(kept_name(&scene), Some(vec![b'd'; 32]));
}

#[test]
fn attribute_that_cannot_be_stored_keeps_its_value() {
    let mut scene = durable_scene();
    scene.write_attribute(0x0801, 1, &[b'a'; 32]).good();
    scene.pair.stalled = true;
    let new = list(&[(0x0801, 1, &[b'b'; 32])]);
    let initiator = &mut scene.initiator;
    let command = initiator.begin_out(&mut scene.pair, DRIVES[0], &cdb_for(&new), &new);
    let io = scene.pair.held.remove(0);
    assert!(matches!(io.op, IoOp::Write { fua: true, .. }));
    let busy = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(busy.status, Status::BUSY.0);
    let (now, failed) = (scene.pair.time, IoResult::Failed(IoFailure::Write));
    scene.pair.target.handle_io_done(now, io.id, failed);
    scene.pair.release();
    let answer = Answer::of(scene.initiator.receive(&mut scene.pair), command.itt);
    assert_eq!(answer.sense(), Sense::WRITE_ERROR);
    let values = scene.host_attributes(AttributeForm::Values);
    assert_eq!(attributes_of(&values)[0], (0x0801, 1, vec![b'a'; 32]));
    scene.write_attribute(0x0801, 1, &[b'c'; 32]).good();
    assert_eq!(kept_name(&scene), Some(vec![b'c'; 32]));
}
