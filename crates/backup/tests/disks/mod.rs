//! Copies between two disks in memory, which execute requests in any order.
use std::sync::Arc;
use std::time::Duration;

use crate::scene::{image, job};
use hakaru_backup::{DiskOp, DiskRequest, Job, JobEvent, Leg, Settings, Side};
use hakaru_contract::LoginKeys;
use hakaru_contract::backup::{BackupJob, Compression, Disks};
use hakaru_iscsi_session::Volume;
use hakaru_stats::Latencies;
use hakaru_units::Time;

const LENGTH: usize = 40 * 16 * 1024 + 512;

/// A job and the bytes of its disks.
struct Copy {
    job: Job,
    disks: [Vec<u8>; 2],
    flushes: u32,
    latencies: Latencies,
    now: Time,
    /// State of the generator that chooses the next request.
    random: u64,
}

impl Copy {
    fn new(config: BackupJob, source: Vec<u8>, destination_bytes: usize) -> Copy {
        let disks = Disks {
            source: "/dev/sda".into(),
            destination: "/dev/sdb".into(),
        };
        let config = BackupJob {
            disks: Some(disks),
            ..config
        };
        let timeout = Duration::from_secs(5);
        let settings = Settings {
            keys: LoginKeys::default(),
            chap: None,
            timeout,
            tape_timeout: timeout,
            seed: 1,
        };
        let mut copy = Copy {
            job: Job::new(Arc::new(config), &settings, 0, 0),
            disks: [source, vec![0; destination_bytes]],
            flushes: 0,
            latencies: Latencies::default(),
            now: Time(1),
            random: 1,
        };
        for leg in copy.job.legs() {
            let volume = Volume {
                block_bytes: 512,
                capacity_bytes: copy.disks[leg.side() as usize].len() as u64,
            };
            copy.job.handle_opened(leg, volume);
        }
        copy
    }

    /// Executes requests until none is left. Returns the events, and the largest number of requests
    /// that waited.
    fn run(&mut self) -> (Vec<JobEvent>, usize) {
        let (mut waiting, mut waiting_max) = (Vec::new(), 0);
        loop {
            waiting.extend(std::iter::from_fn(|| self.job.poll_disk()));
            waiting_max = waiting_max.max(waiting.len());
            if waiting.is_empty() {
                break;
            }
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let (leg, request) = waiting.swap_remove((self.random >> 33) as usize % waiting.len());
            self.execute(leg, &request);
        }
        let events = std::iter::from_fn(|| self.job.poll_event());
        (events.collect(), waiting_max)
    }

    fn execute(&mut self, leg: Leg, request: &DiskRequest) {
        self.now = Time(self.now.0 + 1000);
        let disk = &mut self.disks[leg.side() as usize];
        let begin = request.offset_bytes as usize;
        let (moved, data) = match &request.op {
            DiskOp::Read(length) => (*length, disk[begin..begin + *length as usize].to_vec()),
            DiskOp::Write(bytes) => {
                assert_eq!(leg.side(), Side::Destination);
                disk[begin..begin + bytes.len()].copy_from_slice(bytes);
                (bytes.len() as u32, Vec::new())
            }
            DiskOp::Flush => {
                self.flushes += 1;
                (0, Vec::new())
            }
        };
        let (now, latencies) = (self.now, &mut self.latencies);
        self.job
            .handle_disk_done(now, leg, request.tag, moved, &data, latencies);
        self.job.issue(now);
    }
}

#[test]
fn every_depth_and_stream_count_gives_the_same_copy() {
    for (depth, streams) in [(1, 1), (4, 1), (64, 1), (3, 4), (7, 41)] {
        let config = BackupJob {
            depth,
            streams,
            verify: true,
            source_offset_bytes: 512,
            destination_offset_bytes: 1024,
            ..job(LENGTH as u64)
        };
        let mut copy = Copy::new(config, image(LENGTH + 4096, 1), 2 * LENGTH);
        assert_eq!(copy.run().0, [JobEvent::Ready]);
        assert!(copy.job.session(Leg(0)).is_none());
        copy.job.begin(copy.now);
        let (events, waiting_max) = copy.run();
        assert_eq!(events, [JobEvent::Copied { whole: true }]);
        assert!(waiting_max <= (depth * streams) as usize);
        assert!(copy.disks[0][512..512 + LENGTH] == copy.disks[1][1024..1024 + LENGTH]);
        assert_eq!(copy.flushes, 1);
        let counters = copy.job.counters();
        let bytes = LENGTH as u64;
        assert_eq!(
            (counters.read_bytes, counters.written_bytes),
            (bytes, bytes)
        );
        assert_eq!((counters.done_now, counters.in_flight_now), (1, 0));
        copy.job.verify(copy.now);
        assert_eq!(copy.run().0, [JobEvent::Verified]);
        assert_eq!(copy.job.counters().verified_bytes, bytes);
        // Disks have no sessions to end.
        copy.job.log_out(copy.now, &mut copy.latencies);
        assert_eq!(copy.job.poll_event(), None);
    }
}

#[test]
fn packed_copy_unpacks_to_the_image() {
    let config = BackupJob {
        compression: Compression::Zstd { level: 1 },
        ..job(LENGTH as u64)
    };
    let mut copy = Copy::new(config, image(LENGTH, 1), 2 * LENGTH);
    copy.run();
    copy.job.begin(copy.now);
    copy.run();
    let mut unpacked = vec![0; LENGTH];
    let mut decoder = zstd::Decoder::new(copy.disks[1].as_slice()).unwrap();
    std::io::Read::read_exact(&mut decoder, &mut unpacked).unwrap();
    assert!(unpacked == copy.disks[0]);
}

#[test]
fn copy_that_differs_is_found() {
    let config = BackupJob {
        verify: true,
        ..job(LENGTH as u64)
    };
    let mut copy = Copy::new(config, image(LENGTH, 1), LENGTH);
    copy.run();
    copy.job.begin(copy.now);
    copy.run();
    copy.disks[1][20_000] ^= 1;
    copy.job.verify(copy.now);
    let (events, _) = copy.run();
    let [JobEvent::Verified, JobEvent::Failed(error)] = &events[..] else {
        panic!("{events:?}");
    };
    let differs = "1 blocks, the first at byte 16384";
    assert!(error.to_string().contains(differs), "{error}");
}

#[test]
fn disk_that_is_too_small_is_refused() {
    let mut copy = Copy::new(job(LENGTH as u64), image(LENGTH, 1), LENGTH - 512);
    let (events, _) = copy.run();
    let [JobEvent::Failed(error)] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(error.to_string().contains("the copy ends at byte"));
}

#[test]
fn rate_limit_holds_without_sessions() {
    let rate = 1_000_000;
    let config = BackupJob {
        rate_limit_bytes_per_s: Some(rate),
        ..job(LENGTH as u64)
    };
    let mut copy = Copy::new(config, image(LENGTH, 1), LENGTH);
    copy.run();
    copy.job.begin(copy.now);
    copy.run();
    while !copy.job.is_done() {
        let due = copy.job.poll_timeout(Leg(0)).expect("reads are left");
        copy.now = copy.now.max(due);
        copy.job
            .handle_timeout(copy.now, Leg(0), &mut copy.latencies);
        copy.job.issue(copy.now);
        copy.run();
    }
    let took = copy.job.copy_duration().unwrap().as_secs_f64();
    let expected = (LENGTH - 512) as f64 / rate as f64;
    assert!((took - expected).abs() < 0.02, "{took} s");
}
