//! Blocks, positions and the state of a drive.

use super::*;

#[test]
fn blocks_of_every_length_are_read_back_across_filemarks() {
    for keys in [
        &[][..],
        &[("DataDigest", "CRC32C")],
        &[("MaxRecvDataSegmentLength", "512")],
    ] {
        let mut scene = Scene::new(keys);
        let lengths = [1, 511, 512, 513, 10_240, 64_412, 100_000];
        for (at, length) in lengths.into_iter().enumerate() {
            let data = pattern(length as usize, at as u8);
            scene.write(false, length, &data).good();
            scene.marks(1).good();
        }
        assert_eq!(scene.position(), 14);
        scene.rewind();
        for (at, length) in lengths.into_iter().enumerate() {
            let data = scene.read(false, length, length).good();
            assert_eq!(data, pattern(length as usize, at as u8));
            let mark = scene.read(false, 10_240, 10_240);
            assert_eq!(mark.sense, Some(filemark(10_240)));
            assert!(mark.data.is_empty());
        }
        let end = scene.read(false, 512, 512);
        assert_eq!(
            end.sense,
            Some(Sense::END_OF_DATA_DETECTED.with_information(512))
        );
    }
}

#[test]
fn block_of_another_length_comes_with_its_data_and_check_condition() {
    for keys in [&[][..], &[("MaxRecvDataSegmentLength", "512")]] {
        let mut scene = Scene::new(keys);
        let data = pattern(1000, 1);
        scene.write(false, 1000, &data).good();
        scene.rewind();
        let short = scene.read(false, 4096, 4096);
        assert_eq!(short.data, data);
        assert_eq!(short.data_in_pdus, if keys.is_empty() { 1 } else { 2 });
        assert_eq!(short.sense, Some(incorrect_length(3096)));
        assert_eq!(short.residual, Residual::Underflow(3096));
        scene.rewind();
        let long = scene.read(false, 600, 600);
        assert_eq!(long.data, data[..600]);
        assert_eq!(long.sense, Some(incorrect_length(-400)));
        assert_eq!((long.residual, scene.position()), (Residual::None, 1));
        // SILI: a short read without an error.
        scene.rewind();
        let command = StreamCommand::Read {
            fixed: false,
            suppress_incorrect_length: true,
            length: 4096,
        };
        let silent = scene.stream(command, 4096);
        assert_eq!(silent.residual, Residual::Underflow(3096));
        assert_eq!(silent.good(), data);
    }
}

#[test]
fn fixed_blocks_are_written_and_read_in_one_command() {
    let mut scene = Scene::new(&[]);
    let refused = scene.read(true, 1, 512);
    assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    scene.set_block(600).good();
    let data = pattern(6000, 3);
    scene.write(true, 10, &data).good();
    scene.marks(1).good();
    assert_eq!(scene.position(), 11);
    scene.rewind();
    assert_eq!(scene.read(true, 4, 2400).good(), data[..2400]);
    let rest = scene.read(true, 10, 6000);
    assert_eq!(rest.data, data[2400..]);
    assert_eq!(rest.sense, Some(filemark(4)));
    assert_eq!(rest.residual, Residual::Underflow(2400));
    let mode = Cdb::parse(&[0x1a, 0, 0, 0, 12, 0]).unwrap();
    let mode = ModeData::parse(&scene.run(DRIVES[0], mode, 12).good(), false).unwrap();
    let descriptor = mode.block_descriptor.unwrap();
    assert_eq!(descriptor.block_length, 600);
    assert_eq!(
        (descriptor.blocks >> 24, mode.write_protected),
        (0x58, false)
    );
}

#[test]
fn short_fixed_blocks_are_bounded_by_the_space_that_they_occupy() {
    let mut scene = Scene::new(&[]);
    scene.set_block(1).good();
    for blocks in [65_536, 1 << 23, (1 << 24) - 1] {
        let written = scene.write(true, blocks, &[1; 8]);
        assert_eq!(written.sense(), Sense::INVALID_FIELD_IN_CDB);
        let read = scene.read(true, blocks, 512);
        assert_eq!(read.sense(), Sense::INVALID_FIELD_IN_CDB);
        assert_eq!(scene.position(), 0);
    }
    // As many as the cartridge takes.
    let blocks = (CAPACITY / 512) as u32;
    let data = pattern(blocks as usize, 4);
    let warned = scene.write(true, blocks, &data).sense().additional;
    assert_eq!(warned, Sense::END_OF_PARTITION_DETECTED.additional);
    scene.rewind();
    assert_eq!(scene.read(true, blocks, blocks).good(), data);
}

#[test]
fn reset_of_a_drive_restores_its_mode_data() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 4, b"kept").good();
    let mode = Cdb::parse(&[0x1a, 0, 0x3f, 0, 255, 0]).unwrap();
    let before = scene.run(DRIVES[0], mode, 255).good();
    // Unbuffered, blocks of 600 bytes, D_SENSE, no compression.
    let mut list = vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0x58];
    list.extend_from_slice(&[0x0a, 0x0a, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    list.extend_from_slice(&[0x0f, 0x0e, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let cdb = [0x15, 0x10, 0, 0, list.len() as u8, 0];
    let initiator = &mut scene.initiator;
    initiator
        .run_out(&mut scene.pair, DRIVES[0], &cdb, &list)
        .good();
    let changed = scene.run(DRIVES[0], mode, 255).good();
    assert_eq!((changed[2], &changed[9..12]), (0, &[0, 2, 0x58][..]));
    assert_ne!(changed[12..], before[12..]);

    reset(&mut scene, TaskManagementFunction::LogicalUnitReset);
    let attention = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(attention.sense(), Sense::BUS_DEVICE_RESET_FUNCTION);
    assert_eq!(scene.run(DRIVES[0], mode, 255).good(), before);
    assert_eq!(scene.position(), 1);
}

#[test]
fn positions_are_reached_as_the_st_driver_asks() {
    let mut scene = Scene::new(&[]);
    for file in 0..3 {
        for block in 0..4 {
            scene.write(false, 100, &[file * 4 + block; 100]).good();
        }
        scene.marks(1).good();
    }
    // MTEOM without fast-eod.
    let eom = scene.space(SpaceCode::Filemarks, (1 << 23) - 1);
    let undone = Sense::END_OF_DATA_DETECTED.with_information((1 << 23) - 1);
    assert_eq!(eom.sense, Some(undone));
    scene.space(SpaceCode::EndOfData, 0).good();
    assert_eq!(scene.position(), 15);
    // MTBSFM 2: before the second filemark from the end, then after it.
    scene.space(SpaceCode::Filemarks, -2).good();
    assert_eq!(scene.position(), 9);
    scene.space(SpaceCode::Filemarks, 1).good();
    assert_eq!(scene.read(false, 100, 100).good(), [8; 100]);
    let back = scene.space(SpaceCode::Blocks, -5);
    assert_eq!(back.sense, Some(filemark(4)));
    let beginning = scene.space(SpaceCode::Filemarks, -9);
    assert_eq!(beginning.sense.unwrap().information, Some(8));
    assert_eq!(scene.position(), 0);
    let locate = |object| StreamCommand::Locate {
        immediate: false,
        partition: None,
        object,
    };
    scene.stream(locate(6), 0).good();
    assert_eq!(scene.read(false, 100, 100).good(), [5; 100]);
    let beyond = scene.stream(locate(16), 0);
    assert_eq!(beyond.sense(), Sense::END_OF_DATA_DETECTED);
    assert_eq!(scene.position(), 15);
    let partition = StreamCommand::Locate {
        immediate: false,
        partition: Some(1),
        object: 0,
    };
    let refused = scene.stream(partition, 0);
    assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    let long = StreamCommand::ReadPosition {
        form: PositionForm::Long,
        allocation_length: 0,
    };
    let data = scene.stream(long, 32).good();
    assert_eq!((data[15], data[23]), (15, 3));
}

#[test]
fn early_warning_and_the_end_of_the_cartridge_are_reported() {
    let mut scene = Scene::new(&[]);
    let block = 32 << 10;
    let data = pattern(block, 1);
    let length = block as u32;
    let blocks = (CAPACITY / length as u64) as u32;
    let warned = Sense::END_OF_PARTITION_DETECTED
        .with_stream(StreamConditions {
            end_of_medium: true,
            ..StreamConditions::default()
        })
        .with_information(0);
    for at in 1..=blocks {
        let answer = scene.write(false, length, &data);
        let expected = (at >= blocks - 2).then_some(warned);
        assert_eq!(answer.sense, expected, "{at} of {blocks}");
    }
    let full = scene.write(false, length, &data).sense.unwrap();
    assert_eq!(full.key, hakaru_wire::scsi::SenseKey::VolumeOverflow);
    assert_eq!(
        (full.information, full.stream),
        (Some(length.into()), warned.stream)
    );
    assert_eq!(scene.marks(1).sense, Some(warned));
    scene.rewind();
    for _ in 0..blocks {
        assert_eq!(scene.read(false, length, length).good(), data);
    }
}

#[test]
fn drives_keep_their_own_cartridge_and_position() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 5, b"first").good();
    let cdb = Cdb::Stream(StreamCommand::Write {
        fixed: false,
        length: 6,
    });
    let initiator = &mut scene.initiator;
    let other = initiator.run_out(&mut scene.pair, DRIVES[1], &cdb.emit()[..6], b"second");
    other.good();
    scene.rewind();
    assert_eq!(scene.read(false, 5, 5).good(), b"first");
    // The cartridges change their drives.
    scene.move_medium(DRIVE, IMPORT_EXPORT).good();
    scene.move_medium(DRIVE + 1, DRIVE).good();
    let attention = scene.read(false, 6, 6);
    assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
    assert_eq!(scene.read(false, 6, 6).good(), b"second");
    let empty = scene.run(DRIVES[1], Cdb::TestUnitReady, 0);
    assert_eq!(empty.sense(), Sense::MEDIUM_NOT_PRESENT);
}

#[test]
fn every_other_initiator_learns_of_a_new_cartridge() {
    let mut scene = Scene::new(&[]);
    let mut other = scene.log_in(2);
    let load = |load| StreamCommand::LoadUnload {
        immediate: false,
        load,
        retension: false,
        end_of_tape: false,
    };
    scene.stream(load(false), 0).good();
    assert_eq!(scene.read(false, 5, 5).sense(), Sense::MEDIUM_NOT_PRESENT);
    scene.stream(load(true), 0).good();
    let pair = &mut scene.pair;
    let told = other.run_cdb(pair, DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(told.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0).good();
}

#[test]
fn removal_of_a_cartridge_can_be_prevented() {
    let mut scene = Scene::new(&[]);
    let prevent = |prevent| Cdb::PreventAllowMediumRemoval { prevent };
    scene.run(DRIVES[0], prevent(1), 0).good();
    let refused = scene.move_medium(DRIVE, SLOT);
    assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    let unload = StreamCommand::LoadUnload {
        immediate: false,
        load: false,
        retension: false,
        end_of_tape: false,
    };
    let refused = scene.stream(unload, 0);
    assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    scene.run(DRIVES[0], prevent(0), 0).good();
    scene.move_medium(DRIVE, SLOT).good();
}

#[test]
fn protected_cartridge_can_be_read_only() {
    let mut scene = Scene::empty(with_library(true), &[]);
    scene.move_medium(SLOT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(
        scene.write(false, 4, b"data").sense(),
        Sense::WRITE_PROTECTED
    );
    assert_eq!(scene.marks(1).sense(), Sense::WRITE_PROTECTED);
    let mode = Cdb::parse(&[0x1a, 0, 0, 0, 12, 0]).unwrap();
    assert_eq!(scene.run(DRIVES[0], mode, 12).good()[2] & 0x80, 0x80);
}

#[test]
fn command_during_a_transfer_gets_busy_and_an_aborted_write_is_taken_back() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 4, b"kept").good();
    scene.pair.stalled = true;
    let cdb = Cdb::Stream(StreamCommand::Write {
        fixed: false,
        length: 4,
    });
    let initiator = &mut scene.initiator;
    let mut command = initiator.command(DRIVES[0], &cdb.emit()[..6], false, true, 4);
    command.is_final = true;
    initiator.send_command(&mut scene.pair, &command, b"lost");
    let busy = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(busy.status, Status::BUSY.0);
    assert_eq!(scene.move_medium(DRIVE, SLOT).status, Status::BUSY.0);
    // The storage fails.
    let io = scene.pair.held.remove(0);
    scene.pair.stalled = false;
    let failed = hakaru_iscsi_target::IoResult::Failed(hakaru_iscsi_target::IoFailure::Write);
    let now = scene.pair.time;
    scene.pair.target.handle_io_done(now, io.id, failed);
    scene.pair.run();
    let answer = Answer::of(scene.initiator.receive(&mut scene.pair), command.itt);
    assert_eq!(answer.sense(), Sense::WRITE_ERROR);
    assert_eq!(scene.position(), 1);
    let end = scene.read(false, 4, 4);
    assert_eq!(end.sense(), Sense::END_OF_DATA_DETECTED);
}
