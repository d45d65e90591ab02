//! MODE SENSE and MODE SELECT (6, 10) of tape drives (SSC-3 section 8.3). Changeable are the block
//! length, the buffered mode, D_SENSE, DCE and the size of the programmable early warning. The only
//! medium type is 00h: a WORM medium, which would be another, is refused.

use hakaru_tape::{BLOCK_BYTES_MAX, Drive};
use hakaru_wire::scsi::{
    BlockDescriptor, Cdb, CdbError, FieldPointer, ModeData, ModePage, ModeSelect, ModeSelectList,
    ModeSense, PageControl, Sense,
};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::mode_select::mode_select;
use super::drive::idle_drive;
use super::mode_pages::{
    COMPRESS, COMPRESSION, DEVICE_CONFIGURATION, DISCONNECT_RECONNECT, EXTENSION, PARTITION,
    POWER_CONDITION, SELECT_COMPRESSION, Settings, WARNING_SIZE, changeable_pages, pages,
    subpage_of,
};
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x15, 0x11, 0, 0, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x1a, 0x08, X, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0x55, 0x11, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5a, 0x08, X, X, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ModeSense(mode) => mode_sense(device, lu, mode),
        Cdb::ModeSelect(mode) => mode_select(lu, mode),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::ModeSelect(mode) => select(device, request.lu, mode, list),
        _ => request.of_another_family(),
    }
}

/// Page 0 means no page: the block descriptor alone, which is what the `st` driver asks for.
const NO_PAGE: u8 = 0x00;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// MEDIUM TYPE, which MODE SENSE reports: a data cartridge that can be written again.
const MEDIUM_TYPE: u8 = 0;

/// Returns the block descriptor. Its first byte is the density code; the number of blocks is 0,
/// because the settings apply to the entire medium.
fn descriptor(drive: &Drive) -> BlockDescriptor {
    BlockDescriptor {
        blocks: u64::from(drive.format().density().code) << 24,
        block_length: drive.block_bytes,
    }
}

fn mode_sense(device: &mut Device<'_>, lu: u8, request: ModeSense) -> Outcome {
    if request.control == PageControl::Saved {
        return Outcome::check(Sense::SAVING_PARAMETERS_NOT_SUPPORTED);
    }
    let descriptor_sense = device
        .units
        .get(lu)
        .is_some_and(|unit| unit.mode.descriptor_sense);
    let writes = device.nexus.rights.writes(lu);
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let mut pages = match request.control {
        PageControl::Changeable => changeable_pages(),
        PageControl::Default => pages(Settings::DEFAULT),
        _ => pages(Settings::of(drive, descriptor_sense)),
    };
    pages.retain(|page| request.page == ALL_PAGES || request.page == page.code());
    if pages.is_empty() && request.page != NO_PAGE {
        let bit = Some(5);
        return Outcome::check(CdbError::InvalidField { byte: 2, bit }.sense());
    }
    let wanted = request.subpage;
    pages.retain(|page| [subpage_of(page), ALL_SUBPAGES].contains(&wanted));
    // With all pages, or no page, only these two are defined.
    let is_general = matches!(wanted, 0 | ALL_SUBPAGES);
    if !is_general && (pages.is_empty() || request.page == ALL_PAGES) {
        return Outcome::check(CdbError::InvalidField { byte: 3, bit: None }.sense());
    }
    let data = ModeData {
        write_protected: drive.loaded().is_ok() && drive.is_protected() || !writes,
        // This bit is BUFFERED MODE 1 of a tape drive.
        dpo_fua: drive.buffered,
        block_descriptor: (!request.disable_block_descriptors).then(|| descriptor(drive)),
        pages,
    };
    let bytes = data.emit(request.ten, false);
    device.answer(&bytes, request.allocation_length.into())
}

/// New settings of a parameter list.
struct Selected {
    block_bytes: Option<u32>,
    buffered: bool,
    descriptor_sense: Option<bool>,
    compression: Option<bool>,
    warning_megabytes: Option<u16>,
}

/// Executes MODE SELECT with its parameter list. It is applied completely or not at all.
fn select(device: &mut Device<'_>, lu: u8, request: ModeSelect, list: &[u8]) -> Outcome {
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let selected = match parse(drive, request.ten, list) {
        Ok(selected) => selected,
        Err(sense) => return Outcome::check(sense),
    };
    let settings = |drive: &Drive| {
        let lengths = (drive.block_bytes, drive.warning_megabytes);
        (lengths, drive.buffered, drive.compression)
    };
    let before = settings(drive);
    drive.block_bytes = selected.block_bytes.unwrap_or(drive.block_bytes);
    drive.buffered = selected.buffered;
    drive.compression = selected.compression.unwrap_or(drive.compression);
    let warning_megabytes = selected.warning_megabytes;
    drive.warning_megabytes = warning_megabytes.unwrap_or(drive.warning_megabytes);
    let mut changed = before != settings(drive);
    if let (Some(unit), Some(descriptor_sense)) =
        (device.units.get_mut(lu), selected.descriptor_sense)
    {
        changed |= unit.mode.descriptor_sense != descriptor_sense;
        unit.mode.descriptor_sense = descriptor_sense;
    }
    if changed {
        let sense = Sense::MODE_PARAMETERS_CHANGED;
        device.notices.push(Notice::Others { lu, sense });
    }
    Outcome::GOOD
}

fn parse(drive: &Drive, ten: bool, list: &[u8]) -> Result<Selected, Sense> {
    let parsed =
        ModeSelectList::parse(list, ten).map_err(|_| Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    let medium_type_at = if ten { 2 } else { 1 };
    if list[medium_type_at] != MEDIUM_TYPE {
        return Err(invalid(medium_type_at));
    }
    // Bits 4 to 6 of the device-specific parameter, which precedes every descriptor.
    let buffered = list[if ten { 3 } else { 2 }] >> 4 & 7;
    let mut selected = Selected {
        block_bytes: None,
        buffered: buffered == 1,
        descriptor_sense: None,
        compression: None,
        warning_megabytes: None,
    };
    if buffered > 1 {
        return Err(invalid(if ten { 3 } else { 2 }));
    }
    let descriptor_at = if ten { 8 } else { 4 };
    if let Some(BlockDescriptor {
        blocks,
        block_length,
    }) = parsed.block_descriptor
    {
        // 00h is the default density, and 7Fh leaves it as it is.
        let densities = [0, 0x7f, u64::from(drive.format().density().code)];
        if !densities.contains(&(blocks >> 24)) {
            return Err(invalid(descriptor_at));
        }
        if block_length > BLOCK_BYTES_MAX {
            return Err(invalid(descriptor_at + 5));
        }
        selected.block_bytes = Some(block_length);
    }
    let mut rest = parsed.pages;
    while !rest.is_empty() {
        let at = list.len() - rest.len();
        let (page, after) = ModePage::parse(rest).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        match page {
            ModePage::Control {
                descriptor_sense, ..
            } => selected.descriptor_sense = Some(descriptor_sense),
            ModePage::ErrorRecovery { .. } | ModePage::InformationalExceptions { .. } => {}
            ModePage::Unknown {
                code,
                subpage: None,
                ref bytes,
            } => match (code, bytes.as_slice()) {
                (COMPRESSION, [flags, ..]) => selected.compression = Some(flags & COMPRESS != 0),
                // Some initiators send more bytes than the page had in SSC-2.
                (DEVICE_CONFIGURATION, bytes) if bytes.len() > SELECT_COMPRESSION => {
                    selected.compression = Some(bytes[SELECT_COMPRESSION] != 0);
                }
                // ADDITIONAL PARTITIONS DEFINED.
                (PARTITION, [_, 0, ..]) => {}
                (PARTITION, _) => return Err(invalid(at + 3)),
                (DISCONNECT_RECONNECT | POWER_CONDITION, bytes) => {
                    unchanged(bytes, &vec![0; bytes.len()], at + 2)?;
                }
                _ => return Err(invalid(at)),
            },
            ModePage::Unknown {
                code: DEVICE_CONFIGURATION,
                subpage: Some(EXTENSION),
                ref bytes,
            } => selected.warning_megabytes = Some(warning_size(bytes, at + 4)?),
            ModePage::Unknown { .. } => return Err(invalid(at)),
            ModePage::Caching { .. } => return Err(invalid(at)),
        }
        rest = after;
    }
    Ok(selected)
}

/// Returns PEWS of the extension of the device configuration, whose fields begin `at` bytes into
/// the list. No other field may be changed.
fn warning_size(bytes: &[u8], at: usize) -> Result<u16, Sense> {
    let all = pages(Settings::DEFAULT);
    let extension = all.iter().find_map(|page| match page {
        ModePage::Unknown {
            subpage: Some(EXTENSION),
            bytes,
            ..
        } => Some(bytes.clone()),
        _ => None,
    });
    let mut current = extension.unwrap_or_default();
    if bytes.len() != current.len() {
        return Err(invalid(at - 2));
    }
    current[WARNING_SIZE].copy_from_slice(&bytes[WARNING_SIZE]);
    unchanged(bytes, &current, at)?;
    let [high, low] = [bytes[WARNING_SIZE.start], bytes[WARNING_SIZE.start + 1]];
    Ok(u16::from_be_bytes([high, low]))
}

/// Checks that the fields of a page, which begin `at` bytes into the list, have these values.
fn unchanged(bytes: &[u8], current: &[u8], at: usize) -> Result<(), Sense> {
    match bytes.iter().zip(current).position(|(new, now)| new != now) {
        Some(first) => Err(invalid(at + first)),
        None => Ok(()),
    }
}

fn invalid(byte: usize) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte: byte as u16,
        bit: None,
    })
}
