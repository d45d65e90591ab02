//! The survey of an LU before it is used: the target's LUNs, the LU's type, readiness and size.
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{
    Capacity10, Capacity16, Cdb, Inquiry, PeripheralQualifier, Sense, SenseKey, parse_luns,
};

use crate::error::TaskError;
use crate::session::{Done, Task, TaskData};

/// Allocation length of INQUIRY, bytes. Standard INQUIRY data is shorter.
const SHORT_ANSWER: u32 = 255;
/// Allocation length of REPORT LUNS, bytes: room for 2047 LUNs.
const LUNS_ANSWER: u32 = 16_384;
/// Accepted logical block lengths, bytes. SBC-3 sets no limits; actual disks are within this range.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// Kind of device that an LU is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuKind {
    /// Direct access block device.
    Disk,
    /// Tape drive (sequential-access device).
    TapeDrive,
    /// Medium changer.
    Changer,
}

impl LuKind {
    /// Returns the PERIPHERAL DEVICE TYPE (SPC-4 table 140).
    fn device_type(self) -> u8 {
        match self {
            LuKind::Disk => 0x00,
            LuKind::TapeDrive => 0x01,
            LuKind::Changer => 0x08,
        }
    }

    fn name(self) -> &'static str {
        match self {
            LuKind::Disk => "a disk",
            LuKind::TapeDrive => "a tape drive",
            LuKind::Changer => "a medium changer",
        }
    }
}

/// Block length and size of an LU or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Bytes of one logical block. Offsets and lengths of requests are multiples of it.
    pub block_bytes: u32,
    /// Capacity, bytes.
    pub capacity_bytes: u64,
}

/// Properties that an LU reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuFacts {
    /// Block length and size. A tape drive or changer has neither: blocks of 1 byte without limit.
    pub volume: Volume,
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
    /// LUNs listed by REPORT LUNS. Empty if the target does not support the command.
    pub luns: Vec<u16>,
}

/// Reason why an LU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// A command failed.
    #[error("{command} failed: {error}")]
    Command {
        /// Name of the command.
        command: &'static str,
        /// Error of the command.
        error: TaskError,
    },
    /// An answer is unusable.
    #[error("{command} was answered with {answer}")]
    Answer {
        /// Name of the command.
        command: &'static str,
        /// Description of the answer.
        answer: String,
    },
    /// The LU does not exist or is another kind of device.
    #[error("LUN {lun} is not {} ({reason}); the target has LUNs {luns:?}", .expected.name())]
    OtherDevice {
        /// The LUN requested.
        lun: u16,
        /// The expected kind.
        expected: LuKind,
        /// Type of the LU, or that no device is connected.
        reason: String,
        /// LUNs of the target.
        luns: Vec<u16>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    ReportLuns,
    Inquiry,
    TestUnitReady,
    Capacity16,
    Capacity10,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::ReportLuns => "REPORT LUNS",
            Step::Inquiry => "INQUIRY",
            Step::TestUnitReady => "TEST UNIT READY",
            Step::Capacity16 => "READ CAPACITY(16)",
            Step::Capacity10 => "READ CAPACITY(10)",
        }
    }

    fn command(self) -> (Cdb, u32) {
        match self {
            Step::ReportLuns => (
                Cdb::ReportLuns {
                    select_report: 0,
                    allocation_length: LUNS_ANSWER,
                },
                LUNS_ANSWER,
            ),
            Step::Inquiry => (
                Cdb::Inquiry {
                    page: None,
                    allocation_length: SHORT_ANSWER as u16,
                },
                SHORT_ANSWER,
            ),
            Step::TestUnitReady => (Cdb::TestUnitReady, 0),
            Step::Capacity16 => (
                Cdb::ReadCapacity16 {
                    allocation_length: 32,
                },
                32,
            ),
            Step::Capacity10 => (Cdb::ReadCapacity10, 8),
        }
    }
}

/// Surveys an LU with consecutive commands. The session retries UNIT ATTENTIONs.
#[derive(Debug)]
pub struct Survey {
    lun: u16,
    kind: LuKind,
    step: Step,
    luns: Vec<u16>,
    inquiry: Option<Inquiry>,
}

impl Survey {
    /// Creates a survey of `lun`, which is to be a disk.
    #[must_use]
    pub fn new(lun: u16) -> Survey {
        Survey::of_kind(lun, LuKind::Disk)
    }

    /// Creates a survey of `lun`. Only a disk is asked for its readiness and capacity: a tape drive
    /// may be empty.
    #[must_use]
    pub fn of_kind(lun: u16, kind: LuKind) -> Survey {
        Survey {
            lun,
            kind,
            step: Step::ReportLuns,
            luns: Vec::new(),
            inquiry: None,
        }
    }

    /// Returns the command to submit now.
    #[must_use]
    pub fn task(&self) -> Task {
        let (cdb, length) = self.step.command();
        // REPORT LUNS goes to LUN 0, which answers it even without a disk (SPC-4 section 4.6.4).
        let lun = if self.step == Step::ReportLuns {
            0
        } else {
            self.lun
        };
        let data = if length == 0 {
            TaskData::None
        } else {
            TaskData::In { length, keep: true }
        };
        Task {
            tag: 0,
            lun: Lun::new(lun),
            cdb: cdb.emit(),
            data,
        }
    }

    /// Processes the completed command. On `Ok(None)` the caller submits [`Survey::task`], which is
    /// the next command.
    ///
    /// # Errors
    /// [`SurveyError`] if the LU cannot be used.
    pub fn handle_done(&mut self, done: &Done) -> Result<Option<LuFacts>, SurveyError> {
        match done.result {
            Ok(_) => self.handle_answer(&done.data),
            Err(error) => self.handle_failure(error),
        }
    }

    fn handle_answer(&mut self, data: &[u8]) -> Result<Option<LuFacts>, SurveyError> {
        match self.step {
            Step::ReportLuns => {
                // The list is only informative, so an invalid list counts as empty.
                let (luns, _) = parse_luns(data).unwrap_or_default();
                self.luns = luns.iter().filter_map(|lun| lun.number()).collect();
                self.step = Step::Inquiry;
            }
            Step::Inquiry => {
                let inquiry =
                    Inquiry::parse(data).map_err(|_| self.unusable_answer("too few bytes"))?;
                self.check_kind(&inquiry)?;
                self.inquiry = Some(inquiry);
                if self.kind != LuKind::Disk {
                    let volume = Volume {
                        block_bytes: 1,
                        capacity_bytes: i64::MAX as u64,
                    };
                    return Ok(Some(self.facts(volume)));
                }
                self.step = Step::TestUnitReady;
            }
            Step::TestUnitReady => self.step = Step::Capacity16,
            Step::Capacity16 => {
                let answer =
                    Capacity16::parse(data).map_err(|_| self.unusable_answer("too few bytes"))?;
                return self
                    .conclude(answer.last_lba, answer.block_length)
                    .map(Some);
            }
            Step::Capacity10 => {
                let answer =
                    Capacity10::parse(data).map_err(|_| self.unusable_answer("too few bytes"))?;
                return self
                    .conclude(u64::from(answer.last_lba), answer.block_length)
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn handle_failure(&mut self, error: TaskError) -> Result<Option<LuFacts>, SurveyError> {
        let unknown_command = matches!(
            error,
            TaskError::Check(Sense {
                key: SenseKey::IllegalRequest,
                ..
            })
        );
        match self.step {
            // Old targets lack both commands. REPORT LUNS is only informative, and READ
            // CAPACITY(10) replaces READ CAPACITY(16).
            Step::ReportLuns if unknown_command => self.step = Step::Inquiry,
            Step::Capacity16 if unknown_command => self.step = Step::Capacity10,
            step => {
                return Err(SurveyError::Command {
                    command: step.name(),
                    error,
                });
            }
        }
        Ok(None)
    }

    /// Checks for qualifier 0 (a device is connected) and the type of the expected kind, SPC-4
    /// section 6.6.2.
    fn check_kind(&self, inquiry: &Inquiry) -> Result<(), SurveyError> {
        let reason = match (inquiry.qualifier, inquiry.device_type) {
            (PeripheralQualifier::Connected, device_type)
                if device_type == self.kind.device_type() =>
            {
                return Ok(());
            }
            (PeripheralQualifier::Connected, 0x0c) => "it is the target's controller".to_owned(),
            (PeripheralQualifier::Connected, device_type) => {
                format!("device type {device_type:02x}h")
            }
            _ => "no device is connected".to_owned(),
        };
        Err(SurveyError::OtherDevice {
            lun: self.lun,
            expected: self.kind,
            reason,
            luns: self.luns.clone(),
        })
    }

    /// Checks the capacity and returns the result of the survey. A hostile target may report any
    /// capacity: 0 or 2^64 blocks, blocks of 0 or 3 bytes.
    fn conclude(&mut self, last_lba: u64, block_bytes: u32) -> Result<LuFacts, SurveyError> {
        if !BLOCK_BYTES.contains(&block_bytes) || !block_bytes.is_power_of_two() {
            return Err(self.unusable_answer(&format!("blocks of {block_bytes} bytes")));
        }
        let capacity = last_lba
            .checked_add(1)
            .and_then(|blocks| blocks.checked_mul(u64::from(block_bytes)));
        let Some(capacity_bytes) = capacity.filter(|&bytes| bytes <= i64::MAX as u64) else {
            return Err(self.unusable_answer(&format!("a last block of {last_lba}")));
        };
        Ok(self.facts(Volume {
            block_bytes,
            capacity_bytes,
        }))
    }

    /// Returns the result of the survey. Requires the answer to INQUIRY.
    fn facts(&mut self, volume: Volume) -> LuFacts {
        let inquiry = self
            .inquiry
            .take()
            .expect("INQUIRY comes before the result");
        LuFacts {
            volume,
            vendor: inquiry.vendor,
            product: inquiry.product,
            revision: inquiry.revision,
            luns: std::mem::take(&mut self.luns),
        }
    }

    fn unusable_answer(&self, answer: &str) -> SurveyError {
        SurveyError::Answer {
            command: self.step.name(),
            answer: answer.to_owned(),
        }
    }
}
