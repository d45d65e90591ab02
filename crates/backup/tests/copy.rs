//! Copies between two real targets in virtual time.
mod disks;
mod scene;
mod tape;

use std::time::Duration;

use hakaru_backup::{JobError, JobEvent, Side};
use hakaru_contract::backup::{BackupJob, Compression};
use hakaru_iscsi_target::IoFailure;
use scene::{Scene, image, job};

const KIB: usize = 1024;
const LENGTH: usize = 40 * 16 * KIB + 512;

fn scene(job: BackupJob) -> Scene {
    Scene::new(job, image(LENGTH + 4096, 1), 2 * LENGTH)
}

#[test]
fn every_depth_stream_count_and_completion_order_gives_the_same_copy() {
    for (depth, streams, verify) in [
        (1, 1, false),
        (4, 1, true),
        (64, 1, true),
        (3, 4, true),
        (7, 41, false),
    ] {
        for compression in [Compression::None, Compression::Zstd { level: 1 }] {
            let mut scene = scene(BackupJob {
                depth,
                streams,
                verify,
                compression,
                source_offset_bytes: 512,
                destination_offset_bytes: 1024,
                ..job(LENGTH as u64)
            });
            scene.disk(Side::Source).service = Duration::from_micros(300);
            assert_eq!(*scene.copy(), JobEvent::Copied { whole: true });
            let source = scene.disk(Side::Source).bytes[512..512 + LENGTH].to_vec();
            let places: Vec<_> = scene.job.places().copied().collect();
            let copy = scene.disk(Side::Destination).flushed.clone();
            for place in places {
                let begin = place.image_offset as usize;
                let part = &source[begin..begin + place.length as usize];
                let copied = &copy[place.destination_offset as usize..];
                match compression {
                    Compression::None => assert!(copied[..part.len()] == *part),
                    Compression::Zstd { .. } => {
                        // The frames of a part, followed by zeros, which are not a frame.
                        let mut unpacked = vec![0; part.len()];
                        let mut decoder = zstd::Decoder::new(copied).unwrap();
                        std::io::Read::read_exact(&mut decoder, &mut unpacked).unwrap();
                        assert!(unpacked == part);
                    }
                }
            }
            let counters = scene.job.counters();
            assert_eq!((counters.read_bytes, counters.done_now), (LENGTH as u64, 1));
            if verify {
                scene.verify();
                let counters = scene.job.counters();
                assert_eq!(
                    (counters.verified_bytes, counters.mismatches),
                    (LENGTH as u64, 0)
                );
            }
        }
    }
}

#[test]
fn all_streams_together_keep_the_rate_limit_to_within_a_block() {
    for streams in [1, 4] {
        let rate = 1_000_000;
        let mut scene = scene(BackupJob {
            streams,
            rate_limit_bytes_per_s: Some(rate),
            ..job(LENGTH as u64)
        });
        scene.copy();
        let took = scene.job.copy_duration().unwrap().as_secs_f64();
        // The last read may start once the rate limit has admitted all other bytes, less 10 ms that
        // may be caught up. Nothing else takes noticeable time. The last block read is the one of
        // 512 bytes, or with several streams one of 16 KiB.
        let seconds = |bytes: usize| bytes as f64 / rate as f64;
        let (bytes_min, bytes_max) = (LENGTH - 16 * KIB, LENGTH - 512);
        let expected = seconds(bytes_min) - 0.010..seconds(bytes_max) - 0.009;
        assert!(expected.contains(&took), "{took} s, {expected:?}");
    }
}

#[test]
fn at_most_depth_is_in_flight_and_a_lower_depth_takes_longer() {
    let mut times = Vec::new();
    for depth in [1, 2, 8] {
        let mut scene = scene(BackupJob {
            depth,
            ..job(LENGTH as u64)
        });
        scene.delay = Duration::from_millis(5);
        scene.run_until(|event| *event == JobEvent::Ready);
        scene.begin();
        let mut in_flight_max = 0;
        while scene.job.copy_duration().is_none() {
            scene.run_for(Duration::from_millis(1));
            in_flight_max = in_flight_max.max(scene.job.counters().in_flight_now);
        }
        assert_eq!(in_flight_max, u64::from(depth));
        times.push(scene.job.copy_duration().unwrap().as_millis());
    }
    // A block takes one round trip to read and one to write, 20 ms in total. The flush takes one
    // round trip. There are 41 blocks.
    assert_eq!(times[0], 41 * 20 + 10);
    assert!(
        times[1] < times[0] / 2 + 40 && times[2] < times[0] / 8 + 60,
        "{times:?}"
    );
}

#[test]
fn blocks_read_before_the_end_are_written_and_flushed() {
    for compression in [Compression::None, Compression::Zstd { level: 1 }] {
        let mut scene = scene(BackupJob {
            compression,
            verify: true,
            rate_limit_bytes_per_s: Some(1_000_000),
            ..job(LENGTH as u64)
        });
        scene.run_until(|event| *event == JobEvent::Ready);
        scene.begin();
        scene.run_for(Duration::from_millis(200));
        scene.end();
        scene.run_until(|event| *event == JobEvent::Copied { whole: false });
        let counters = scene.job.counters();
        assert!((190_000..220_000).contains(&counters.read_bytes));
        assert_eq!(counters.done_now, 0);
        assert_eq!(scene.disk(Side::Destination).flushes, 1);
        scene.verify();
        assert_eq!(scene.job.counters().verified_bytes, counters.read_bytes);
        assert_eq!(scene.job.counters().mismatches, 0);
    }
}

#[test]
fn a_failed_write_is_reported_after_acknowledged_writes_are_flushed() {
    let at = 10 * 16 * 1024 + 5;
    for (failure, message) in [
        (IoFailure::Space, "no space left"),
        (IoFailure::Write, "write of 16384 bytes"),
    ] {
        let mut scene = scene(job(LENGTH as u64));
        scene.disk(Side::Destination).write_error_from = Some((at, failure));
        let event = scene.copy().clone();
        let JobEvent::Failed(error) = &event else {
            panic!("{event:?}")
        };
        match (failure, error) {
            (IoFailure::Space, JobError::Full { offset_bytes })
            | (IoFailure::Write, JobError::Write { offset_bytes, .. }) => {
                assert_eq!(*offset_bytes, 10 * 16 * 1024);
            }
            other => panic!("{other:?}"),
        }
        assert!(error.to_string().contains(message), "{error}");
        let counters = scene.job.counters();
        assert_eq!(counters.written_bytes, 10 * 16 * 1024);
        assert!(counters.errors >= 1);
        assert_eq!((counters.done_now, counters.in_flight_now), (0, 0));
        let written = counters.written_bytes as usize;
        let source = scene.disk(Side::Source).bytes[..written].to_vec();
        assert!(scene.disk(Side::Destination).flushed[..written] == source);
    }
}

#[test]
fn a_failed_read_is_reported_with_its_offset() {
    let mut scene = scene(BackupJob {
        streams: 2,
        source_offset_bytes: 512,
        ..job(LENGTH as u64)
    });
    let offset = third_block_of_second_stream(&mut scene);
    scene.disk(Side::Source).unreadable = Some(512 + offset + 100);
    let event = scene.copy().clone();
    let JobEvent::Failed(JobError::Read {
        offset_bytes,
        error,
        ..
    }) = event
    else {
        panic!("{event:?}")
    };
    assert_eq!(offset_bytes, offset);
    assert!(error.to_string().contains("CHECK CONDITION"));
}

/// Returns the offset in the image of the third block of the second stream.
fn third_block_of_second_stream(scene: &mut Scene) -> u64 {
    scene.run_until(|event| *event == JobEvent::Ready);
    scene.job.places().nth(1).unwrap().image_offset + 2 * 16_384
}

#[test]
fn a_lost_session_fails_the_job_in_every_stage() {
    for side in [Side::Source, Side::Destination] {
        let mut scene = scene(BackupJob {
            rate_limit_bytes_per_s: Some(1_000_000),
            ..job(LENGTH as u64)
        });
        scene.run_until(|event| *event == JobEvent::Ready);
        scene.begin();
        scene.run_for(Duration::from_millis(100));
        scene.lose(side);
        let lost = |event: &JobEvent| matches!(event, JobEvent::Failed(JobError::Nexus { side: s, .. }) if *s == side);
        assert!(scene.events.iter().any(lost), "{:?}", scene.events);
        assert!(scene.job.counters().written_bytes >= 80_000);
    }
}

#[test]
fn a_block_that_changes_after_the_copy_is_reported_with_its_offset() {
    let mut scene = scene(BackupJob {
        verify: true,
        streams: 3,
        ..job(LENGTH as u64)
    });
    scene.copy();
    for at in [20 * 16_384 + 7, 33 * 16_384] {
        scene.disk(Side::Destination).bytes[at] ^= 1;
    }
    scene.verify();
    let mismatch = JobError::Mismatch {
        offset_bytes: 20 * 16_384,
        blocks: 2,
    };
    assert!(scene.events.contains(&JobEvent::Failed(mismatch)));
    assert_eq!(scene.job.counters().mismatches, 2);
}
