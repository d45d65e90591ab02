//! SPACE to both ends of the tape, LOCATE of files, and the forms of READ POSITION.

use super::*;

/// Objects of the tape: two blocks and a filemark, three times.
const FILES: u64 = 3;
const FILE: u64 = 3;

fn scene() -> Scene {
    let mut scene = Scene::new(&[]);
    for file in 0..FILES as u8 {
        for block in 0..2 {
            scene.write(false, 100, &[file * 2 + block; 100]).good();
        }
        scene.marks(1).good();
    }
    scene
}

fn stopped(sense: Sense, stream: StreamConditions, undone: u64) -> Option<Sense> {
    Some(sense.with_stream(stream).with_information(undone))
}

fn beginning(undone: u64) -> Option<Sense> {
    let end_of_medium = StreamConditions {
        end_of_medium: true,
        ..StreamConditions::default()
    };
    let sense = Sense::BEGINNING_OF_PARTITION_DETECTED;
    stopped(sense, end_of_medium, undone)
}

fn end_of_data(undone: u64) -> Option<Sense> {
    let sense = Sense::END_OF_DATA_DETECTED;
    stopped(sense, StreamConditions::default(), undone)
}

#[test]
fn space_stops_at_both_ends_with_the_part_that_was_not_passed_over() {
    let mut scene = scene();
    // The part is in the 32 bits of fixed sense data, also for SPACE (16).
    let far = i64::from(u32::MAX);
    for (code, count, sense, position) in [
        (SpaceCode::Blocks, -1, Some(filemark(1)), 8),
        (SpaceCode::Blocks, -2, None, 6),
        (SpaceCode::Filemarks, -3, beginning(1), 0),
        (SpaceCode::Blocks, -1, beginning(1), 0),
        (SpaceCode::Filemarks, -far, beginning(far as u64), 0),
        (SpaceCode::Blocks, 0, None, 0),
        (SpaceCode::Filemarks, 0, None, 0),
        (SpaceCode::Blocks, 2, None, 2),
        (SpaceCode::Blocks, -5, beginning(3), 0),
        (SpaceCode::Filemarks, 3, None, 9),
        (SpaceCode::Filemarks, 1, end_of_data(1), 9),
        (SpaceCode::Blocks, far, end_of_data(far as u64), 9),
        (SpaceCode::Filemarks, -1, None, 8),
        (SpaceCode::Filemarks, 5, end_of_data(4), 9),
    ] {
        let answer = scene.space(code, count);
        assert_eq!(answer.sense, sense, "{code:?} {count}");
        assert_eq!(scene.position(), position, "{code:?} {count}");
    }
}

fn locate_file(scene: &mut Scene, file: u64) -> Answer {
    let command = StreamCommand::LocateFile {
        immediate: false,
        partition: Some(0),
        file,
    };
    scene.stream(command, 0)
}

#[test]
fn locate_16_reaches_the_first_block_of_a_file() {
    let mut scene = scene();
    for file in [2, 0, 1] {
        locate_file(&mut scene, file).good();
        assert_eq!(u64::from(scene.position()), file * FILE);
        let block = scene.read(false, 100, 100).good();
        assert_eq!(block, [file as u8 * 2; 100]);
    }
    // After the last filemark is the end of data, and there is no other file.
    locate_file(&mut scene, FILES).good();
    assert_eq!(scene.read(false, 100, 100).sense, end_of_data(100));
    scene.rewind();
    for file in [FILES + 1, u64::MAX] {
        let beyond = locate_file(&mut scene, file);
        assert_eq!(beyond.sense, Some(Sense::END_OF_DATA_DETECTED));
        assert_eq!(u64::from(scene.position()), FILES * FILE);
    }
}

/// Returns the whole answer to READ POSITION.
fn read_position(scene: &mut Scene, form: PositionForm) -> Vec<u8> {
    let command = StreamCommand::ReadPosition {
        form,
        allocation_length: 32,
    };
    scene.stream(command, 32).good()
}

/// The short form, with and without the action of a device (00h, 01h).
fn short(flags: u8, object: u32) -> Vec<u8> {
    let mut data = vec![0; 20];
    data[0] = flags;
    data[4..8].copy_from_slice(&object.to_be_bytes());
    data[8..12].copy_from_slice(&object.to_be_bytes());
    data
}

fn long(flags: u8, object: u64, file: u64) -> Vec<u8> {
    let mut data = vec![0; 32];
    data[0] = flags;
    data[8..16].copy_from_slice(&object.to_be_bytes());
    data[16..24].copy_from_slice(&file.to_be_bytes());
    data
}

fn extended(flags: u8, object: u64) -> Vec<u8> {
    let mut data = long(flags, object, object);
    data[2..4].copy_from_slice(&28_u16.to_be_bytes());
    data
}

/// BOP and EOP.
const BEGINNING: u8 = 0x80;
const END: u8 = 0x40;

fn expect(scene: &mut Scene, flags: u8, object: u32, file: u64) {
    for form in [PositionForm::Short, PositionForm::ShortVendor] {
        assert_eq!(read_position(scene, form), short(flags, object), "{form:?}");
    }
    let object = object.into();
    let data = read_position(scene, PositionForm::Long);
    assert_eq!(data, long(flags, object, file));
    let data = read_position(scene, PositionForm::Extended);
    assert_eq!(data, extended(flags, object));
}

#[test]
fn every_form_of_read_position_has_the_object_and_its_flags() {
    let mut scene = scene();
    expect(&mut scene, 0, 9, 3);
    scene.space(SpaceCode::Filemarks, -2).good();
    expect(&mut scene, 0, 5, 1);
    scene.rewind();
    expect(&mut scene, BEGINNING, 0, 0);
    // The extended form is cut to the allocation length, which the others do not have.
    for (form, bytes) in [
        (PositionForm::Short, 20),
        (PositionForm::Long, 32),
        (PositionForm::Extended, 8),
    ] {
        let command = StreamCommand::ReadPosition {
            form,
            allocation_length: 8,
        };
        assert_eq!(scene.stream(command, 32).good().len(), bytes, "{form:?}");
    }
    for form in [0x02, 0x03, 0x07, 0x09, 0x1f] {
        let cdb = [0x34, form, 0, 0, 0, 0, 0, 0, 32, 0];
        let initiator = &mut scene.initiator;
        let refused = initiator.run(&mut scene.pair, DRIVES[0], &cdb, 32);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
    // Past early warning.
    scene.write(false, 1 << 20, &vec![1; 1 << 20]);
    expect(&mut scene, END, 1, 0);
    scene.space(SpaceCode::Blocks, -1).good();
    expect(&mut scene, BEGINNING, 0, 0);
}

#[test]
fn position_beyond_32_bits_is_unknown_in_the_short_forms_alone() {
    let mut scene = Scene::new(&[]);
    let count = (1 << 24) - 1;
    for _ in 0..257 {
        let immediate = true;
        let marks = StreamCommand::WriteFilemarks { immediate, count };
        scene.stream(marks, 0).good();
    }
    let object = 257 * u64::from(count);
    assert!(object > u32::MAX.into());
    // PERR (in SSC-2: LONU), and no position.
    let unknown = short(0x02, 0);
    for form in [PositionForm::Short, PositionForm::ShortVendor] {
        assert_eq!(read_position(&mut scene, form), unknown);
    }
    let data = read_position(&mut scene, PositionForm::Long);
    assert_eq!(data, long(0, object, object));
    let data = read_position(&mut scene, PositionForm::Extended);
    assert_eq!(data, extended(0, object));
    // LOCATE (16) reaches it.
    scene.rewind();
    locate_file(&mut scene, object).good();
    let data = read_position(&mut scene, PositionForm::Long);
    assert_eq!(data, long(0, object, object));
    scene.rewind();
    let cdb = [&[0x92, 0, 0, 0][..], &object.to_be_bytes(), &[0; 4]].concat();
    let initiator = &mut scene.initiator;
    initiator.run(&mut scene.pair, DRIVES[0], &cdb, 0).good();
    let data = read_position(&mut scene, PositionForm::Long);
    assert_eq!(data, long(0, object, object));
}
