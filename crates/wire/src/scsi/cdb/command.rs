//! The commands that a device receives, as an enum.
use super::changer::ChangerCommand;
use super::control::{LogSense, ModeSelect, PersistentReserveOut, ReportedCommands};
use super::copy::CopyResults;
use super::extent::{ReadDefectData, Sanitize, Verify, WriteAtomic, WriteSame};
use super::mode::ModeSense;
use super::primary::StartStopUnit;
use super::stream::StreamCommand;
use super::tape_service::TapeService;
use super::transfer::Transfer;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cdb {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// DESC: descriptor format.
        descriptor_format: bool,
        /// Maximum length of the answer, bytes.
        allocation_length: u8,
    },
    /// INQUIRY.
    Inquiry {
        /// Vital product data page requested; `None` requests standard data.
        page: Option<u8>,
        /// Maximum length of the answer, bytes.
        allocation_length: u16,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// MODE SELECT.
    ModeSelect(ModeSelect),
    /// LOG SENSE.
    LogSense(LogSense),
    /// PREVENT ALLOW MEDIUM REMOVAL.
    PreventAllowMediumRemoval {
        /// PREVENT: 0 allows, 1 prevents; 2 and 3 are obsolete.
        prevent: u8,
    },
    /// RESERVE.
    Reserve,
    /// RELEASE.
    Release,
    /// PERSISTENT RESERVE IN.
    PersistentReserveIn {
        /// SERVICE ACTION, 0 to 31; see [`crate::scsi::ReserveIn`].
        service_action: u8,
        /// Maximum length of the answer, bytes.
        allocation_length: u16,
    },
    /// PERSISTENT RESERVE OUT.
    PersistentReserveOut(PersistentReserveOut),
    /// REPORT IDENTIFYING INFORMATION.
    ReportIdentifyingInformation {
        /// INFORMATION TYPE, 0 to 127; see [`crate::scsi::IdentifyingKind`].
        information_type: u8,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// SET IDENTIFYING INFORMATION. Its parameter list is the information itself.
    SetIdentifyingInformation {
        /// INFORMATION TYPE, 0 to 127; see [`crate::scsi::IdentifyingKind`].
        information_type: u8,
        /// Bytes of the parameter list; 0 removes the information.
        parameter_list_length: u32,
    },
    /// REPORT TARGET PORT GROUPS.
    ReportTargetPortGroups {
        /// Whether the extended header is requested.
        extended_header: bool,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// SET TARGET PORT GROUPS. The states are in its parameter list,
    /// [`crate::scsi::parse_port_states`].
    SetTargetPortGroups {
        /// Bytes of the parameter list.
        parameter_list_length: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportSupportedOpcodes {
        /// Commands to report.
        commands: ReportedCommands,
        /// RCTD: with command timeouts descriptors.
        timeouts: bool,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportSupportedTaskManagement {
        /// REPD: 16 bytes instead of 4.
        extended: bool,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// START STOP UNIT.
    StartStopUnit(StartStopUnit),
    /// READ CAPACITY(10).
    ReadCapacity10,
    /// READ CAPACITY(16).
    ReadCapacity16 {
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// READ.
    Read(Transfer),
    /// WRITE.
    Write(Transfer),
    /// SYNCHRONIZE CACHE.
    SynchronizeCache {
        /// First block.
        lba: u64,
        /// Number of blocks; 0: to the end.
        blocks: u32,
        /// IMMED: complete the command before the operation.
        immediate: bool,
    },
    /// VERIFY.
    Verify(Verify),
    /// WRITE AND VERIFY.
    WriteAndVerify(Verify),
    /// COMPARE AND WRITE: at most 255 blocks.
    CompareAndWrite(Transfer),
    /// ORWRITE(16).
    OrWrite(Transfer),
    /// WRITE ATOMIC(16).
    WriteAtomic(WriteAtomic),
    /// WRITE SAME.
    WriteSame(WriteSame),
    /// UNMAP.
    Unmap {
        /// ANCHOR.
        anchor: bool,
        /// Bytes of the parameter list.
        parameter_list_length: u16,
    },
    /// GET LBA STATUS.
    GetLbaStatus {
        /// First block.
        lba: u64,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// PRE-FETCH.
    PreFetch {
        /// First block.
        lba: u64,
        /// Number of blocks; 0: to the end.
        blocks: u32,
        /// IMMED: complete the command before the operation.
        immediate: bool,
    },
    /// SANITIZE.
    Sanitize(Sanitize),
    /// READ DEFECT DATA.
    ReadDefectData(ReadDefectData),
    /// EXTENDED COPY(LID1).
    ExtendedCopy {
        /// Bytes of the parameter list.
        parameter_list_length: u32,
    },
    /// RECEIVE COPY RESULTS.
    ReceiveCopyResults {
        /// Service action.
        results: CopyResults,
        /// LIST IDENTIFIER of the copy.
        list: u8,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// SELECT REPORT: 0 addressable, 1 well-known only, 2 all.
        select_report: u8,
        /// Maximum length of the answer, bytes.
        allocation_length: u32,
    },
    /// A command of tape drives alone.
    Stream(StreamCommand),
    /// A command that serves a tape drive beside its data.
    TapeService(TapeService),
    /// A command of medium changers alone.
    Changer(ChangerCommand),
}
