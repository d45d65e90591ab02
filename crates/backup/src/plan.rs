//! Division of an image into parts once both LUs are known, with a check that it fits.
use hakaru_contract::{ConfigError, refuse};
use hakaru_iscsi_session::Volume;

use crate::pack::packed_bytes_max;
use crate::part::Place;
use hakaru_contract::backup::{BackupJob, Compression};

/// Maximum number of blocks in a part. It bounds the memory for the state of the blocks.
const BLOCKS_MAX: u64 = 1 << 28;

/// Returns the parts of the job's image, one for each stream; their numbers of blocks differ by at
/// most one. `field` is the path of the job in the configuration, for messages.
///
/// Packed parts are spaced so that each has room for its worst case.
///
/// # Errors
/// The image exceeds the source, the copy exceeds the destination, or a length or offset is not a
/// multiple of an LU's block.
pub fn plan_parts(
    field: &str,
    job: &BackupJob,
    source: &Volume,
    destination: &Volume,
) -> Result<Vec<Place>, ConfigError> {
    let length = image_length(field, job, source)?;
    check_alignment(field, job, length, source, destination)?;
    let blocks = length.div_ceil(job.block_bytes.into());
    let streams = u64::from(job.streams);
    if blocks < streams || blocks.div_ceil(streams) > BLOCKS_MAX {
        return refuse(
            format!("{field}.streams"),
            format!("{}: {streams} streams for {blocks} blocks", job.name),
            "choose streams and block_bytes so that each stream has 1 to 2^28 blocks",
        );
    }
    let parts = divide(job, length, blocks, destination.block_bytes);
    let end = parts.last().map_or(0, |part| {
        part.destination_offset
            .saturating_add(room(job, part.length, destination.block_bytes))
    });
    if end > destination.capacity_bytes {
        return refuse_destination(field, job, end, destination);
    }
    Ok(parts)
}

/// Checks that offsets and lengths are multiples of both LUs' blocks.
fn check_alignment(
    field: &str,
    job: &BackupJob,
    length: u64,
    source: &Volume,
    destination: &Volume,
) -> Result<(), ConfigError> {
    for (volume, side, offset) in [
        (source, "source", job.source_offset_bytes),
        (destination, "destination", job.destination_offset_bytes),
    ] {
        let unit = u64::from(volume.block_bytes);
        let lengths = [
            (format!("{side}_offset_bytes"), offset),
            ("length_bytes".to_owned(), length),
            ("block_bytes".to_owned(), job.block_bytes.into()),
        ];
        for (name, bytes) in lengths {
            if !bytes.is_multiple_of(unit) {
                return refuse(
                    format!("{field}.{name}"),
                    format!(
                        "{}: {bytes} is not a multiple of the {side} LU's block, {unit} bytes",
                        job.name
                    ),
                    format!("use a multiple of {unit}"),
                );
            }
        }
    }
    Ok(())
}

/// Returns the error for a copy that ends at `end`, beyond the destination.
fn refuse_destination<T>(
    field: &str,
    job: &BackupJob,
    end: u64,
    destination: &Volume,
) -> Result<T, ConfigError> {
    let packed = match job.compression {
        Compression::None => "",
        Compression::Zstd { .. } => " (packed, in the worst case)",
    };
    refuse(
        format!("{field}.destination"),
        format!(
            "{}: the copy{packed} ends at byte {end}, but LUN {} of {} has only {} bytes",
            job.name, job.destination.lun, job.destination.target_name, destination.capacity_bytes
        ),
        "enlarge the destination LU, or copy a smaller image",
    )
}

fn image_length(field: &str, job: &BackupJob, source: &Volume) -> Result<u64, ConfigError> {
    let room = source
        .capacity_bytes
        .saturating_sub(job.source_offset_bytes);
    if job.length_bytes == 0 && room > 0 {
        return Ok(room);
    }
    if job.length_bytes > room || room == 0 {
        return refuse(
            format!("{field}.source"),
            format!(
                "{}: the image has {} bytes from byte {}, but LUN {} of {} has only {} bytes",
                job.name,
                job.length_bytes,
                job.source_offset_bytes,
                job.source.lun,
                job.source.target_name,
                source.capacity_bytes
            ),
            "enlarge the source LU, or copy a smaller image",
        );
    }
    Ok(job.length_bytes)
}

/// Returns the maximum space that a part of `length` bytes takes on the destination.
fn room(job: &BackupJob, length: u64, sector_bytes: u32) -> u64 {
    match job.compression {
        Compression::None => length,
        Compression::Zstd { .. } => packed_bytes_max(length, job.block_bytes, sector_bytes),
    }
}

fn divide(job: &BackupJob, length: u64, blocks: u64, sector_bytes: u32) -> Vec<Place> {
    let (streams, block) = (u64::from(job.streams), u64::from(job.block_bytes));
    let (blocks_min, longer_parts) = (blocks / streams, blocks % streams);
    let mut parts = Vec::new();
    let (mut image_offset, mut destination_offset) = (0, job.destination_offset_bytes);
    for stream in 0..streams {
        let part_blocks = blocks_min + u64::from(stream < longer_parts);
        let length = (part_blocks * block).min(length - image_offset);
        parts.push(Place {
            image_offset,
            source_offset: job.source_offset_bytes + image_offset,
            destination_offset,
            length,
            block_bytes: job.block_bytes,
        });
        image_offset += length;
        // A sum beyond 2^64 exceeds every destination.
        destination_offset = destination_offset.saturating_add(room(job, length, sector_bytes));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::backup::Lu;

    const MIB: u64 = 1 << 20;

    fn job() -> BackupJob {
        let lu = |target_name: &str| Lu {
            portal: "192.0.2.1:3260".into(),
            target_name: target_name.into(),
            lun: 3,
            initiator_name: "iqn.2026-01.lab:host".into(),
        };
        BackupJob {
            name: "vm1".into(),
            source: lu("iqn.2026-01.lab:primary"),
            source_offset_bytes: MIB,
            destination: lu("iqn.2026-01.lab:vtl"),
            destination_offset_bytes: 2 * MIB,
            length_bytes: 10 * 65_536 + 4096,
            block_bytes: 65_536,
            depth: 8,
            streams: 4,
            rate_limit_bytes_per_s: None,
            compression: Compression::None,
            verify: false,
            tape: None,
            disks: None,
        }
    }

    fn volume(capacity_bytes: u64, block_bytes: u32) -> Volume {
        Volume {
            block_bytes,
            capacity_bytes,
        }
    }

    #[test]
    fn parts_are_contiguous_on_both_lus() {
        let parts = plan_parts(
            "jobs[0]",
            &job(),
            &volume(8 * MIB, 512),
            &volume(8 * MIB, 4096),
        );
        let parts = parts.unwrap();
        let blocks: Vec<u32> = parts.iter().map(Place::blocks).collect();
        assert_eq!(blocks, [3, 3, 3, 2]);
        let (mut source, mut destination) = (MIB, 2 * MIB);
        for part in &parts {
            assert_eq!(
                (part.source_offset, part.destination_offset),
                (source, destination)
            );
            source += part.length;
            destination += part.length;
        }
        assert_eq!(source - MIB, job().length_bytes);
    }

    #[test]
    fn packed_parts_have_room_for_incompressible_data() {
        let packed = BackupJob {
            compression: Compression::Zstd { level: 3 },
            ..job()
        };
        let parts = plan_parts(
            "jobs[0]",
            &packed,
            &volume(8 * MIB, 512),
            &volume(8 * MIB, 512),
        );
        for pair in parts.unwrap().windows(2) {
            let room = pair[1].destination_offset - pair[0].destination_offset;
            assert!(room > pair[0].length && room < pair[0].length + 4096);
            assert!(room.is_multiple_of(512));
        }
    }

    #[test]
    fn every_refusal_names_the_job_the_lu_and_both_sizes() {
        type Case = (
            fn(&mut BackupJob),
            u64,
            u64,
            &'static str,
            &'static [&'static str],
        );
        let cases: [Case; 7] = [
            (
                |_| {},
                MIB,
                8 * MIB,
                "source",
                &["659456", "1048576", "LUN 3", "iqn.2026-01.lab:primary"],
            ),
            (|j| j.length_bytes = 0, MIB, 8 * MIB, "source", &["1048576"]),
            (
                |_| {},
                8 * MIB,
                2 * MIB,
                "destination",
                &["2756608", "2097152", "LUN 3", "iqn.2026-01.lab:vtl"],
            ),
            (
                |j| j.length_bytes = 1000,
                8 * MIB,
                8 * MIB,
                "length_bytes",
                &["1000", "source", "512"],
            ),
            (
                |j| j.source_offset_bytes = 100,
                8 * MIB,
                8 * MIB,
                "source_offset_bytes",
                &["100"],
            ),
            (
                |j| j.block_bytes = 6144,
                8 * MIB,
                8 * MIB,
                "length_bytes",
                &["4096"],
            ),
            (
                |j| j.streams = 12,
                8 * MIB,
                8 * MIB,
                "streams",
                &["12", "11"],
            ),
        ];
        for (change, source, destination, field, words) in cases {
            let mut job = job();
            change(&mut job);
            if field == "length_bytes" && words[0] == "4096" {
                job.length_bytes = 6144;
            }
            let error = plan_parts(
                "jobs[0]",
                &job,
                &volume(source, 512),
                &volume(destination, 4096),
            )
            .unwrap_err();
            assert_eq!(error.field, format!("jobs[0].{field}"));
            assert!(error.problem.contains("vm1") && !error.hint.is_empty());
            for word in words {
                assert!(error.problem.contains(word), "{word} in {}", error.problem);
            }
        }
        // A length of 0 extends to the end of the source.
        let whole = BackupJob {
            length_bytes: 0,
            streams: 1,
            ..job()
        };
        let parts = plan_parts(
            "jobs[0]",
            &whole,
            &volume(3 * MIB, 512),
            &volume(4 * MIB, 512),
        );
        assert_eq!(parts.unwrap()[0].length, 2 * MIB);
    }
}
