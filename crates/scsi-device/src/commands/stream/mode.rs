//! MODE SENSE and MODE SELECT (6, 10) of tape drives, REPORT DENSITY SUPPORT (SSC-3 sections 7.6
//! and 8.3). Changeable are the block length, the buffered mode, D_SENSE and DCE. The only medium
//! type is 00h: a WORM medium, which would be another, is refused.

use hakaru_tape::{BLOCK_BYTES_MAX, Density, Drive};
use hakaru_wire::scsi::{
    BlockDescriptor, Cdb, CdbError, FieldPointer, ModeData, ModePage, ModeSelect, ModeSelectList,
    ModeSense, PageControl, Sense, StreamCommand,
};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::mode_select::mode_select;
use super::drive::idle_drive;
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x15, 0x11, 0, 0, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x1a, 0x08, X, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0x44, 0x01, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x55, 0x11, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5a, 0x08, X, X, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ModeSense(mode) => mode_sense(device, lu, mode),
        Cdb::ModeSelect(mode) => mode_select(lu, mode),
        Cdb::Stream(StreamCommand::ReportDensity {
            medium,
            allocation_length,
        }) => report_density(device, lu, medium, allocation_length),
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
const COMPRESSION: u8 = 0x0f;
const DEVICE_CONFIGURATION: u8 = 0x10;
const PARTITION: u8 = 0x11;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// MEDIUM TYPE, which MODE SENSE reports: a data cartridge that can be written again.
const MEDIUM_TYPE: u8 = 0;
/// DCE of the data compression page.
const COMPRESS: u8 = 0x80;
/// DCC of the data compression page.
const CAN_COMPRESS: u8 = 0x40;
/// Compression algorithm of the data compression page: the default of the drive.
const ALGORITHM: u8 = 0x01;
/// SELECT DATA COMPRESSION ALGORITHM: offset in the device configuration page after its header.
const SELECT_COMPRESSION: usize = 12;

/// Settings that the mode data reports.
#[derive(Clone, Copy)]
struct Settings {
    descriptor_sense: bool,
    compression: bool,
}

/// Returns the mode pages, ascending.
fn pages(settings: Settings) -> Vec<ModePage> {
    let unknown = |code, bytes: Vec<u8>| ModePage::Unknown {
        code,
        subpage: None,
        bytes,
    };
    let dce = if settings.compression { COMPRESS } else { 0 };
    let mut compression = vec![dce | CAN_COMPRESS, 0x80];
    compression.extend_from_slice(&u32::from(ALGORITHM).to_be_bytes());
    compression.extend_from_slice(&u32::from(ALGORITHM).to_be_bytes());
    compression.resize(14, 0);
    // LOIS: READ POSITION is supported. EEG: the drive writes its own mark at the end of data.
    let mut configuration = vec![0; 14];
    configuration[6] = 0x40;
    configuration[8] = 0x10;
    configuration[SELECT_COMPRESSION] = settings.compression.into();
    vec![
        ModePage::ErrorRecovery {
            reassign_on_write: false,
            reassign_on_read: false,
        },
        ModePage::Control {
            descriptor_sense: settings.descriptor_sense,
            queue_algorithm: 0,
            task_aborted_status: false,
            write_protect: false,
        },
        unknown(COMPRESSION, compression),
        unknown(DEVICE_CONFIGURATION, configuration),
        // No additional partitions.
        unknown(PARTITION, vec![0, 0, 0, 0x03, 0, 0]),
        ModePage::InformationalExceptions {
            disabled: true,
            method: 0,
        },
    ]
}

/// Returns the mode pages as masks with ones in changeable bits.
fn changeable_pages() -> Vec<ModePage> {
    let settings = Settings {
        descriptor_sense: false,
        compression: false,
    };
    let mut pages: Vec<ModePage> = pages(settings).iter().map(ModePage::unchangeable).collect();
    for page in &mut pages {
        match page {
            ModePage::Control {
                descriptor_sense, ..
            } => *descriptor_sense = true,
            ModePage::Unknown { code, bytes, .. } if *code == COMPRESSION => bytes[0] = COMPRESS,
            ModePage::Unknown { code, bytes, .. } if *code == DEVICE_CONFIGURATION => {
                bytes[SELECT_COMPRESSION] = 0xff;
            }
            _ => {}
        }
    }
    pages
}

/// Returns the block descriptor. Its first byte is the density code; the number of blocks is 0,
/// because the settings apply to the entire medium.
fn descriptor(drive: &Drive) -> BlockDescriptor {
    BlockDescriptor {
        blocks: u64::from(drive.generation.density().code) << 24,
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
        PageControl::Default => pages(Settings {
            descriptor_sense: false,
            compression: true,
        }),
        _ => pages(Settings {
            descriptor_sense,
            compression: drive.compression,
        }),
    };
    pages.retain(|page| request.page == ALL_PAGES || request.page == page.code());
    if pages.is_empty() && request.page != NO_PAGE {
        let bit = Some(5);
        return Outcome::check(CdbError::InvalidField { byte: 2, bit }.sense());
    }
    if !matches!(request.subpage, 0 | ALL_SUBPAGES) {
        return Outcome::check(CdbError::InvalidField { byte: 3, bit: None }.sense());
    }
    let protected = drive
        .loaded()
        .is_ok_and(|cartridge| cartridge.write_protected);
    let data = ModeData {
        write_protected: protected || !writes,
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
    let before = (drive.block_bytes, drive.buffered, drive.compression);
    drive.block_bytes = selected.block_bytes.unwrap_or(drive.block_bytes);
    drive.buffered = selected.buffered;
    drive.compression = selected.compression.unwrap_or(drive.compression);
    let mut changed = before != (drive.block_bytes, drive.buffered, drive.compression);
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
        let densities = [0, 0x7f, u64::from(drive.generation.density().code)];
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
                code, ref bytes, ..
            } => match (code, bytes.as_slice()) {
                (COMPRESSION, [flags, ..]) => selected.compression = Some(flags & COMPRESS != 0),
                // Some initiators send more bytes than the page had in SSC-2.
                (DEVICE_CONFIGURATION, bytes) if bytes.len() > SELECT_COMPRESSION => {
                    selected.compression = Some(bytes[SELECT_COMPRESSION] != 0);
                }
                // ADDITIONAL PARTITIONS DEFINED.
                (PARTITION, [_, 0, ..]) => {}
                (PARTITION, _) => return Err(invalid(at + 3)),
                _ => return Err(invalid(at)),
            },
            ModePage::Caching { .. } => return Err(invalid(at)),
        }
        rest = after;
    }
    Ok(selected)
}

fn invalid(byte: usize) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte: byte as u16,
        bit: None,
    })
}

/// Executes REPORT DENSITY SUPPORT. A drive has the cartridges of its own generation, so drive and
/// medium have one density.
fn report_density(
    device: &mut Device<'_>,
    lu: u8,
    medium: bool,
    allocation_length: u16,
) -> Outcome {
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    if let (true, Err(condition)) = (medium, drive.loaded()) {
        return Outcome::check(condition.sense());
    }
    let mut data = vec![0; 4];
    data.extend_from_slice(&density_descriptor(drive.generation.density()));
    let length = data.len() as u16 - 2;
    data[..2].copy_from_slice(&length.to_be_bytes());
    device.answer(&data, allocation_length.into())
}

/// Width of the tape in 1/10 mm.
const MEDIA_WIDTH: u16 = 127;

/// Returns the density support data block descriptor (SSC-3 table 61).
fn density_descriptor(density: Density) -> [u8; 52] {
    const WRITABLE: u8 = 0x80;
    const DEFAULT: u8 = 0x20;
    let mut out = [0; 52];
    out[..3].copy_from_slice(&[density.code, density.code, WRITABLE | DEFAULT]);
    out[5..8].copy_from_slice(&density.bits_per_mm.to_be_bytes()[1..]);
    out[8..10].copy_from_slice(&MEDIA_WIDTH.to_be_bytes());
    out[10..12].copy_from_slice(&density.tracks.to_be_bytes());
    out[12..16].copy_from_slice(&density.capacity_mb.to_be_bytes());
    let texts = ["LTO-CVE", density.name, density.description];
    let fields = [16..24, 24..32, 32..52];
    for (range, text) in fields.into_iter().zip(texts) {
        let field = &mut out[range];
        field.fill(b' ');
        field[..text.len()].copy_from_slice(text.as_bytes());
    }
    out
}
