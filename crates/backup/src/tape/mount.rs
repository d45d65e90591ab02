//! Preparation of a drive: the cartridge is moved into it, the block length is set, and the tape is
//! positioned. One command at a time is outstanding.
use std::time::Duration;

use hakaru_contract::backup::TapeDestination;
use hakaru_iscsi_session::{Done, TaskError};
use hakaru_units::Time;
use hakaru_wire::scsi::{
    AdditionalSense, BlockDescriptor, Cdb, ChangerCommand, ElementStatus, ModeData, ModeSelect,
    ModeSense, PageControl, PositionForm, Sense, SenseKey, SpaceCode, StreamCommand,
    parse_elements,
};

use super::error::TapeError;

/// Allocation length of READ ELEMENT STATUS, bytes: room for 10 000 elements with barcodes.
const ELEMENTS_BYTES: u32 = 1 << 20;
/// Length of the mode data that is asked for and sent: header and block descriptor.
const MODE_BYTES: u16 = 12;
/// Length of the long form of READ POSITION, bytes.
const POSITION_BYTES: u32 = 32;
/// Pause before a drive that becomes ready is asked again.
const READY_PAUSE: Duration = Duration::from_millis(500);
/// Longest time for a drive to become ready. Drives load a cartridge in seconds to minutes.
const READY_WAIT: Duration = Duration::from_secs(600);
/// Buffered mode 1 of the device-specific parameter of mode data: a write ends when its data is in
/// the buffer (SSC-3 section 8.3.2).
const BUFFERED: u8 = 0x10;
/// Element type codes (SMC-3 table 15).
const SLOT: u8 = 2;
const DRIVE: u8 = 4;
/// LOGICAL UNIT IS IN PROCESS OF BECOMING READY (SPC-4 annex F).
const BECOMING_READY: AdditionalSense = AdditionalSense {
    code: 0x04,
    qualifier: 0x01,
};

/// The LU to which a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The tape drive.
    Drive,
    /// The medium changer.
    Changer,
}

/// A command to execute.
#[derive(Clone, Debug, PartialEq)]
pub struct TapeCommand {
    /// Its LU.
    pub unit: Unit,
    /// Its descriptor block.
    pub cdb: Cdb,
    /// Maximum length of its answer, bytes; 0 without one.
    pub answer_bytes: u32,
    /// Its parameter list; empty without one.
    pub list: Vec<u8>,
}

/// Where the tape is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the beginning, to be written.
    Beginning,
    /// Behind the recorded data, to be written.
    EndOfData,
    /// At an object, to be read.
    Object(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    ElementStatus,
    Return { from: u16, to: u16 },
    Fetch { from: u16, to: u16 },
    TestUnitReady,
    ModeSense,
    ModeSelect,
    Position,
    ReadPosition,
}

/// The preparation of a drive.
#[derive(Debug)]
pub struct Mount {
    tape: TapeDestination,
    place: Place,
    step: Step,
    /// Whether the command of the step is in flight.
    in_flight: bool,
    /// Instant before which no command may be issued.
    due: Time,
    /// First answer of a drive that becomes ready.
    loading: Option<Time>,
    /// Whether another cartridge was taken out of the drive.
    returned: bool,
    /// Object at which the tape is, at the end.
    object: Option<u64>,
}

impl Mount {
    /// Creates the preparation that puts the tape to `place`.
    #[must_use]
    pub fn new(tape: TapeDestination, place: Place) -> Mount {
        Mount {
            tape,
            place,
            step: Step::ElementStatus,
            in_flight: false,
            due: Time::ZERO,
            loading: None,
            returned: false,
            object: None,
        }
    }

    /// Returns when [`Mount::poll_command`] may return a command again; `None` while one is in
    /// flight, or if none follows.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        (!self.in_flight && self.object.is_none()).then_some(self.due)
    }

    /// Returns the next command, whose result [`Mount::handle_done`] takes.
    pub fn poll_command(&mut self, now: Time) -> Option<TapeCommand> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.in_flight = true;
        Some(self.command())
    }

    /// Returns the object at which the tape is, once the drive is prepared.
    #[must_use]
    pub fn object(&self) -> Option<u64> {
        self.object
    }

    fn command(&self) -> TapeCommand {
        let of_drive = |cdb, answer_bytes| TapeCommand {
            unit: Unit::Drive,
            cdb,
            answer_bytes,
            list: Vec::new(),
        };
        let of_changer = |command, answer_bytes| TapeCommand {
            unit: Unit::Changer,
            cdb: Cdb::Changer(command),
            answer_bytes,
            list: Vec::new(),
        };
        let immediate = false;
        match self.step {
            Step::ElementStatus => of_changer(
                ChangerCommand::ReadElementStatus {
                    volume_tags: true,
                    element_type: 0,
                    start: 0,
                    count: u16::MAX,
                    current_data: false,
                    device_identifiers: false,
                    allocation_length: ELEMENTS_BYTES,
                },
                ELEMENTS_BYTES,
            ),
            Step::Return { from, to } | Step::Fetch { from, to } => of_changer(
                ChangerCommand::MoveMedium {
                    transport: 0,
                    source: from,
                    destination: to,
                },
                0,
            ),
            Step::TestUnitReady => of_drive(Cdb::TestUnitReady, 0),
            // Page 0 is no page: the block descriptor alone, as the `st` driver asks for it.
            Step::ModeSense => of_drive(
                Cdb::ModeSense(ModeSense {
                    ten: false,
                    disable_block_descriptors: false,
                    long_lba: false,
                    control: PageControl::Current,
                    page: 0,
                    subpage: 0,
                    allocation_length: MODE_BYTES,
                }),
                MODE_BYTES.into(),
            ),
            Step::ModeSelect => {
                let cdb = Cdb::ModeSelect(ModeSelect {
                    ten: false,
                    page_format: true,
                    save_pages: false,
                    parameter_list_length: MODE_BYTES,
                });
                TapeCommand {
                    list: mode_list(self.tape.fixed_block_bytes.unwrap_or(0)),
                    ..of_drive(cdb, 0)
                }
            }
            Step::Position => {
                let command = match self.place {
                    Place::Beginning => StreamCommand::Rewind { immediate },
                    Place::EndOfData => StreamCommand::Space {
                        code: SpaceCode::EndOfData,
                        count: 0,
                    },
                    Place::Object(object) => StreamCommand::Locate {
                        immediate,
                        partition: None,
                        object,
                    },
                };
                of_drive(Cdb::Stream(command), 0)
            }
            Step::ReadPosition => of_drive(read_position(), POSITION_BYTES),
        }
    }

    fn name(&self) -> &'static str {
        match (self.step, self.place) {
            (Step::ElementStatus, _) => "READ ELEMENT STATUS",
            (Step::Return { .. } | Step::Fetch { .. }, _) => "MOVE MEDIUM",
            (Step::TestUnitReady, _) => "TEST UNIT READY",
            (Step::ModeSense, _) => "MODE SENSE",
            (Step::ModeSelect, _) => "MODE SELECT",
            (Step::Position, Place::Beginning) => "REWIND",
            (Step::Position, Place::EndOfData) => "SPACE",
            (Step::Position, Place::Object(_)) => "LOCATE",
            (Step::ReadPosition, _) => "READ POSITION",
        }
    }

    /// Processes the result of the last command.
    ///
    /// # Errors
    /// The tape cannot be prepared.
    pub fn handle_done(&mut self, now: Time, done: &Done) -> Result<(), TapeError> {
        self.in_flight = false;
        let command = self.name();
        match done.result {
            Err(TaskError::Check(sense)) if self.is_loading(&sense) => {
                let loading = *self.loading.get_or_insert(now);
                if now >= loading + READY_WAIT {
                    return Err(TapeError::NotReady { after: READY_WAIT });
                }
                self.due = now + READY_PAUSE;
                return Ok(());
            }
            Err(error) => {
                return Err(TapeError::of_command(command, &self.tape.cartridge, error));
            }
            Ok(_) => {}
        }
        self.step = match self.step {
            Step::ElementStatus => {
                let elements =
                    parse_elements(&done.data).map_err(|_| TapeError::Answer { command })?;
                self.plan_moves(&elements)?
            }
            // The cartridge is looked for again, because the slots have changed.
            Step::Return { .. } => {
                self.returned = true;
                Step::ElementStatus
            }
            Step::Fetch { .. } => Step::TestUnitReady,
            Step::TestUnitReady => Step::ModeSense,
            Step::ModeSense => {
                let mode = ModeData::parse(&done.data, false);
                let mode = mode.map_err(|_| TapeError::Answer { command })?;
                if mode.write_protected && !matches!(self.place, Place::Object(_)) {
                    let barcode = self.tape.cartridge.clone();
                    return Err(TapeError::WriteProtected { barcode });
                }
                Step::ModeSelect
            }
            Step::ModeSelect => Step::Position,
            Step::Position => Step::ReadPosition,
            Step::ReadPosition => {
                let object = parse_position(&done.data).ok_or(TapeError::Answer { command })?;
                if let Place::Object(expected) = self.place
                    && object != expected
                {
                    let actual = object;
                    return Err(TapeError::Moved { expected, actual });
                }
                self.object = Some(object);
                Step::ReadPosition
            }
        };
        Ok(())
    }

    fn is_loading(&self, sense: &Sense) -> bool {
        self.step == Step::TestUnitReady
            && sense.key == SenseKey::NotReady
            && sense.additional == BECOMING_READY
    }

    /// Returns the move that brings the cartridge closer to the drive, or the step after the moves.
    fn plan_moves(&self, elements: &[ElementStatus]) -> Result<Step, TapeError> {
        let barcode = &self.tape.cartridge;
        let mut drives: Vec<&ElementStatus> = elements
            .iter()
            .filter(|element| element.element_type == DRIVE)
            .collect();
        drives.sort_by_key(|drive| drive.address);
        let Some(drive) = drives.get(usize::from(self.tape.drive)) else {
            return Err(TapeError::NoDrive {
                drive: self.tape.drive,
                drives: drives.len(),
            });
        };
        let holder = elements
            .iter()
            .find(|element| element.full && element.barcode == *barcode);
        let Some(holder) = holder else {
            let barcode = barcode.clone();
            return Err(TapeError::NoCartridge { barcode });
        };
        if holder.address == drive.address {
            return Ok(Step::TestUnitReady);
        }
        if holder.element_type == DRIVE {
            let barcode = barcode.clone();
            return Err(TapeError::InUse { barcode });
        }
        if drive.full && self.returned {
            return Err(TapeError::Answer {
                command: "MOVE MEDIUM",
            });
        }
        if drive.full {
            let slots = elements
                .iter()
                .filter(|element| element.element_type == SLOT);
            let mut free = slots.filter(|slot| !slot.full).map(|slot| slot.address);
            let home = free.clone().find(|slot| drive.source == Some(*slot));
            let to = home.or_else(|| free.next()).ok_or(TapeError::NoSlot)?;
            let from = drive.address;
            return Ok(Step::Return { from, to });
        }
        Ok(Step::Fetch {
            from: holder.address,
            to: drive.address,
        })
    }
}

/// Returns READ POSITION in its long form, whose answer [`parse_position`] reads.
pub fn read_position() -> Cdb {
    Cdb::Stream(StreamCommand::ReadPosition {
        form: PositionForm::Long,
        allocation_length: 0,
    })
}

/// Returns the number of the object at which the tape is (SSC-3 section 7.8.3); `None` if the drive
/// does not know it or the answer is too short.
pub fn parse_position(data: &[u8]) -> Option<u64> {
    // LONU and PERR.
    const UNKNOWN: u8 = 0x04 | 0x02;
    let known = *data.first()? & UNKNOWN == 0;
    let object = data.get(8..16)?.try_into().ok()?;
    known.then(|| u64::from_be_bytes(object))
}

/// Returns the parameter list of MODE SELECT: buffered mode, density as it is, and the block length,
/// 0 for variable blocks.
fn mode_list(block_bytes: u32) -> Vec<u8> {
    let descriptor = BlockDescriptor {
        blocks: 0,
        block_length: block_bytes,
    };
    let mode = ModeData {
        block_descriptor: Some(descriptor),
        ..ModeData::default()
    };
    let mut list = mode.emit(false, false);
    // MODE DATA LENGTH is reserved in a list for MODE SELECT (SPC-4 section 6.11).
    (list[0], list[2]) = (0, BUFFERED);
    list
}

#[cfg(test)]
mod tests {
    use hakaru_iscsi_session::Phases;

    use super::*;

    fn tape(drive: u16) -> TapeDestination {
        TapeDestination {
            changer_lun: 0,
            drive,
            cartridge: "HAK002L5".into(),
            append: false,
            fixed_block_bytes: Some(65_536),
            filemark_every_bytes: None,
            immediate_filemarks: false,
        }
    }

    fn element(element_type: u8, address: u16, barcode: &str) -> ElementStatus {
        ElementStatus {
            element_type,
            address,
            full: !barcode.is_empty(),
            source: None,
            barcode: barcode.into(),
        }
    }

    #[test]
    fn the_list_of_mode_select_is_the_one_of_the_st_driver() {
        assert_eq!(mode_list(65_536), [0, 0, 0x10, 8, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn moves_return_the_other_cartridge_first_and_name_what_is_missing() {
        let mount = |drive| Mount::new(tape(drive), Place::Beginning);
        let mut elements = vec![
            element(SLOT, 0x401, ""),
            element(SLOT, 0x402, "HAK002L5"),
            element(SLOT, 0x403, ""),
            element(DRIVE, 0x100, "HAK001L5"),
        ];
        let plan = |elements: &[ElementStatus]| mount(0).plan_moves(elements);
        elements[3].source = Some(0x403);
        let (from, to) = (0x100, 0x403);
        assert_eq!(plan(&elements), Ok(Step::Return { from, to }));
        elements[3].source = None;
        let (from, to) = (0x100, 0x401);
        assert_eq!(plan(&elements), Ok(Step::Return { from, to }));
        elements[3] = element(DRIVE, 0x100, "");
        let (from, to) = (0x402, 0x100);
        assert_eq!(plan(&elements), Ok(Step::Fetch { from, to }));
        elements.remove(1);
        elements[2] = element(DRIVE, 0x100, "HAK002L5");
        assert_eq!(
            mount(1).plan_moves(&elements),
            Err(TapeError::NoDrive {
                drive: 1,
                drives: 1
            })
        );
        assert_eq!(plan(&elements), Ok(Step::TestUnitReady));
        elements.push(element(DRIVE, 0x101, ""));
        let barcode = String::from("HAK002L5");
        assert_eq!(
            mount(1).plan_moves(&elements),
            Err(TapeError::InUse {
                barcode: barcode.clone()
            })
        );
        elements[2] = element(DRIVE, 0x100, "");
        assert_eq!(plan(&elements), Err(TapeError::NoCartridge { barcode }));
    }

    #[test]
    fn a_drive_that_never_becomes_ready_and_a_cartridge_that_stays_are_errors() {
        let mut mount = Mount::new(tape(0), Place::Beginning);
        mount.step = Step::TestUnitReady;
        let sense = Sense {
            key: SenseKey::NotReady,
            additional: BECOMING_READY,
            ..Sense::default()
        };
        let done = |result| Done {
            tag: 0,
            result,
            ended: Time::ZERO,
            phases: Phases::default(),
            busies: 0,
            data: Vec::new(),
        };
        let loading = done(Err(TaskError::Check(sense)));
        let mut now = Time::ZERO + READY_PAUSE;
        let error = loop {
            assert!(mount.poll_command(now).is_some());
            match mount.handle_done(now, &loading) {
                Ok(()) => now = mount.due().expect("another question follows"),
                Err(error) => break error,
            }
        };
        assert_eq!(error, TapeError::NotReady { after: READY_WAIT });
        assert_eq!(now, Time::ZERO + READY_PAUSE + READY_WAIT);

        let mut mount = Mount::new(tape(0), Place::Beginning);
        let elements = [
            element(SLOT, 0x401, ""),
            element(SLOT, 0x402, "HAK002L5"),
            element(DRIVE, 0x100, "HAK001L5"),
        ];
        mount.step = mount.plan_moves(&elements).unwrap();
        mount.handle_done(now, &done(Ok(0))).unwrap();
        let stays = Err(TapeError::Answer {
            command: "MOVE MEDIUM",
        });
        assert_eq!(mount.plan_moves(&elements), stays);
    }

    #[test]
    fn a_drive_without_a_known_position_is_refused() {
        let mut data = vec![0; 32];
        data[15] = 7;
        assert_eq!(parse_position(&data), Some(7));
        assert_eq!(parse_position(&data[..15]), None);
        data[0] = 0x04;
        assert_eq!(parse_position(&data), None);
    }
}
