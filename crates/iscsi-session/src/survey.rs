//! The survey of an LU before it is used: is it ready, its type, the target's LUNs, its size.
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{
    Capacity10, Capacity16, Cdb, Inquiry, PeripheralQualifier, Sense, SenseKey, parse_luns,
};

use crate::error::TaskError;
use crate::session::{Done, Task, TaskData};

/// Enough for standard INQUIRY data and both capacities.
const SHORT_ANSWER: u32 = 255;
/// Enough for 2047 LUNs.
const LUNS_ANSWER: u32 = 16_384;
/// Logical block lengths that a disk may have (SBC-3 leaves it open; these are what is made).
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// Block length and size of what requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Bytes of one logical block; offsets and lengths of requests are multiples of it.
    pub block_bytes: u32,
    /// Capacity.
    pub capacity_bytes: u64,
}

/// Properties that an LU reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuFacts {
    /// Block length and size.
    pub volume: Volume,
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
    /// LUNs that REPORT LUNS listed; empty if the target does not know the command.
    pub luns: Vec<u16>,
}

/// Why an LU cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// A command failed.
    #[error("{command} failed: {error}")]
    Command {
        /// Its name.
        command: &'static str,
        /// How.
        error: TaskError,
    },
    /// An answer makes no sense.
    #[error("{command} was answered with {what}")]
    Answer {
        /// The command.
        command: &'static str,
        /// Description of the answer.
        what: String,
    },
    /// There is no such LU, or it is no disk.
    #[error("LUN {lun} is not a disk ({what}); the target has LUNs {luns:?}")]
    NoDisk {
        /// The LUN asked for.
        lun: u16,
        /// Type of the LU.
        what: String,
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

/// Asks the questions one after the other. UNIT ATTENTIONs are the session's to retry.
#[derive(Debug)]
pub struct Survey {
    lun: u16,
    step: Step,
    luns: Vec<u16>,
    inquiry: Option<Inquiry>,
}

impl Survey {
    /// A survey of `lun`.
    #[must_use]
    pub fn new(lun: u16) -> Survey {
        Survey {
            lun,
            step: Step::ReportLuns,
            luns: Vec::new(),
            inquiry: None,
        }
    }

    /// The command to submit now.
    #[must_use]
    pub fn task(&self) -> Task {
        let (cdb, length) = self.step.command();
        // REPORT LUNS goes to LUN 0, which answers it even where no disk is (SPC-4 section 4.6.4).
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

    /// The command has ended. `Ok(None)`: submit [`Survey::task`] again, it is the next one.
    ///
    /// # Errors
    /// The LU cannot be loaded.
    pub fn handle_done(&mut self, done: &Done) -> Result<Option<LuFacts>, SurveyError> {
        match done.result {
            Ok(_) => self.take_answer(&done.data),
            Err(error) => self.take_failure(error),
        }
    }

    fn take_answer(&mut self, data: &[u8]) -> Result<Option<LuFacts>, SurveyError> {
        match self.step {
            Step::ReportLuns => {
                // News only: a list that cannot be read is as good as none.
                let (luns, _) = parse_luns(data).unwrap_or_default();
                self.luns = luns.iter().filter_map(|lun| lun.number()).collect();
                self.step = Step::Inquiry;
            }
            Step::Inquiry => {
                let inquiry = Inquiry::parse(data).map_err(|_| self.nonsense("too few bytes"))?;
                self.check_is_disk(&inquiry)?;
                self.inquiry = Some(inquiry);
                self.step = Step::TestUnitReady;
            }
            Step::TestUnitReady => self.step = Step::Capacity16,
            Step::Capacity16 => {
                let answer = Capacity16::parse(data).map_err(|_| self.nonsense("too few bytes"))?;
                return self
                    .conclude(answer.last_lba, answer.block_length)
                    .map(Some);
            }
            Step::Capacity10 => {
                let answer = Capacity10::parse(data).map_err(|_| self.nonsense("too few bytes"))?;
                return self
                    .conclude(u64::from(answer.last_lba), answer.block_length)
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn take_failure(&mut self, error: TaskError) -> Result<Option<LuFacts>, SurveyError> {
        let unknown_command = matches!(
            error,
            TaskError::Check(Sense {
                key: SenseKey::IllegalRequest,
                ..
            })
        );
        match self.step {
            // Old targets know neither; the one is news only, the other has a smaller brother.
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

    /// Qualifier 0 (a device is there) and type 0 (direct access block device), SPC-4 section
    /// 6.6.2.
    fn check_is_disk(&self, inquiry: &Inquiry) -> Result<(), SurveyError> {
        let what = match (inquiry.qualifier, inquiry.device_type) {
            (PeripheralQualifier::Connected, 0) => return Ok(()),
            (PeripheralQualifier::Connected, 0x0c) => "it is the target's controller".to_owned(),
            (PeripheralQualifier::Connected, device_type) => {
                format!("device type {device_type:02x}h")
            }
            _ => "no device is there".to_owned(),
        };
        Err(SurveyError::NoDisk {
            lun: self.lun,
            what,
            luns: self.luns.clone(),
        })
    }

    /// A lying target may say anything here: 0 or 2^64 blocks, blocks of 0 or 3 bytes.
    fn conclude(&mut self, last_lba: u64, block_bytes: u32) -> Result<LuFacts, SurveyError> {
        if !BLOCK_BYTES.contains(&block_bytes) || !block_bytes.is_power_of_two() {
            return Err(self.nonsense(&format!("blocks of {block_bytes} bytes")));
        }
        let capacity = last_lba
            .checked_add(1)
            .and_then(|blocks| blocks.checked_mul(u64::from(block_bytes)));
        let Some(capacity_bytes) = capacity.filter(|&bytes| bytes <= i64::MAX as u64) else {
            return Err(self.nonsense(&format!("a last block of {last_lba}")));
        };
        let inquiry = self
            .inquiry
            .take()
            .expect("INQUIRY comes before READ CAPACITY");
        Ok(LuFacts {
            volume: Volume {
                block_bytes,
                capacity_bytes,
            },
            vendor: inquiry.vendor,
            product: inquiry.product,
            revision: inquiry.revision,
            luns: std::mem::take(&mut self.luns),
        })
    }

    fn nonsense(&self, what: &str) -> SurveyError {
        SurveyError::Answer {
            command: self.step.name(),
            what: what.to_owned(),
        }
    }
}
