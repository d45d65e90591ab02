//! Identification: INQUIRY with its VPD pages, REPORT LUNS (SPC-4 sections 6.6, 6.33, 7.8; SBC-3
//! section 6.6). Drives and changers of a tape library have the first three pages. Further pages of
//! drives are in `stream::vital`.

use hakaru_wire::scsi::Lun;
use hakaru_wire::scsi::{
    BlockDeviceCharacteristics, BlockLimits, Cdb, CdbError, Designator, DesignatorKind, DeviceType,
    Inquiry, LogicalBlockProvisioning, PeripheralQualifier, Sense, Vpd, emit_luns, page,
};

use super::info::{C, CommandInfo, Direction, Ports, Request, Sanitizing, X};
use super::ports::number;
use super::stream::vital;
use crate::context::Device;
use crate::limits;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x12, 0x01, X, X, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Every).sanitizing(Sanitizing::Allowed).passing_attention().without_unit(without_unit),
    CommandInfo::new(&[0xa0, 0, X, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Every).sanitizing(Sanitizing::Allowed).passing_attention().without_unit(execute),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::Inquiry {
            page,
            allocation_length,
        } => inquiry(device, lu, page, allocation_length),
        Cdb::ReportLuns {
            select_report,
            allocation_length,
        } => report_luns(device, select_report, allocation_length),
        _ => request.of_another_family(),
    }
}

fn without_unit(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::Inquiry {
            page,
            allocation_length,
        } => inquiry_without_unit(device, page, allocation_length),
        _ => request.of_another_family(),
    }
}

/// T10 VENDOR IDENTIFICATION, unless an LU has another one.
const VENDOR: &str = "HAKARU";
const PRODUCT: &str = "ARRAY LU";
const CHANGER: &str = "TAPE LIBRARY";
/// PRODUCT REVISION LEVEL has four characters: major and minor version.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// Supported VPD pages, ascending.
const PAGES: [u8; 7] = [
    page::SUPPORTED_PAGES,
    page::UNIT_SERIAL_NUMBER,
    page::DEVICE_IDENTIFICATION,
    page::THIRD_PARTY_COPY,
    page::BLOCK_LIMITS,
    page::BLOCK_DEVICE_CHARACTERISTICS,
    page::LOGICAL_BLOCK_PROVISIONING,
];

/// Number of these that drives and changers of a tape library have, too.
const TAPE_PAGES: usize = 3;

/// TPGS: implicit asymmetric logical unit access. No command changes the state of port groups.
const IMPLICIT_ACCESS: u8 = 1;

/// TPGS: implicit and explicit access.
const EXPLICIT_ACCESS: u8 = 3;

/// PERIPHERAL QUALIFIER 3, device type 1Fh: the LUN has no LU and cannot have one.
const NO_UNIT: u8 = 0x7f;

pub(super) fn inquiry(
    device: &mut Device<'_>,
    lu: u8,
    page: Option<u8>,
    allocation_length: u16,
) -> Outcome {
    let Some(code) = page else {
        let data = standard_of(device, lu).emit();
        return device.answer(&data, allocation_length.into());
    };
    let device_type = type_of(device, lu);
    if device_type != DeviceType::Disk && !PAGES[..TAPE_PAGES].contains(&code) {
        let drive = device.units.get(lu);
        let drive = drive.filter(|_| device_type == DeviceType::Tape);
        return match drive.and_then(|unit| vital::page(code, &serial_number(unit))) {
            Some(data) => device.answer(&data, allocation_length.into()),
            None => Outcome::check(CdbError::InvalidField { byte: 2, bit: None }.sense()),
        };
    }
    if code == page::THIRD_PARTY_COPY {
        return device.answer(&limits::COPY.emit_page(), allocation_length.into());
    }
    let Some(page) = device
        .units
        .get(lu)
        .and_then(|unit| vital_product_data(device, unit, code))
    else {
        return Outcome::check(CdbError::InvalidField { byte: 2, bit: None }.sense());
    };
    let mut data = page.emit();
    data[0] = device_type as u8;
    device.answer(&data, allocation_length.into())
}

fn type_of(device: &Device<'_>, lu: u8) -> DeviceType {
    let unit = device.units.get(lu);
    unit.map_or(DeviceType::Disk, |unit| unit.description.kind.device_type())
}

/// Returns the standard data of an LU, with its names.
fn standard_of(device: &Device<'_>, lu: u8) -> Inquiry {
    let mut inquiry = nameless_standard_of(device, lu);
    if let Some(unit) = device.units.get(lu) {
        inquiry.vendor = vendor(unit).to_owned();
        let product = unit.description.names.product.clone();
        inquiry.product = product.unwrap_or(inquiry.product);
    }
    inquiry
}

/// Returns the standard data of an LU without names of its own. A drive or a changer executes one command at a time.
fn nameless_standard_of(device: &Device<'_>, lu: u8) -> Inquiry {
    let description = device.units.get(lu).map(|unit| &unit.description);
    let is_explicit = description.is_some_and(|lu| lu.explicit_access);
    let device_type = type_of(device, lu);
    let disk = Inquiry {
        removable: description.is_some_and(|lu| lu.removable),
        target_port_groups: if is_explicit {
            EXPLICIT_ACCESS
        } else {
            IMPLICIT_ACCESS
        },
        third_party_copy: device_type == DeviceType::Disk,
        multiple_ports: device.ports.count() > 1,
        ..standard(PeripheralQualifier::Connected, device_type as u8)
    };
    let (product, standard) = match device_type {
        DeviceType::Disk => return disk,
        DeviceType::Changer => (CHANGER, Inquiry::SMC_3),
        DeviceType::Tape => {
            let drive = device.units.tape().and_then(|tape| tape.drive(lu));
            let product = drive.map_or("", |drive| drive.generation.product());
            (product, Inquiry::SSC_3)
        }
    };
    Inquiry {
        command_queuing: false,
        product: product.to_owned(),
        version_descriptors: vec![Inquiry::SAM_5, Inquiry::ISCSI, Inquiry::SPC_4, standard],
        ..disk
    }
}

pub(super) fn inquiry_without_unit(
    device: &mut Device<'_>,
    page: Option<u8>,
    allocation_length: u16,
) -> Outcome {
    match page {
        None => {
            let data = standard(PeripheralQualifier::NotSupported, NO_UNIT & 0x1f).emit();
            device.answer(&data, allocation_length.into())
        }
        Some(page::SUPPORTED_PAGES) => {
            let mut data = Vpd::SupportedPages(vec![page::SUPPORTED_PAGES]).emit();
            data[0] = NO_UNIT;
            device.answer(&data, allocation_length.into())
        }
        Some(_) => Outcome::check(CdbError::InvalidField { byte: 2, bit: None }.sense()),
    }
}

fn standard(qualifier: PeripheralQualifier, device_type: u8) -> Inquiry {
    Inquiry {
        qualifier,
        device_type,
        removable: false,
        version: 6,
        target_port_groups: 0,
        third_party_copy: false,
        multiple_ports: false,
        hierarchical: true,
        command_queuing: true,
        vendor: VENDOR.to_owned(),
        product: PRODUCT.to_owned(),
        revision: REVISION.to_owned(),
        version_descriptors: vec![
            Inquiry::SAM_5,
            Inquiry::ISCSI,
            Inquiry::SPC_4,
            Inquiry::SBC_3,
        ],
    }
}

fn vital_product_data(device: &Device<'_>, unit: &LogicalUnit, code: u8) -> Option<Vpd> {
    Some(match code {
        page::SUPPORTED_PAGES => Vpd::SupportedPages(match unit.description.kind.device_type() {
            DeviceType::Disk => PAGES.to_vec(),
            DeviceType::Changer => PAGES[..TAPE_PAGES].to_vec(),
            DeviceType::Tape => [&PAGES[..TAPE_PAGES], &vital::PAGES].concat(),
        }),
        page::UNIT_SERIAL_NUMBER => Vpd::UnitSerialNumber(serial_number(unit)),
        page::DEVICE_IDENTIFICATION => Vpd::DeviceIdentification(designators(device, unit)),
        page::BLOCK_LIMITS => Vpd::BlockLimits(block_limits(device, unit)),
        page::BLOCK_DEVICE_CHARACTERISTICS => {
            // After either kind of erase, reads succeed and return zeros.
            let after_erase = u8::from(unit.description.sanitize);
            Vpd::BlockDeviceCharacteristics(BlockDeviceCharacteristics {
                medium_rotation_rate: unit.description.rotation_rate_rpm.unwrap_or(1),
                nominal_form_factor: 0,
                after_block_erase: after_erase,
                after_cryptographic_erase: after_erase,
            })
        }
        page::LOGICAL_BLOCK_PROVISIONING => {
            let thin = unit.description.thin.is_some();
            Vpd::LogicalBlockProvisioning(LogicalBlockProvisioning {
                unmap: thin,
                write_same_16: thin,
                write_same_10: thin,
                deallocated_reads_zero: thin,
                provisioning_type: if thin { THIN } else { 0 },
                ..LogicalBlockProvisioning::default()
            })
        }
        _ => return None,
    })
}

/// PROVISIONING TYPE: thin.
const THIN: u8 = 2;

fn block_limits(device: &Device<'_>, unit: &LogicalUnit) -> BlockLimits {
    let block_bytes = unit.block_bytes;
    let thin = unit.description.thin;
    let granularity = thin.map_or(0, |thin| thin.page_bytes / u64::from(block_bytes));
    BlockLimits {
        maximum_compare_and_write_length: (limits::COMPARE_AND_WRITE_BYTES_MAX / block_bytes)
            .min(255) as u8,
        maximum_transfer_length: device.transfer_bytes_max / block_bytes,
        optimal_transfer_length: (1 << 20) / block_bytes,
        optimal_transfer_length_granularity: (4096 / block_bytes) as u16,
        maximum_prefetch_length: device.transfer_bytes_max / block_bytes,
        maximum_unmap_lba_count: if thin.is_some() { u32::MAX } else { 0 },
        maximum_unmap_block_descriptor_count: if thin.is_some() {
            limits::UNMAP_DESCRIPTORS_MAX
        } else {
            0
        },
        optimal_unmap_granularity: u32::try_from(granularity).unwrap_or(0),
        unmap_granularity_alignment: thin.map(|_| 0),
        maximum_write_same_length: limits::WRITE_SAME_BLOCKS_MAX.into(),
        maximum_atomic_transfer_length: unit.description.atomic_bytes / block_bytes,
        ..BlockLimits::default()
    }
}

/// Returns the vendor of the LU.
pub(super) fn vendor(unit: &LogicalUnit) -> &str {
    let vendor = unit.description.names.vendor.as_deref();
    vendor.unwrap_or(VENDOR)
}

/// Returns the serial number of the LU.
pub(super) fn serial_number(unit: &LogicalUnit) -> String {
    format!("{:016x}", unit.identity)
}

/// Returns the NAA of the LU.
pub(super) fn lu_designator(unit: &LogicalUnit) -> u64 {
    3 << 60 | unit.identity >> 4
}

/// Returns the designators of LU, port and device. The LU has a locally assigned NAA (3h, because
/// there is no company identifier) and a serial number. The port has a number, a group and a name,
/// and the device has a name. Each portal is a portal group, which is a target port in iSCSI (RFC
/// 7143 section 4.4.5). A target port group has one or several of them.
pub(super) fn designators(device: &Device<'_>, unit: &LogicalUnit) -> Vec<Designator> {
    let naa = lu_designator(unit);
    let target = device.units.target_name();
    let group = device.ports.group_of(usize::from(device.relative_port) - 1);
    vec![
        Designator {
            kind: DesignatorKind::Naa,
            association: 0,
            code_set: 1,
            bytes: naa.to_be_bytes().to_vec(),
        },
        Designator::t10_vendor(vendor(unit), &serial_number(unit)),
        Designator::relative_target_port(device.relative_port),
        Designator::target_port_group(number(group)),
        Designator::scsi_name(1, &format!("{target},t,0x{:04x}", device.relative_port)),
        Designator::scsi_name(2, target),
    ]
}

pub(super) fn report_luns(
    device: &mut Device<'_>,
    select_report: u8,
    allocation_length: u32,
) -> Outcome {
    const WELL_KNOWN_ONLY: u8 = 1;
    // The command reports the change, so it ends the condition (SPC-4 section 6.33).
    device
        .nexus
        .end_attention(Sense::REPORTED_LUNS_DATA_CHANGED);
    let shown = if select_report == WELL_KNOWN_ONLY {
        0
    } else {
        usize::MAX
    };
    let rights = device.nexus.rights;
    let data = emit_luns(
        device
            .units
            .numbers()
            .filter(|lun| rights.sees(*lun))
            .take(shown)
            .map(|number| Lun::new(number.into())),
    );
    device.answer(&data, allocation_length)
}
