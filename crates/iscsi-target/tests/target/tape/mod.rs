//! A tape library behind the target: drives and a changer, with their data on the changer's LU.

mod aborted;
mod changer;
mod changer_pages;
mod compressed;
mod conditions;
mod data;
mod durable;
mod generations;
mod identifying;
mod library;
mod limits;
mod log;
mod memory;
mod modes;
mod position;
mod refused;
mod reserved;
mod service;
mod times;
mod vital;

use crate::pair::{Answer, Initiator, Pair, config, pattern};
use hakaru_iscsi_target::{LuDescription, TapeLibrary, TargetConfig};
use hakaru_tape::{Generation, LibraryConfig, Placed, Ratio};
use hakaru_wire::iscsi::{
    CmdSn, Itt, Lun, Residual, ScsiCommand, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResponse, TaskManagementResult,
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
        timed: false,
        slots: 3,
        import_export: 1,
        cartridges: (1..=2)
            .map(|slot| Placed {
                barcode: format!("HAK00{slot}L5"),
                slot,
                write_protected: protected,
                generation: None,
                recovered: None,
            })
            .collect(),
        capacity_bytes: CAPACITY,
        early_warning_bytes: EARLY_WARNING,
        ratio: Ratio::ONE,
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
        Scene::loaded(with_library(false), keys)
    }

    fn loaded(config: TargetConfig, keys: &[(&str, &str)]) -> Scene {
        let mut scene = Scene::empty(config, keys);
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

    /// Executes a CDB on the first drive.
    fn run_in(&mut self, cdb: &[u8]) -> Answer {
        self.initiator.run(&mut self.pair, DRIVES[0], cdb, 4096)
    }

    /// Executes a CDB with a parameter list on the first drive.
    fn run_list(&mut self, cdb: &[u8], list: &[u8]) -> Answer {
        self.initiator.run_out(&mut self.pair, DRIVES[0], cdb, list)
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

    fn exchange(&mut self, source: u16, first: u16, second: u16) -> Answer {
        let command = ChangerCommand::ExchangeMedium {
            transport: 0,
            source,
            first_destination: first,
            second_destination: second,
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

    /// Sends ABORT TASK for a command of the first drive.
    fn abort(&mut self, command: &ScsiCommand) {
        let request = TaskManagementRequest {
            immediate: true,
            function: TaskManagementFunction::AbortTask,
            lun: command.lun,
            itt: Itt(0x7000_0001),
            referenced_task_tag: command.itt,
            cmd_sn: CmdSn(self.initiator.cmd_sn),
            exp_stat_sn: self.initiator.exp_stat_sn,
            ref_cmd_sn: command.cmd_sn,
            exp_data_sn: 0,
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        self.initiator.send(&mut self.pair, &header, &[]);
    }

    /// Receives the response to [`Self::abort`], and nothing else.
    fn aborted(&mut self) {
        let pdu = self.initiator.receive_one(&mut self.pair);
        let response = TaskManagementResponse::parse(&pdu.bhs).unwrap();
        assert_eq!(response.result, TaskManagementResult::Complete);
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

/// Executes a task management function on the first drive.
fn reset(scene: &mut Scene, function: TaskManagementFunction) {
    let initiator = &mut scene.initiator;
    let mut header = [0; 48];
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::new(DRIVES[0].into()),
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    }
    .emit(&mut header);
    initiator.send(&mut scene.pair, &header, &[]);
    assert_eq!(initiator.receive(&mut scene.pair).len(), 1);
}

/// Enlarges the cartridges.
fn with_capacity(config: TargetConfig, capacity_bytes: u64) -> TargetConfig {
    let mut config = config;
    for lu in &mut config.lus {
        if let hakaru_iscsi_target::DeviceKind::Changer(library) = &mut lu.kind {
            library.library.capacity_bytes = capacity_bytes;
            lu.size_bytes = library.library.store_bytes();
        }
    }
    config
}

/// Lets a byte on the tape hold this many bytes of initiators.
fn with_ratio(config: TargetConfig, ratio: f64) -> TargetConfig {
    let mut config = config;
    for lu in &mut config.lus {
        if let hakaru_iscsi_target::DeviceKind::Changer(library) = &mut lu.kind {
            library.library.ratio = Ratio::of(ratio);
            lu.size_bytes = library.library.store_bytes();
        }
    }
    config
}

/// Gives all cartridges a generation.
fn with_generation(config: TargetConfig, generation: Generation) -> TargetConfig {
    let mut config = config;
    for lu in &mut config.lus {
        if let hakaru_iscsi_target::DeviceKind::Changer(library) = &mut lu.kind {
            for placed in &mut library.library.cartridges {
                placed.generation = Some(generation);
            }
        }
    }
    config
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
