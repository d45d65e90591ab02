//! EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 sections 6.3 and 6.20).
//!
//! A list names LUs by designators of their device identification page. Only LUs of this target
//! that the initiator may access are considered. Any other name gets the same answer, whether it
//! exists or not.

use hakaru_wire::scsi::{
    Cdb, CopyList, CopyReport, CopyResults, CopySegment, CopyStatus, Designator, Sense, SenseKey,
};

use super::block::extent;
use super::identify;
use super::info::{C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::limits::COPY;
use crate::outcome::Outcome;
use crate::program::{CHUNK_BYTES, Copy, Job, Program, Segment};
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::Out, execute).action(0x00).with_list(with_list),
    CommandInfo::new(&[0x84, 0x00, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x00).harmless(Need::Write),
    CommandInfo::new(&[0x84, 0x03, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x03).harmless(Need::Write),
    CommandInfo::new(&[0x84, 0x04, X, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x04).harmless(Need::Write),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ExtendedCopy {
            parameter_list_length,
        } => extended_copy(device, lu, parameter_list_length),
        Cdb::ReceiveCopyResults {
            results,
            list,
            allocation_length,
        } => receive_copy_results(device, lu, results, list, allocation_length),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::ExtendedCopy { .. } => copy_list(device, request.lu, list),
        _ => request.of_another_family(),
    }
}

/// COPY TARGET DEVICE NOT REACHABLE.
const NOT_REACHABLE: Sense = Sense::new(SenseKey::CopyAborted, 0x0d, 0x02);

pub(super) fn extended_copy(device: &Device<'_>, lu: u8, length_bytes: u32) -> Outcome {
    const HEADER: u32 = 16;
    if device.units.get(lu).is_none() {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    }
    // A list longer than header, descriptor lists and a little inline data is refused before it is
    // received, so that no list makes the target hold more than that.
    match length_bytes {
        0 => Outcome::GOOD,
        _ if length_bytes > HEADER + 2 * COPY.list_bytes_max => {
            Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR)
        }
        length_bytes => Outcome::Parameters { lu, length_bytes },
    }
}

/// Executes EXTENDED COPY with its parameter list.
pub(super) fn copy_list(device: &Device<'_>, lu: u8, list: &[u8]) -> Outcome {
    match plan(device, lu, list) {
        Ok(Some(job)) => Outcome::program(job),
        Ok(None) => Outcome::GOOD,
        Err(sense) => Outcome::check(sense),
    }
}

/// Plans the copy. All LUs are found and all segments are checked before any data is copied.
fn plan(device: &Device<'_>, lu: u8, list: &[u8]) -> Result<Option<Job>, Sense> {
    let list = CopyList::parse(list, &COPY)?;
    let mut units = Vec::with_capacity(list.devices.len());
    for descriptor in &list.devices {
        let unit = find(device, &descriptor.designator).ok_or(NOT_REACHABLE)?;
        if descriptor.block_bytes != 0 && descriptor.block_bytes != unit.block_bytes {
            return Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
        }
        units.push(unit);
    }
    let mut segments = Vec::with_capacity(list.segments.len());
    for segment in &list.segments {
        segments.push(plan_segment(device, &units, segment)?);
    }
    let kept = list.keeps_result.then_some(list.list);
    // A result counts empty segments, too.
    let empty = segments
        .iter()
        .all(|segment| segment.from.length_bytes == 0);
    if empty && kept.is_none() {
        return Ok(None);
    }
    Ok(Some(Job {
        reads_bytes: CHUNK_BYTES as u32,
        ..Job::new(lu, Program::Copy(Copy::new(segments, kept)))
    }))
}

/// Returns the LU of that name among those that the access list shows to this session. (In
/// CVE-2020-28374 other initiators' LUs were reachable by their names.)
fn find<'a>(device: &'a Device<'_>, name: &Designator) -> Option<&'a LogicalUnit> {
    const OF_UNIT: u8 = 0;
    let same = |own: &Designator| {
        (own.association, own.kind, own.code_set) == (OF_UNIT, name.kind, name.code_set)
            && own.bytes == name.bytes
    };
    device
        .units
        .numbers()
        .filter(|number| device.sees(*number))
        .filter_map(|number| device.units.get(number))
        .find(|unit| {
            name.association == OF_UNIT && identify::designators(device, unit).iter().any(same)
        })
}

fn plan_segment(
    device: &Device<'_>,
    units: &[&LogicalUnit],
    segment: &CopySegment,
) -> Result<Segment, Sense> {
    let unit = |number: u16| units[usize::from(number)];
    let (from, to) = (unit(segment.from), unit(segment.to));
    for (unit, need) in [(from, Need::Read), (to, Need::Write)] {
        let reserved = !unit.reservations.admit(&device.nexus.nexus, need);
        if reserved || unit.ready().is_err() || unit.occupied().is_some() {
            return Err(NOT_REACHABLE);
        }
    }
    to.writable()?;
    if !device.nexus.rights.writes(to.description.lun) {
        return Err(Sense::WRITE_PROTECTED);
    }
    let counting_unit = if segment.by_destination { to } else { from };
    let bytes = u64::from(segment.blocks) * u64::from(counting_unit.block_bytes);
    let blocks_of = |unit: &LogicalUnit| {
        let block_bytes = u64::from(unit.block_bytes);
        // Partial blocks are neither padded nor cut, because PAD and CAT are not supported.
        bytes
            .is_multiple_of(block_bytes)
            .then_some((bytes / block_bytes) as u32)
            .ok_or(Sense::INVALID_FIELD_IN_PARAMETER_LIST)
    };
    let beyond = |_| Sense::new(SenseKey::CopyAborted, 0x00, 0x00);
    let source = extent(from, segment.from_lba, blocks_of(from)?).map_err(beyond)?;
    let destination = extent(to, segment.to_lba, blocks_of(to)?).map_err(beyond)?;
    Ok(Segment {
        from_lu: from.description.lun,
        from: source,
        to_lu: to.description.lun,
        to_offset_bytes: destination.offset_bytes,
        fua: to.writes_through(false),
    })
}

pub(super) fn receive_copy_results(
    device: &mut Device<'_>,
    lu: u8,
    results: CopyResults,
    list: u8,
    allocation_length: u32,
) -> Outcome {
    if results == CopyResults::OperatingParameters {
        return device.answer(&COPY.emit(), allocation_length);
    }
    let Some(result) = device.nexus.copies.take(lu, list) else {
        return Outcome::check(Sense::INVALID_FIELD_IN_CDB);
    };
    if results == CopyResults::FailedSegmentDetails {
        // Sense data went with the command's status; there are no further details.
        let details = [0, 0, 0, 54];
        let mut data = vec![0; 58];
        data[..4].copy_from_slice(&details);
        return device.answer(&data, allocation_length);
    }
    let report = CopyReport {
        status: if result.good {
            CopyStatus::Completed
        } else {
            CopyStatus::Failed
        },
        segments: result.segments,
        bytes: result.bytes,
    };
    device.answer(&report.emit(), allocation_length)
}
