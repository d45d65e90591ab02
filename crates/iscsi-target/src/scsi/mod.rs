//! The SCSI disks (SAM-5, SPC-4, SBC-3): what each command does to its logical unit.
//!
//! One file per family of commands. [`execute`] is the table: it says which family answers which command, and knows what all
//! have in common. A command either ends at once, answers with parameter data, or asks for an access to the LU's blocks; it never does the
//! access itself. The rest of SBC has its place as further lines of the table and further families.
//!
//! **Not supported**: ORDERED and HEAD OF QUEUE tasks are carried out as SIMPLE ones; ACA; bidirectional commands.

mod block;
mod compare;
mod copy;
mod defects;
mod identify;
mod log;
mod logical_unit;
mod medium;
mod mode;
mod mode_select;
mod opcodes;
mod operation;
mod ports;
mod provisioning;
mod reservation;
mod rights;
mod unit;

pub(crate) use copy::{Copies, CopyResult};
pub(crate) use logical_unit::{LogicalUnit, LogicalUnits};
pub(crate) use ports::Port;
pub use reservation::RecordError;
pub(crate) use reservation::check_record;

use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{AccessState, Cdb, Sense, Status};

use crate::program::Job;
use crate::session::Session;
use crate::target::Nexus;

/// How an LU words its sense data: D_SENSE of its control mode page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenseFormat {
    Fixed,
    Descriptor,
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With this status and no sense data.
    Status(Status),
    /// CHECK CONDITION.
    Check(Sense),
}

/// What a command comes to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It ends at once and moves no data.
    End(Verdict),
    /// It answers with the parameter data in [`Device::out`], cut to the allocation length.
    Data,
    /// It reads these bytes; `length_bytes` may be 0.
    Read {
        lu: u8,
        offset_bytes: u64,
        length_bytes: u32,
    },
    /// It writes these bytes; `length_bytes` may be 0.
    Write {
        lu: u8,
        offset_bytes: u64,
        length_bytes: u32,
        fua: bool,
    },
    /// It empties the volatile cache.
    Flush { lu: u8 },
    /// It is settled by a parameter list of so many bytes, which [`execute_parameters`] gets.
    Parameters { lu: u8, length_bytes: u32 },
    /// The LU's reservations are kept, as the record in [`Device::out`].
    Keep,
    /// It takes several accesses, after data of the initiator perhaps.
    Program(Box<Job>),
    /// It begins what then goes on by itself; `immediate`: and is answered at once.
    Operation { job: Box<Job>, immediate: bool },
}

impl Outcome {
    /// The session is gone; nobody will see this.
    pub(crate) const NOTHING: Outcome = Outcome::GOOD;
    const GOOD: Outcome = Outcome::End(Verdict::Status(Status::GOOD));

    fn check(sense: Sense) -> Outcome {
        Outcome::End(Verdict::Check(sense))
    }

    fn program(job: Job) -> Outcome {
        Outcome::Program(Box::new(job))
    }
}

/// What a command means to other initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A unit attention condition for one.
    Attention { nexus: Nexus, lu: u8, sense: Sense },
    /// A unit attention condition for all but the command's own.
    Others { lu: u8, sense: Sense },
    /// The end of one's tasks on an LU.
    Abort { nexus: Nexus, lu: u8 },
}

/// What a command works on.
pub(crate) struct Device<'a> {
    pub(crate) units: &'a mut LogicalUnits,
    /// Whose command it is.
    pub(crate) session: &'a mut Session,
    /// Longest transfer of one command, bytes.
    pub(crate) transfer_bytes_max: u32,
    /// The port it came in by, from 1.
    pub(crate) relative_port: u16,
    /// The target ports, from 1.
    pub(crate) ports: &'a [Port],
    /// Parameter data goes here; empty at first.
    pub(crate) out: &'a mut Vec<u8>,
    /// What others are to be told goes here.
    pub(crate) notices: &'a mut Vec<Notice>,
}

impl Device<'_> {
    /// Whether the port, and whoever has reserved the LU, let a command through.
    fn admit(&self, lu: u8, cdb: &Cdb) -> Result<(), Verdict> {
        let port = self.ports.get(usize::from(self.relative_port) - 1);
        let state = port.map_or(AccessState::default(), |port| port.state);
        if let Some(sense) = ports::refusal(state, cdb) {
            return Err(Verdict::Check(sense));
        }
        let Some(unit) = self.units.get(lu) else {
            return Ok(());
        };
        if !self.session.rights.writes(lu) && rights::changes(cdb) {
            return Err(Verdict::Check(Sense::WRITE_PROTECTED));
        }
        let admitted = unit.reservations.are_none()
            || unit
                .reservations
                .admit(&self.session.nexus, reservation::need(cdb));
        if admitted {
            Ok(())
        } else {
            Err(Verdict::Status(Status::RESERVATION_CONFLICT))
        }
    }

    /// There is such an LU, and the access list shows it to this session. What it does not show answers as what is not there.
    fn sees(&self, lu: u8) -> bool {
        self.session.rights.sees(lu) && self.units.get(lu).is_some()
    }

    /// Takes parameter data, as much of it as the allocation length lets through.
    fn answer(&mut self, data: &[u8], allocation_length: u32) -> Outcome {
        self.out
            .extend_from_slice(hakaru_wire::scsi::truncated(data, allocation_length));
        if self.out.is_empty() {
            Outcome::GOOD
        } else {
            Outcome::Data
        }
    }
}

/// Carries out a CDB addressed to `lun`. `list` is its parameter list, once that is there; the first time it is `None`, and the command may ask for
/// one with [`Outcome::Parameters`].
pub(crate) fn execute(
    device: &mut Device<'_>,
    lun: Lun,
    cdb: &[u8],
    list: Option<&[u8]>,
) -> Outcome {
    let parsed = Cdb::parse(cdb);
    let number = lun.number().and_then(|number| u8::try_from(number).ok());
    let Some(lu) = number.filter(|number| device.sees(*number)) else {
        return match parsed {
            Ok(cdb) => execute_without_unit(device, cdb),
            Err(_) => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
        };
    };
    if let Some(list) = list
        && let Ok(cdb) = parsed
    {
        return execute_parameters(device, lu, cdb, list);
    }
    // A unit attention condition is told before anything is done, except to these three (SAM-5 section 5.14).
    let unattended = || {
        matches!(
            parsed,
            Ok(Cdb::Inquiry { .. } | Cdb::ReportLuns { .. } | Cdb::RequestSense { .. })
        )
    };
    if device.session.has_attentions()
        && !unattended()
        && let Some(sense) = device.session.take_attention(lu)
    {
        return Outcome::check(sense);
    }
    let cdb = match &parsed {
        Ok(cdb) => cdb,
        Err(error) => return Outcome::check(error.sense()),
    };
    if !provisioning::is_supported(device, lu, cdb) {
        return Outcome::check(Sense::INVALID_COMMAND_OPERATION_CODE);
    }
    if let Err(verdict) = device.admit(lu, cdb) {
        return Outcome::End(verdict);
    }
    if let Err(sense) = operation::admit(device, lu, cdb) {
        return Outcome::check(sense);
    }
    match *cdb {
        Cdb::Read(transfer) => block::read(device, lu, transfer),
        Cdb::Write(transfer) => block::write(device, lu, transfer),
        Cdb::SynchronizeCache { lba, blocks, .. } => {
            block::synchronize_cache(device, lu, lba, blocks)
        }
        Cdb::ReadCapacity10 => block::read_capacity_10(device, lu),
        Cdb::ReadCapacity16 { allocation_length } => {
            block::read_capacity_16(device, lu, allocation_length)
        }
        Cdb::TestUnitReady => unit::test_unit_ready(device, lu),
        Cdb::StartStopUnit(request) => unit::start_stop_unit(device, lu, request),
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => unit::request_sense(device, lu, descriptor_format, allocation_length),
        Cdb::Inquiry {
            page,
            allocation_length,
        } => identify::inquiry(device, lu, page, allocation_length),
        Cdb::ReportLuns {
            select_report,
            allocation_length,
        } => identify::report_luns(device, select_report, allocation_length),
        Cdb::ModeSense(request) => mode::mode_sense(device, lu, request),
        Cdb::ModeSelect(request) => mode_select::mode_select(lu, request),
        Cdb::LogSense(request) => log::log_sense(device, lu, request),
        Cdb::PreventAllowMediumRemoval { prevent } => medium::prevent_allow(device, lu, prevent),
        Cdb::Reserve => reservation::reserve(device, lu),
        Cdb::Release => reservation::release(device, lu),
        Cdb::PersistentReserveIn {
            service_action,
            allocation_length,
        } => reservation::reserve_in(device, lu, service_action, allocation_length),
        Cdb::PersistentReserveOut(request) => reservation::reserve_out(device, lu, request),
        Cdb::ReportTargetPortGroups {
            extended_header,
            allocation_length,
        } => ports::report_target_port_groups(device, extended_header, allocation_length),
        Cdb::ReportSupportedOpcodes {
            commands,
            timeouts,
            allocation_length,
        } => opcodes::report_supported_opcodes(device, lu, commands, timeouts, allocation_length),
        Cdb::ReportSupportedTaskManagement {
            extended,
            allocation_length,
        } => opcodes::report_supported_task_management(device, extended, allocation_length),
        Cdb::Verify(request) => compare::verify(device, lu, request),
        Cdb::WriteAndVerify(request) => compare::write_and_verify(device, lu, request),
        Cdb::CompareAndWrite(request) => compare::compare_and_write(device, lu, request),
        Cdb::OrWrite(request) => compare::or_write(device, lu, request),
        Cdb::PreFetch {
            lba,
            blocks,
            immediate,
        } => compare::pre_fetch(device, lu, (lba, blocks), immediate),
        Cdb::WriteAtomic(request) => block::write_atomic(device, lu, request),
        Cdb::WriteSame(request) => provisioning::write_same(device, lu, request),
        Cdb::Unmap {
            anchor,
            parameter_list_length,
        } => provisioning::unmap(device, lu, anchor, parameter_list_length),
        Cdb::GetLbaStatus {
            lba,
            allocation_length,
        } => provisioning::get_lba_status(device, lu, lba, allocation_length),
        Cdb::Sanitize(request) => operation::sanitize(device, lu, request),
        Cdb::ReadDefectData(request) => defects::read_defect_data(device, lu, request),
        Cdb::ExtendedCopy {
            parameter_list_length,
        } => copy::extended_copy(device, lu, parameter_list_length),
        Cdb::ReceiveCopyResults {
            results,
            list,
            allocation_length,
        } => copy::receive_copy_results(device, lu, results, list, allocation_length),
    }
}

/// Carries out a command whose parameter list is there.
fn execute_parameters(device: &mut Device<'_>, lu: u8, cdb: Cdb, list: &[u8]) -> Outcome {
    match cdb {
        Cdb::ModeSelect(request) => mode_select::carry_out(device, lu, request, list),
        Cdb::PersistentReserveOut(request) => reservation::carry_out(device, lu, request, list),
        Cdb::Unmap { .. } => provisioning::unmap_list(device, lu, list),
        Cdb::Sanitize(request) => operation::overwrite(device, lu, request, list),
        Cdb::ExtendedCopy { .. } => copy::copy_list(device, lu, list),
        _ => unreachable!("only these ask for a parameter list"),
    }
}

/// The commands that are answered for a LUN with nothing behind it (SPC-4 section 6.6.1, SAM-5 section 5.11).
fn execute_without_unit(device: &mut Device<'_>, cdb: Cdb) -> Outcome {
    match cdb {
        Cdb::Inquiry {
            page,
            allocation_length,
        } => identify::inquiry_without_unit(device, page, allocation_length),
        Cdb::ReportLuns {
            select_report,
            allocation_length,
        } => identify::report_luns(device, select_report, allocation_length),
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => unit::answer_sense(
            device,
            Sense::LOGICAL_UNIT_NOT_SUPPORTED,
            descriptor_format,
            allocation_length,
        ),
        _ => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}
