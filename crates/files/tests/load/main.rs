//! Loads on a file system in memory: every operation of every tool, scripted failures, and ends.
mod disk;
mod users;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hakaru_contract::files::{FilesLoad, FilesProfile};
use hakaru_files::{
    Action, Ahead, Completion, Conduct, FileId, Forest, Journal, Measured, Operation, OperationId,
    Settings, Tool,
};
use hakaru_units::Time;

use disk::{BLOCK, Disk, Run, load, run, run_as, trees};

#[test]
fn every_target_is_used_once_and_the_trees_stay_as_described() {
    let config = load();
    let forest = Forest::new(&config.trees).unwrap();
    let mut disk = Disk::of(&forest);
    let before = disk.files.clone();
    let Run {
        counts,
        mut meter,
        order,
        has_cut,
    } = run(&config, &mut disk, None);
    assert_eq!(disk.files, before);
    assert!(!has_cut);
    let distinct: HashSet<FileId> = order.iter().copied().collect();
    assert_eq!(distinct.len(), 600);
    assert_eq!(counts["files_read"] + counts["files_written"], 600);
    assert!((450..510).contains(&counts["files_read"]), "{counts:?}");
    assert_eq!(
        (counts["opens"], counts["closes"], counts["units_done"]),
        (600, 600, 3)
    );
    assert_eq!(counts["verified_bytes"], counts["read_bytes"]);
    assert_eq!(
        counts["read_bytes"] + counts["written_bytes"],
        forest.targets().bytes
    );
    assert_eq!(
        (
            counts["errors"],
            counts["files_failed"],
            counts["mismatches"]
        ),
        (0, 0, 0)
    );
    meter.latency(Measured::Open).take_interval(true, |opens| {
        assert_eq!(opens.count(), 600);
        assert_eq!(opens.quantile_ns(0.5) / 100, 100);
    });
    // The order is drawn: neighbours in it are not neighbours in the tree.
    let in_sequence = order
        .windows(2)
        .filter(|pair| pair[1].index == pair[0].index + 1)
        .count();
    assert!(in_sequence < 20, "{in_sequence}");
}

#[test]
fn the_metadata_profile_leaves_nothing_behind() {
    let config = FilesLoad {
        profile: FilesProfile::Metadata,
        ..load()
    };
    let mut disk = Disk::of(&Forest::new(&config.trees).unwrap());
    let before = disk.files.clone();
    let Run { counts, .. } = run(&config, &mut disk, None);
    assert_eq!(disk.files, before);
    for name in ["steps", "creates", "stats", "renames", "deletes"] {
        assert_eq!(counts[name], 600, "{name}");
    }
}

#[test]
fn a_failed_operation_costs_its_file_alone_and_open_files_are_closed() {
    let config = FilesLoad {
        flush: true,
        ..load()
    };
    let forest = Forest::new(&config.trees).unwrap();
    let whole = run(&config, &mut Disk::of(&forest), None).counts;
    let failures: HashSet<u64> = (0..200).map(|n| 7 + n * 13).collect();
    let mut disk = Disk::of(&forest);
    disk.failures = failures;
    let Run { counts, .. } = run(&config, &mut disk, None);
    let failed = counts["files_failed"];
    assert!((150..=200).contains(&failed), "{failed}");
    assert!((failed..=200).contains(&counts["errors"]), "{counts:?}");
    assert_eq!(counts["files_read"] + counts["files_written"] + failed, 600);
    assert_eq!(whole["flushes"], whole["files_written"]);
}

#[test]
fn a_stopped_tool_closes_its_file_and_counts_no_failure() {
    for stop_after in 1..80 {
        for profile in [FilesProfile::WholeFiles, FilesProfile::Metadata] {
            let config = FilesLoad { profile, ..load() };
            let mut disk = Disk::of(&Forest::new(&config.trees).unwrap());
            let before = disk.files.clone();
            let Run {
                counts, has_cut, ..
            } = run(&config, &mut disk, Some(stop_after));
            assert!(!has_cut);
            assert!(
                disk.files == before,
                "{stop_after}: a written file is complete"
            );
            assert!(
                disk.executed <= stop_after + 12,
                "{stop_after}: {}",
                disk.executed
            );
            assert_eq!(
                (counts["errors"], counts["files_failed"]),
                (0, 0),
                "{stop_after}"
            );
            assert!(
                disk.files.keys().all(|path| !path.contains("/n")),
                "{stop_after}"
            );
        }
    }
}

#[test]
fn cut_and_failed_writes_are_known() {
    let config = FilesLoad {
        read_percent: 0,
        ..load()
    };
    let mut cuts = 0;
    for stop_after in 1..80 {
        let mut disk = Disk::of(&Forest::new(&config.trees).unwrap());
        let before = disk.files.clone();
        disk.cuts = true;
        let run = run(&config, &mut disk, Some(stop_after));
        assert_eq!(run.has_cut, disk.files != before, "{stop_after}");
        assert_eq!(run.counts["files_failed"], 0);
        cuts += u32::from(run.has_cut);
    }
    assert!((20..79).contains(&cuts), "{cuts}");
    for failed in 1..80 {
        let mut disk = Disk::of(&Forest::new(&config.trees).unwrap());
        let before = disk.files.clone();
        disk.failures.insert(failed);
        let run = run(&config, &mut disk, None);
        assert_eq!(run.has_cut, disk.files != before, "{failed}");
    }
}

#[test]
fn wrong_short_and_missing_data_are_failures() {
    let config = FilesLoad {
        read_percent: 100,
        tools: 1,
        ..load()
    };
    let forest = Forest::new(&config.trees).unwrap();
    let mut disk = Disk::of(&forest);
    let largest = |tree| {
        let targets = forest
            .files(tree)
            .filter(|f| f.role == hakaru_files::Role::Target);
        forest.path(targets.max_by_key(|file| forest.size(*file)).unwrap())
    };
    disk.files.get_mut(&largest(0)).unwrap()[700] ^= 1;
    disk.files.get_mut(&largest(1)).unwrap().pop();
    let counts = run(&config, &mut disk, None).counts;
    assert_eq!(
        (
            counts["mismatches"],
            counts["errors"],
            counts["files_failed"]
        ),
        (1, 1, 1)
    );
}

/// Returns the operations that a tool begins now.
fn polled(tool: &mut Tool) -> Vec<Operation> {
    let mut operations = Vec::new();
    tool.poll_operations(&mut operations);
    operations
}

#[test]
fn a_completion_of_another_operation_is_ignored() {
    let config = load();
    let forest = Arc::new(Forest::new(&config.trees).unwrap());
    let settings = Arc::new(Settings::new(&config).unwrap());
    let mut tool = Tool::new(forest, settings, 0, Conduct::default());
    tool.assign(0, Time::ZERO);
    let first = polled(&mut tool).remove(0);
    let mut journal = Journal::default();
    let completion = |id, outcome| Completion {
        id,
        started: Time(1),
        ended: Time(2),
        outcome: Ok(outcome),
    };
    tool.handle_completion(completion(OperationId(first.id.0 + 1), 0), &mut journal);
    assert!(journal.is_empty());
    assert_eq!(polled(&mut tool), []);
    tool.handle_completion(completion(first.id, 0), &mut journal);
    assert_eq!(journal.len(), 1);
    // A transport that answers more than was asked for must not move the tool past the file.
    while let Some(operation) = polled(&mut tool).pop() {
        let outcome = match operation.action {
            Action::Read { .. } | Action::Write { .. } => u64::MAX,
            _ => u64::MAX / 2,
        };
        tool.handle_completion(completion(operation.id, outcome), &mut journal);
    }
    assert!(tool.is_idle());
}

/// A transport with three blocks in flight, of which a write is half as large as a read.
fn ahead() -> Conduct {
    Conduct {
        caches_folders: false,
        ahead: Some(Ahead {
            read_bytes_max: BLOCK,
            write_bytes_max: BLOCK / 2,
            transfers: 3,
        }),
    }
}

#[test]
fn operations_ahead_use_every_target_once_and_keep_the_trees() {
    let config = FilesLoad {
        flush: true,
        ..load()
    };
    let forest = Forest::new(&config.trees).unwrap();
    let mut disk = Disk::of(&forest);
    let before = disk.files.clone();
    let Run { counts, order, .. } = run_as(ahead(), &config, &mut disk, None);
    assert!(disk.files == before);
    assert_eq!(
        order.iter().copied().collect::<HashSet<FileId>>().len(),
        600
    );
    let same = run(&config, &mut Disk::of(&forest), None).counts;
    for (name, count) in &counts {
        // Writes are smaller, all other operations the same.
        assert!(*name == "writes" || same[name] == *count, "{name}");
    }
    assert!(counts["writes"] > same["writes"]);
}

#[test]
fn a_cache_of_folders_looks_each_up_once_per_tree() {
    let conduct = Conduct {
        caches_folders: true,
        ..ahead()
    };
    let mut disk = Disk::of(&Forest::new(&trees()).unwrap());
    disk.walks = false;
    let counts = run_as(conduct, &load(), &mut disk, None).counts;
    assert_eq!((counts["lookups"], counts["opens"]), (3 * 9, 600));
}

#[test]
fn a_small_file_is_one_group_of_operations_and_a_large_one_is_closed_after_its_writes() {
    let config = FilesLoad {
        read_percent: 0,
        flush: true,
        ..load()
    };
    let forest = Arc::new(Forest::new(&config.trees).unwrap());
    let settings = Arc::new(Settings::new(&config).unwrap());
    let mut tool = Tool::new(Arc::clone(&forest), settings, 0, ahead());
    tool.assign(0, Time::ZERO);
    let mut journal = Journal::default();
    let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    loop {
        let operations = polled(&mut tool);
        if operations.is_empty() {
            break;
        }
        let letters: String = operations
            .iter()
            .map(|o| format!("{:?}", o.action)[..1].to_owned())
            .collect();
        for operation in &operations {
            let outcome = match operation.action {
                Action::Write { length, .. } => length.into(),
                _ => 0,
            };
            tool.handle_completion(
                Completion {
                    id: operation.id,
                    started: Time(1),
                    ended: Time(2),
                    outcome: Ok(outcome),
                },
                &mut journal,
            );
        }
        if !letters.starts_with('L') {
            let blocks = forest.size(operations[0].file).div_ceil(256);
            let groups = groups.entry(blocks).or_default();
            if letters.starts_with('O') {
                groups.clear();
            }
            groups.push(letters);
        }
    }
    assert_eq!(groups[&0], ["OFC"]);
    assert_eq!(groups[&1], ["OWFC"]);
    assert_eq!(groups[&2], ["OW", "WFC"]);
    assert_eq!(groups[&4], ["OW", "WWW", "FC"]);
    assert_eq!(groups[&6], ["OW", "WWW", "WW", "FC"]);
}

#[test]
fn a_failure_among_operations_ahead_is_one_error_and_the_file_is_closed() {
    let config = FilesLoad {
        read_percent: 50,
        ..load()
    };
    let forest = Forest::new(&config.trees).unwrap();
    let before = Disk::of(&forest).files;
    for failed in 1..120 {
        let mut disk = Disk::of(&forest);
        disk.failures.insert(failed);
        let run = run_as(ahead(), &config, &mut disk, None);
        assert_eq!(run.has_cut, disk.files != before, "{failed}");
        let counts = (run.counts["errors"], run.counts["files_failed"]);
        assert_eq!(counts, (1, 1), "{failed}");
    }
}

#[test]
fn a_tool_that_runs_ahead_completes_or_cuts_its_file_when_it_is_stopped() {
    let config = load();
    let forest = Forest::new(&config.trees).unwrap();
    let before = Disk::of(&forest).files;
    for (stop_after, cuts) in (1..80).flat_map(|n| [(n, false), (n, true)]) {
        let mut disk = Disk::of(&forest);
        disk.cuts = cuts;
        let run = run_as(ahead(), &config, &mut disk, Some(stop_after));
        assert_eq!(run.has_cut, disk.files != before, "{stop_after}");
        assert!(cuts || !run.has_cut, "{stop_after}");
        assert_eq!(run.counts["errors"], 0, "{stop_after}");
    }
}

#[test]
fn every_refusal_names_its_field() {
    type Case = (fn(&mut FilesLoad), &'static str);
    let cases: [Case; 8] = [
        (|c| c.tools = 0, "tools"),
        (|c| c.tools = 4, "tools"),
        (|c| c.stride = 0, "stride"),
        (|c| c.first_tree = 3, "first_tree"),
        (|c| c.read_percent = 101, "read_percent"),
        (|c| c.block_bytes = 511, "block_bytes"),
        (|c| c.warmup_s = f64::NAN, "warmup_s"),
        (|c| c.measure_s = Some(0.0), "measure_s"),
    ];
    for (change, field) in cases {
        let mut config = load();
        change(&mut config);
        assert_eq!(Settings::new(&config).unwrap_err().field, field);
    }
}
