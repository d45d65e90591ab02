//! Copies to the drive of a real tape library behind a real target, in virtual time.
use std::time::Duration;

use hakaru_backup::{JobError, JobEvent, Side, TapeError};
use hakaru_contract::backup::{BackupJob, Compression, TapeDestination};
use hakaru_iscsi_target::TapeLibrary;
use hakaru_tape::timing::{Parameters, TimedDrive};
use hakaru_tape::{Generation, LibraryConfig, Placed, Ratio};

use crate::scene::{Scene, image, job};

const BLOCK: u64 = 16_384;
const LENGTH: u64 = 40 * BLOCK;
const MIB: u64 = 1 << 20;

fn library(capacity_bytes: u64, write_protected: bool, timed: bool) -> TapeLibrary {
    let placed = |slot: u16| Placed {
        barcode: format!("HAK00{slot}L5"),
        slot,
        write_protected,
        generation: None,
        recovered: None,
    };
    TapeLibrary {
        library: LibraryConfig {
            drives: vec![Generation::Lto5],
            timed,
            slots: 2,
            import_export: 0,
            cartridges: vec![placed(1), placed(2)],
            capacity_bytes,
            early_warning_bytes: 128 << 10,
            ratio: Ratio::ONE,
        },
        drive_luns: vec![1],
    }
}

fn to_tape(tape: TapeDestination) -> BackupJob {
    let mut job = job(LENGTH);
    job.destination.lun = 1;
    job.verify = true;
    job.tape = Some(tape);
    job
}

fn tape() -> TapeDestination {
    TapeDestination {
        changer_lun: 0,
        drive: 0,
        cartridge: "HAK001L5".into(),
        append: false,
        fixed_block_bytes: None,
        filemark_every_bytes: None,
        immediate_filemarks: false,
    }
}

fn scene(job: BackupJob) -> Scene {
    Scene::to_tape(
        job,
        image(LENGTH as usize, 1),
        library(2 * MIB, false, false),
        None,
    )
}

/// Copies with any depth and with reads that overtake each other; then reads the copy back.
#[test]
fn every_kind_of_block_and_filemark_gives_a_copy_that_reads_back() {
    let kinds = [
        (None, None, false),
        (Some(4096), None, false),
        (None, Some(5 * BLOCK), false),
        (Some(BLOCK as u32), Some(3 * BLOCK + 1), true),
    ];
    for (fixed_block_bytes, filemark_every_bytes, immediate_filemarks) in kinds {
        for compression in [Compression::None, Compression::Zstd { level: 1 }] {
            let mut scene = scene(BackupJob {
                compression,
                ..to_tape(TapeDestination {
                    fixed_block_bytes,
                    filemark_every_bytes,
                    immediate_filemarks,
                    ..tape()
                })
            });
            scene.disk(Side::Source).service = Duration::from_micros(300);
            assert_eq!(*scene.copy(), JobEvent::Copied { whole: true });
            let counters = scene.job.counters();
            assert_eq!((counters.read_bytes, counters.done_now), (LENGTH, 1));
            // Incompressible data is a little longer when it is packed.
            if compression == Compression::None {
                let between = match filemark_every_bytes {
                    None => 0,
                    Some(every) => LENGTH.div_ceil(every.div_ceil(BLOCK) * BLOCK) - 1,
                };
                assert_eq!(counters.written_bytes, LENGTH);
                assert_eq!(counters.filemarks, between + 1);
                let waiting = if immediate_filemarks { 1 } else { between + 1 };
                assert_eq!(counters.synchronisations, waiting);
            }
            scene.verify();
            let counters = scene.job.counters();
            assert_eq!((counters.verified_bytes, counters.mismatches), (LENGTH, 0));
        }
    }
}

#[test]
fn a_damaged_block_on_the_tape_is_found() {
    let mut scene = scene(to_tape(tape()));
    scene.copy();
    scene.disk(Side::Destination).bytes[(7 * BLOCK + 100) as usize] ^= 1;
    scene.verify();
    let mismatch = JobEvent::Failed(JobError::Mismatch {
        offset_bytes: 7 * BLOCK,
        blocks: 1,
    });
    assert_eq!(
        *scene.run_until(|e| *e == mismatch).last().unwrap(),
        mismatch
    );
}

#[test]
fn what_is_missing_is_named() {
    type Case = (TapeDestination, TapeLibrary, TapeError);
    let named = || String::from("HAK001L5");
    let cases: [Case; 4] = [
        (
            TapeDestination {
                cartridge: "HAK009L5".into(),
                ..tape()
            },
            library(2 * MIB, false, false),
            TapeError::NoCartridge {
                barcode: "HAK009L5".into(),
            },
        ),
        (
            TapeDestination { drive: 3, ..tape() },
            library(2 * MIB, false, false),
            TapeError::NoDrive {
                drive: 3,
                drives: 1,
            },
        ),
        (
            tape(),
            library(2 * MIB, true, false),
            TapeError::WriteProtected { barcode: named() },
        ),
        (
            tape(),
            library(MIB / 2, false, false),
            TapeError::Full {
                barcode: named(),
                offset_bytes: 32 * BLOCK,
            },
        ),
    ];
    for (tape, library, error) in cases {
        let mut scene = Scene::to_tape(to_tape(tape), image(LENGTH as usize, 1), library, None);
        assert_eq!(*scene.copy(), JobEvent::Failed(JobError::Tape(error)));
    }
}

/// The early warning ends a write that is done: the copy continues to the end of the tape.
#[test]
fn writes_after_the_early_warning_count() {
    let library = library(LENGTH + 64 * 1024, false, false);
    let mut scene = Scene::to_tape(to_tape(tape()), image(LENGTH as usize, 1), library, None);
    assert_eq!(*scene.copy(), JobEvent::Copied { whole: true });
    let counters = scene.job.counters();
    assert!(counters.early_warnings > 1, "{counters:?}");
    assert_eq!((counters.errors, counters.written_bytes), (0, LENGTH));
    scene.verify();
    assert_eq!(scene.job.counters().mismatches, 0);
}

/// An image of 8.8 buffers arrives at half of the lowest rate of the tape. Each cycle takes two
/// buffers, so there are 4 and a rest of 0.8 buffers, which the last filemark writes at the native
/// rate. The rate limit alone determines the time.
#[test]
fn a_slow_copy_makes_a_timed_drive_stop_as_the_closed_form_says() {
    let length = 160 * BLOCK;
    let buffer_bytes = length as f64 / 8.8;
    let parameters = Parameters {
        rate_max_bytes_per_s: 4e6,
        rate_min_bytes_per_s: 2e6,
        buffer_bytes,
        backhitch_s: 0.05,
        ..Parameters::of(Generation::Lto5)
    };
    let rate = 1_000_000_u64;
    let job = BackupJob {
        rate_limit_bytes_per_s: Some(rate),
        verify: false,
        length_bytes: length,
        ..to_tape(tape())
    };
    let drive = TimedDrive::new(parameters).unwrap();
    let library = library(4 * MIB, false, true);
    let mut scene = Scene::to_tape(job, image(length as usize, 1), library, Some(drive));
    scene.run_until(|event| *event == JobEvent::Ready);
    let begun = scene.now;
    scene.mount();
    scene.run_until(|event| *event == JobEvent::Mounted);
    assert!(
        scene.now.ns_since(begun) >= 12_000_000_000,
        "the tape is threaded first"
    );
    scene.begin();
    scene.run_until(|event| matches!(event, JobEvent::Copied { whole: true }));
    let seconds = scene.job.copy_duration().unwrap().as_secs_f64();
    let arriving = length as f64 / rate as f64;
    assert!((arriving..arriving * 1.05).contains(&seconds), "{seconds}");
    let now = scene.now.as_ns() as f64 / 1e9;
    let times = scene
        .disk(Side::Destination)
        .drive
        .as_mut()
        .unwrap()
        .times(now);
    let streaming = 4.0 * buffer_bytes / 1e6 + 0.8 * buffer_bytes / 4e6;
    assert_eq!(times.backhitches, 4 + 1);
    assert!(
        (times.streaming_s / streaming - 1.0).abs() < 0.03,
        "{times:?}"
    );
}

/// Threading the tape takes 12 s and more. The time limit of the source does not apply to it, and
/// that of the tape does.
#[test]
fn a_tape_has_a_time_limit_of_its_own() {
    let mounted = |limits: [u64; 2]| {
        let drive = TimedDrive::new(Parameters::of(Generation::Lto5)).unwrap();
        let limits = limits.map(Duration::from_secs);
        let library = library(2 * MIB, false, true);
        let image = image(LENGTH as usize, 1);
        let mut scene = Scene::to_tape_within(to_tape(tape()), image, library, Some(drive), limits);
        scene.run_until(|event| *event == JobEvent::Ready);
        scene.mount();
        let is_end = |e: &JobEvent| matches!(e, JobEvent::Mounted | JobEvent::Failed(_));
        let events = scene.run_until(is_end);
        events.iter().find(|event| is_end(event)).unwrap().clone()
    };
    assert_eq!(mounted([5, 600]), JobEvent::Mounted);
    let failed = mounted([600, 5]);
    let JobEvent::Failed(JobError::Nexus { side, error }) = &failed else {
        panic!("{failed:?}");
    };
    assert_eq!(*side, Side::Destination);
    let text = error.to_string();
    assert!(text.contains("a command") && text.contains('5'), "{text}");
}

/// A job that waits for its drive copies nothing if the time is over before its turn.
#[test]
fn a_waiting_job_ends_without_a_copy() {
    let mut scene = scene(to_tape(tape()));
    scene.run_until(|event| *event == JobEvent::Ready);
    scene.job.wait(scene.now);
    scene.end();
    scene.run_until(|event| *event == JobEvent::Copied { whole: false });
    assert!(!scene.job.is_done());
    assert_eq!(scene.job.copy_duration(), None);
    scene.verify();
    assert_eq!(scene.job.counters().verified_bytes, 0);
}
