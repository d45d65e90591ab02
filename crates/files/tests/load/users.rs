//! Users of a mix: shares of their operations, the files that they leave, and their times.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::files::{FilesLoad, FilesMix, FilesProfile, UserOperation, WeightedOperation};
use hakaru_files::{Action, Completion, Conduct, Forest, Journal, Settings, Tool};
use hakaru_units::Time;

use crate::ahead;
use crate::disk::{Disk, Run, load, run, run_as, trees};

const ALL: [(UserOperation, f64); 8] = [
    (UserOperation::List, 3.0),
    (UserOperation::Stat, 2.0),
    (UserOperation::Open, 1.0),
    (UserOperation::Read, 2.0),
    (UserOperation::Write, 1.0),
    (UserOperation::Create, 1.0),
    (UserOperation::Rename, 0.5),
    (UserOperation::Delete, 1.0),
];

fn mixed(operations: &[(UserOperation, f64)]) -> FilesLoad {
    let weighted =
        |&(operation, weight): &(UserOperation, f64)| WeightedOperation { operation, weight };
    FilesLoad {
        profile: FilesProfile::Mix,
        mix: Some(FilesMix {
            operations: operations.iter().map(weighted).collect(),
            think_ms: 0.0,
            rate_per_s: None,
        }),
        measure_s: Some(1.0),
        ..load()
    }
}

fn disk() -> Disk {
    Disk::of(&Forest::new(&trees()).unwrap())
}

#[test]
fn operations_have_the_shares_of_their_weights_and_the_trees_stay_as_described() {
    for conduct in [Conduct::default(), ahead()] {
        let mut disk = disk();
        let before = disk.files.clone();
        let Run {
            counts, has_cut, ..
        } = run_as(conduct, &mixed(&ALL), &mut disk, Some(60_000));
        assert!(disk.files == before, "created files are deleted");
        assert!(!has_cut);
        assert_eq!((counts["errors"], counts["mismatches"]), (0, 0));
        let begun = counts["begins"] as f64;
        assert!(begun > 5_000.0, "{counts:?}");
        // A rename without a file is a create, so creates have a larger share.
        for (name, share) in [
            ("lists", 3.0),
            ("stats", 2.0),
            ("files_read", 2.0),
            ("files_written", 1.0),
        ] {
            let expected = begun * share / 11.5;
            let deviation = (counts[name] as f64 - expected).abs();
            assert!(deviation < 4.0 * expected.sqrt(), "{name}: {counts:?}");
        }
        assert_eq!(counts["creates"], counts["deletes"]);
        assert!(counts["renames"] > 0);
        // Folders have files and folders in them.
        assert!(counts["entries_listed"] > 10 * counts["lists"]);
        let copies = counts["files_read"] + counts["files_written"];
        let simple = counts["opens"] - copies;
        assert!(simple > 0 && counts["opens"] == counts["closes"]);
    }
}

#[test]
fn a_user_who_is_stopped_leaves_nothing_behind() {
    for stop_after in 1..150 {
        let mut disk = disk();
        let before = disk.files.clone();
        let config = mixed(&[
            (UserOperation::Create, 3.0),
            (UserOperation::Rename, 2.0),
            (UserOperation::Delete, 1.0),
            (UserOperation::Write, 1.0),
        ]);
        let counts = run(&config, &mut disk, Some(stop_after)).counts;
        assert!(disk.files == before, "{stop_after}");
        assert_eq!((counts["errors"], counts["files_failed"]), (0, 0));
    }
}

#[test]
fn a_failed_operation_of_a_user_is_one_error_and_leaves_nothing_behind() {
    let config = FilesLoad {
        tools: 1,
        ..mixed(&ALL[5..])
    };
    for failed in 1..60 {
        let mut disk = disk();
        let before = disk.files.clone();
        disk.failures.insert(failed);
        let counts = run(&config, &mut disk, Some(400)).counts;
        assert_eq!(
            (counts["errors"], counts["files_failed"]),
            (1, 1),
            "{failed}"
        );
        assert!(disk.files == before, "{failed}");
    }
}

#[test]
fn a_user_keeps_at_most_16_files() {
    let mut disk = disk();
    let before = disk.files.len();
    let config = FilesLoad {
        tools: 1,
        ..mixed(&[(UserOperation::Create, 1.0)])
    };
    let counts = run(&config, &mut disk, Some(3_000)).counts;
    assert_eq!(disk.files.len(), before);
    // 16 creates, then deletes and creates in turn.
    assert_eq!(counts["creates"], counts["deletes"]);
    assert!(counts["deletes"] > 100);
}

/// Begins of a user's operations, each of which takes `took` per request.
fn begins(config: &FilesLoad, number: u32, took: Duration, count: usize) -> Vec<Time> {
    let forest = Arc::new(Forest::new(&config.trees).unwrap());
    let settings = Arc::new(Settings::new(config).unwrap());
    let mut tool = Tool::new(forest, settings, number, Conduct::default());
    let (mut now, mut journal, mut begun) = (Time(7), Journal::default(), Vec::new());
    tool.assign(number, now);
    let mut operations = Vec::new();
    while begun.len() < count {
        if let Some(due) = tool.due() {
            assert!(
                due >= now,
                "an operation was due before the end of the last one"
            );
            now = due;
            begun.push(now);
        }
        tool.poll_operations(&mut operations);
        let operation = operations.pop().expect("a user never runs out of work");
        assert!(matches!(
            operation.action,
            Action::Lookup { .. } | Action::Stat
        ));
        let started = now;
        now += took;
        let completion = Completion {
            id: operation.id,
            started,
            ended: now,
            outcome: Ok(0),
        };
        tool.handle_completion(completion, &mut journal);
    }
    begun
}

fn paced(think_ms: f64, rate_per_s: Option<f64>) -> FilesLoad {
    let mut config = mixed(&[(UserOperation::Stat, 1.0)]);
    let mix = config.mix.as_mut().unwrap();
    (mix.think_ms, mix.rate_per_s) = (think_ms, rate_per_s);
    config
}

#[test]
fn users_with_a_rate_begin_at_equal_intervals_and_in_turn() {
    let quick = Duration::from_micros(1);
    // Two users, 100 operations per second: one of each user in 20 ms.
    for (number, phase) in [(0, 0), (1, 10_000_000)] {
        let begun = begins(&paced(0.0, Some(100.0)), number, quick, 50);
        let expected: Vec<Time> = (0..50).map(|n| Time(7 + phase + n * 20_000_000)).collect();
        assert_eq!(begun, expected);
    }
}

#[test]
fn a_user_who_is_behind_the_rate_begins_at_once_and_only_once_at_a_time() {
    let slow = Duration::from_millis(30);
    let begun = begins(&paced(0.0, Some(100.0)), 0, slow, 20);
    for pair in begun.windows(2) {
        let gap = pair[1].ns_since(pair[0]);
        // A walk of up to four folders, and the operation.
        assert!(gap >= 60_000_000 && gap.is_multiple_of(30_000_000), "{gap}");
    }
}

#[test]
fn think_times_have_their_mean_and_vary() {
    let begun = begins(&paced(5.0, None), 0, Duration::ZERO, 4_000);
    let gaps: Vec<f64> = begun
        .windows(2)
        .map(|pair| pair[1].ns_since(pair[0]) as f64 / 1e6)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 5.0).abs() < 0.3, "{mean}");
    // The deviation of an exponential distribution is its mean.
    assert!((variance.sqrt() - 5.0).abs() < 0.5, "{variance}");
    assert!(gaps.iter().all(|gap| *gap <= 50.0));
    assert_eq!(
        begins(&paced(5.0, None), 0, Duration::ZERO, 20),
        begun[..20]
    );
}

#[test]
fn refused_mixes_name_their_field() {
    let good = mixed(&ALL);
    Settings::new(&good).unwrap();
    let changed = |change: &dyn Fn(&mut FilesMix)| {
        let mut config = good.clone();
        change(config.mix.as_mut().unwrap());
        config
    };
    let refused: HashMap<&str, Vec<FilesLoad>> = HashMap::from([
        (
            "mix",
            vec![
                FilesLoad {
                    mix: None,
                    ..good.clone()
                },
                FilesLoad {
                    profile: FilesProfile::Metadata,
                    ..good.clone()
                },
            ],
        ),
        (
            "measure_s",
            vec![FilesLoad {
                measure_s: None,
                ..good.clone()
            }],
        ),
        (
            "mix.operations",
            vec![
                changed(&|mix| mix.operations.clear()),
                changed(&|mix| mix.operations[1].weight = 0.0),
                changed(&|mix| mix.operations[1].weight = f64::NAN),
                changed(&|mix| mix.operations[1].weight = -1.0),
                changed(&|mix| mix.operations[1] = mix.operations[0]),
            ],
        ),
        (
            "mix.think_ms",
            vec![
                changed(&|mix| mix.think_ms = -1.0),
                changed(&|mix| mix.think_ms = f64::NAN),
            ],
        ),
        (
            "mix.rate_per_s",
            vec![
                changed(&|mix| mix.rate_per_s = Some(0.0)),
                changed(&|mix| mix.rate_per_s = Some(f64::INFINITY)),
                changed(&|mix| (mix.think_ms, mix.rate_per_s) = (1.0, Some(1.0))),
            ],
        ),
    ]);
    for (field, configs) in refused {
        for config in configs {
            let error = Settings::new(&config).unwrap_err();
            assert_eq!(error.field, field, "{error}");
        }
    }
}
