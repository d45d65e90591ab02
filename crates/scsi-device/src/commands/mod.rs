//! The SCSI disks (SAM-5, SPC-4, SBC-3): what each command does to its logical unit.
//!
//! One file per family of commands. [`execute`] is the table: it says which family answers which command, and knows what all
//! have in common. A command either ends at once, answers with parameter data, or asks for an access to the LU's blocks; it never does the
//! access itself. The rest of SBC has its place as further lines of the table and further families.
//!
//! **Not supported**: ORDERED and HEAD OF QUEUE tasks are carried out as SIMPLE ones; ACA; bidirectional commands.

mod block;
mod change;
mod compare;
mod copy;
mod defects;
mod identify;
mod log;
mod medium;
mod mode;
mod mode_select;
mod opcodes;
mod ports;
mod provisioning;
mod readiness;
mod reservation;
mod sanitize;
use hakaru_wire::scsi::{AccessState, Cdb, Lun, Sense, Status};

use crate::context::Device;
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// Carries out a CDB addressed to `lun`. `list` is its parameter list, once that is there; the first time it is `None`, and the command may ask for
/// one with [`Outcome::Parameters`].
pub fn execute(device: &mut Device<'_>, lun: Lun, cdb: &[u8], list: Option<&[u8]>) -> Outcome {
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
    if device.nexus.has_attentions()
        && !unattended()
        && let Some(sense) = device.nexus.take_attention(lu)
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
    if let Err(verdict) = admit(device, lu, cdb) {
        return Outcome::End(verdict);
    }
    if let Err(sense) = sanitize::admit(device, lu, cdb) {
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
        Cdb::TestUnitReady => readiness::test_unit_ready(device, lu),
        Cdb::StartStopUnit(request) => readiness::start_stop_unit(device, lu, request),
        Cdb::RequestSense {
            descriptor_format,
            allocation_length,
        } => readiness::request_sense(device, lu, descriptor_format, allocation_length),
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
        Cdb::Sanitize(request) => sanitize::sanitize(device, lu, request),
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

/// Whether the port, and whoever has reserved the LU, let a command through.
fn admit(device: &Device<'_>, lu: u8, cdb: &Cdb) -> Result<(), Verdict> {
    let port = device.ports.get(usize::from(device.relative_port) - 1);
    let state = port.map_or(AccessState::default(), |port| port.state);
    if let Some(sense) = ports::refusal(state, cdb) {
        return Err(Verdict::Check(sense));
    }
    let Some(unit) = device.units.get(lu) else {
        return Ok(());
    };
    if !device.nexus.rights.writes(lu) && change::changes(cdb) {
        return Err(Verdict::Check(Sense::WRITE_PROTECTED));
    }
    let admitted = unit.reservations.are_none()
        || unit
            .reservations
            .admit(&device.nexus.nexus, reservation::need(cdb));
    if admitted {
        Ok(())
    } else {
        Err(Verdict::Status(Status::RESERVATION_CONFLICT))
    }
}

/// Carries out a command whose parameter list is there.
fn execute_parameters(device: &mut Device<'_>, lu: u8, cdb: Cdb, list: &[u8]) -> Outcome {
    match cdb {
        Cdb::ModeSelect(request) => mode_select::carry_out(device, lu, request, list),
        Cdb::PersistentReserveOut(request) => reservation::carry_out(device, lu, request, list),
        Cdb::Unmap { .. } => provisioning::unmap_list(device, lu, list),
        Cdb::Sanitize(request) => sanitize::overwrite(device, lu, request, list),
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
        } => readiness::answer_sense(
            device,
            Sense::LOGICAL_UNIT_NOT_SUPPORTED,
            descriptor_format,
            allocation_length,
        ),
        _ => Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}
