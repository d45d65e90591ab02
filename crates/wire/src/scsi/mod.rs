//! SCSI: the command descriptor blocks, sense data, INQUIRY and mode pages (SAM-5, SPC-4, SBC-3)
//! that hakaru's disks and initiators support.
//!
//! `emit` writes parameter data at its full length; the caller truncates it to the ALLOCATION
//! LENGTH of the command ([`truncated`]). `parse` trusts no device: lengths in the data are bounded
//! by the bytes received.

mod capacity;
mod cdb;
mod copy;
mod elements;
mod identifying;
mod inquiry;
mod log;
mod luns;
mod mode;
mod opcodes;
mod ports;
mod provisioning;
mod reservation;
mod sense;
mod volume_tag;
mod vpd;

pub use capacity::{Capacity10, Capacity16};
pub use cdb::{
    AttributeForm, ByteCheck, Cdb, CdbError, ChangerCommand, CopyResults, DeviceType, LogSense,
    ModeSelect, ModeSense, PageControl, PersistentReserveOut, PositionForm, ReadDefectData,
    ReportedCommands, Sanitize, SanitizeAction, SpaceCode, StartStopUnit, StreamCommand,
    TapeService, Transfer, Verify, WriteAtomic, WriteSame, changer_opcode, maintenance_in, opcode,
    service_opcode, stream_opcode,
};
pub use copy::{CopyDevice, CopyLimits, CopyList, CopyReport, CopySegment, CopyStatus};
pub use elements::{ElementStatus, parse_elements};
pub use identifying::{
    IdentifyingKind, emit_identifying, emit_supported_identifying, parse_identifying,
};
pub use inquiry::{Inquiry, PeripheralQualifier};
pub use log::{
    LogPage, LogParameter, ParameterKind, ResourceScope, log_page, provisioning_parameter,
};
pub use luns::{emit_luns, parse_luns};
pub use mode::{BlockDescriptor, ModeData, ModePage, ModeSelectList};
pub use opcodes::{
    CommandTimeouts, SupportedCommand, SupportedTaskManagement, emit_all_commands,
    emit_one_command, parse_all_commands,
};
pub use ports::{
    AccessState, PortGroup, emit_port_groups, emit_port_states, parse_port_groups,
    parse_port_states,
};
pub use provisioning::{
    Blocks, LbaStatus, ProvisioningStatus, emit_lba_status, emit_unmap_list, parse_lba_status,
    parse_unmap_list,
};
pub use reservation::{
    FullStatus, RegisterAndMove, ReservationType, ReserveCapabilities, ReserveIn, ReserveOut,
    ReserveOutParameters, TransportId, emit_full_status, emit_keys, emit_reservation,
};
// SAM-5 defines LUNs (section 4.7). An ISID is part of the TransportID of an iSCSI initiator port
// (SPC-4 section 7.6.4.6).
pub use crate::iscsi::{Isid, Lun};
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseKey, Status, StreamConditions};
pub use volume_tag::VolumeTemplate;
pub use vpd::{
    BlockDeviceCharacteristics, BlockLimits, Designator, DesignatorKind, LogicalBlockProvisioning,
    Vpd, page,
};

/// Returns the part of parameter data within an ALLOCATION LENGTH (SPC-4 section 4.2.5.6).
/// Truncation is no error.
pub fn truncated(data: &[u8], allocation_length: u32) -> &[u8] {
    &data[..data.len().min(allocation_length as usize)]
}

/// Reads ASCII of a fixed-size field. Unprintable bytes become `?`. Trailing spaces are removed.
fn parse_ascii(bytes: &[u8]) -> String {
    let text: String = bytes
        .iter()
        .map(|&b| {
            if (0x20..0x7f).contains(&b) {
                char::from(b)
            } else {
                '?'
            }
        })
        .collect();
    text.trim_end().to_owned()
}

/// Fills a fixed-size field with ASCII, left-aligned, padded with spaces or truncated. Unprintable
/// bytes become `?`.
fn emit_ascii(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = if (0x20..0x7f).contains(&from) {
            from
        } else {
            b'?'
        };
    }
}
