//! A tape library behind the target: drives and a changer, with their data on the changer's LU.

use crate::pair::{Answer, Initiator, Pair, config, pattern};
use hakaru_iscsi_target::{LuDescription, TapeLibrary, TargetConfig};
use hakaru_tape::{Generation, LibraryConfig, Placed};
use hakaru_wire::iscsi::{
    CmdSn, Itt, Lun, Residual, TaskManagementFunction, TaskManagementRequest,
};
use hakaru_wire::scsi::{
    AttributeForm, Cdb, ChangerCommand, Inquiry, ModeData, PositionForm, ReportedCommands, Sense,
    SpaceCode, Status, StreamCommand, StreamConditions, parse_all_commands,
};

const CHANGER: u8 = 9;
const DRIVES: [u8; 2] = [10, 11];
const SLOT: u16 = 0x0400;
const IMPORT_EXPORT: u16 = 0x0300;
const DRIVE: u16 = 0x0100;
const CAPACITY: u64 = 1 << 20;
const EARLY_WARNING: u64 = 64 << 10;

fn with_library(protected: bool) -> TargetConfig {
    let library = LibraryConfig {
        drives: vec![Generation::Lto5, Generation::Lto6],
        slots: 3,
        import_export: 1,
        cartridges: (1..=2)
            .map(|slot| Placed {
                barcode: format!("HAK00{slot}L5"),
                slot,
                write_protected: protected,
            })
            .collect(),
        capacity_bytes: CAPACITY,
        early_warning_bytes: EARLY_WARNING,
    };
    let drive_luns = DRIVES.to_vec();
    let mut config = config();
    config.lus.push(LuDescription::changer(
        CHANGER,
        TapeLibrary {
            library,
            drive_luns,
        },
    ));
    let drives = DRIVES.map(LuDescription::tape_drive);
    config.lus.extend(drives);
    config
}

/// A session with the library, and a loaded cartridge in each drive.
struct Scene {
    pair: Pair,
    initiator: Initiator,
}

impl Scene {
    fn new(keys: &[(&str, &str)]) -> Scene {
        let mut scene = Scene::empty(with_library(false), keys);
        for drive in 0..2 {
            scene.move_medium(SLOT + drive, DRIVE + drive).good();
            let attention = scene.run(DRIVES[usize::from(drive)], Cdb::TestUnitReady, 0);
            assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
        }
        scene
    }

    fn empty(config: TargetConfig, keys: &[(&str, &str)]) -> Scene {
        let mut pair = Pair::with(config);
        let mut initiator = pair.log_in(keys);
        for lun in [CHANGER, DRIVES[0], DRIVES[1]] {
            clear(&mut pair, &mut initiator, lun);
        }
        Scene { pair, initiator }
    }

    fn run(&mut self, lun: u8, cdb: Cdb, expected: u32) -> Answer {
        self.initiator.run_cdb(&mut self.pair, lun, cdb, expected)
    }

    fn stream(&mut self, command: StreamCommand, expected: u32) -> Answer {
        self.run(DRIVES[0], Cdb::Stream(command), expected)
    }

    fn change(&mut self, command: ChangerCommand, expected: u32) -> Answer {
        self.run(CHANGER, Cdb::Changer(command), expected)
    }

    fn move_medium(&mut self, source: u16, destination: u16) -> Answer {
        let transport = 0;
        let command = ChangerCommand::MoveMedium {
            transport,
            source,
            destination,
        };
        self.change(command, 0)
    }

    fn write(&mut self, fixed: bool, length: u32, data: &[u8]) -> Answer {
        let cdb = Cdb::Stream(StreamCommand::Write { fixed, length }).emit();
        let initiator = &mut self.initiator;
        initiator.run_out(&mut self.pair, DRIVES[0], &cdb[..6], data)
    }

    fn read(&mut self, fixed: bool, length: u32, expected: u32) -> Answer {
        let suppress_incorrect_length = false;
        let command = StreamCommand::Read {
            fixed,
            suppress_incorrect_length,
            length,
        };
        self.stream(command, expected)
    }

    fn marks(&mut self, count: u32) -> Answer {
        let immediate = false;
        self.stream(StreamCommand::WriteFilemarks { immediate, count }, 0)
    }

    fn space(&mut self, code: SpaceCode, count: i64) -> Answer {
        self.stream(StreamCommand::Space { code, count }, 0)
    }

    fn rewind(&mut self) {
        let immediate = false;
        self.stream(StreamCommand::Rewind { immediate }, 0).good();
    }

    fn position(&mut self) -> u32 {
        let command = StreamCommand::ReadPosition {
            form: PositionForm::Short,
            allocation_length: 0,
        };
        let data = self.stream(command, 20).good();
        assert_eq!(data[0] & 0x80 != 0, data[4..8] == [0; 4]);
        u32::from_be_bytes([data[4], data[5], data[6], data[7]])
    }

    /// Sets the block length with the list that the `st` driver sends.
    fn set_block(&mut self, block_bytes: u32) -> Answer {
        let [_, high, middle, low] = block_bytes.to_be_bytes();
        let list = [0, 0, 0x10, 8, 0, 0, 0, 0, 0, high, middle, low];
        let cdb = [0x15, 0x10, 0, 0, 12, 0];
        self.initiator
            .run_out(&mut self.pair, DRIVES[0], &cdb, &list)
    }

    fn log_in(&mut self, isid: u32) -> Initiator {
        let name = "iqn.2026-01.net.example:other";
        let mut other = self.pair.log_in_as(name, isid, &[]);
        for lun in [CHANGER, DRIVES[0], DRIVES[1]] {
            clear(&mut self.pair, &mut other, lun);
        }
        other
    }
}

/// Ends the unit attention conditions of a new session.
fn clear(pair: &mut Pair, initiator: &mut Initiator, lun: u8) {
    while initiator
        .run_cdb(pair, lun, Cdb::TestUnitReady, 0)
        .sense
        .is_some_and(|sense| sense.key == hakaru_wire::scsi::SenseKey::UnitAttention)
    {}
}

fn filemark(undone: u64) -> Sense {
    Sense::FILEMARK_DETECTED
        .with_stream(StreamConditions {
            filemark: true,
            ..StreamConditions::default()
        })
        .with_information(undone)
}

fn incorrect_length(difference: i64) -> Sense {
    Sense::NO_SENSE
        .with_stream(StreamConditions {
            incorrect_length: true,
            ..StreamConditions::default()
        })
        .with_information(difference as u64)
}

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

    let request = TaskManagementRequest {
        immediate: true,
        function: TaskManagementFunction::LogicalUnitReset,
        lun: Lun::new(DRIVES[0].into()),
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(scene.initiator.cmd_sn),
        exp_stat_sn: scene.initiator.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    scene.initiator.send(&mut scene.pair, &header, &[]);
    scene.initiator.receive(&mut scene.pair);
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

/// Returns (address, flags, source, barcode) of each element descriptor with a volume tag.
fn elements(data: &[u8]) -> Vec<(u16, u8, Option<u16>, String)> {
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

fn status(start: u16, count: u16, element_type: u8, device_identifiers: bool) -> ChangerCommand {
    ChangerCommand::ReadElementStatus {
        volume_tags: true,
        element_type,
        start,
        count,
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
        (CHANGER, 0x08, "TAPE LIBRARY", &[0xa5_u8, 0xb8][..]),
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
fn attributes_of(data: &[u8]) -> Vec<(u16, u8, Vec<u8>)> {
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
    assert!(attributes.iter().all(|attribute| attribute.1 & 0x80 != 0));
    // With exactly the length of the answer, the last attribute is complete.
    let exact = read(AttributeForm::Values, 0x0806, 4 + 5 + 32);
    let last = attributes_of(&scene.stream(exact, 41).good());
    assert_eq!(last, attributes[attributes.len() - 1..]);
    let list = scene
        .stream(read(AttributeForm::List, 0x0400, 255), 255)
        .good();
    assert_eq!(list[3..], [8, 4, 0, 4, 1, 4, 8, 8, 6]);
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
    assert_eq!(data[4..], [0x00, 0x0c, 0x2e, 0x31]);
    // Bytes received, and capacity in MiB.
    let data = run(DRIVES[0], &[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(data[8..16], 1000_u64.to_be_bytes());
    let data = run(DRIVES[0], &[0x4d, 0, 0x71, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(data[4..16], [0, 1, 3, 4, 0, 0, 0, 0, 0, 2, 3, 4]);
    assert_eq!(data[24..28], [0, 0, 0, 1]);
    let data = run(DRIVES[0], &[0x44, 0, 0, 0, 0, 0, 0, 0, 255, 0]).good();
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
