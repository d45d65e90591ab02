//! Loads on a file system in memory: every operation of every tool, scripted failures, and ends.
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use hakaru_contract::files::{
    FileContent, FilePlacement, FileSizes, FilesDestination, FilesLoad, FilesProfile, SizeClass,
    TreesConfig,
};
use hakaru_files::{
    Action, Ahead, Completion, Conduct, FileId, Forest, Journal, Measured, Meter, OpenMode,
    Operation, OperationId, Outcome, Settings, Tool, Units,
};
use hakaru_units::Time;

const BLOCK: u32 = 512;

fn trees() -> TreesConfig {
    let classes = [(0, 1.0), (512, 2.0), (2000, 3.0)]
        .map(|(up_to_bytes, count)| SizeClass { up_to_bytes, count });
    TreesConfig {
        seed: 11,
        trees: 3,
        depth: 4,
        folders: 9,
        targets: 200,
        dummies: 5,
        placement: FilePlacement::Random,
        sizes: FileSizes::Table {
            classes: classes.to_vec(),
        },
        dummy_sizes: None,
        total_bytes: None,
        divide_sizes_by: 1,
        content: FileContent::default(),
    }
}

fn load() -> FilesLoad {
    FilesLoad {
        destination: FilesDestination::Directory {
            path: "/nowhere".into(),
        },
        trees: Box::new(trees()),
        build: false,
        remove: false,
        profile: FilesProfile::WholeFiles,
        tools: 2,
        first_tree: 0,
        stride: 1,
        read_percent: 80,
        block_bytes: BLOCK,
        flush: false,
        verify: true,
        cold: false,
        second_start: false,
        seed: 5,
        warmup_s: 0.0,
        measure_s: None,
        sample_interval_ms: 1000,
    }
}

/// A file system: contents by path, and the open file of each tool.
struct Disk {
    files: HashMap<String, Vec<u8>>,
    folders: HashSet<String>,
    open: HashMap<u32, (String, OpenMode)>,
    walked: HashMap<u32, Vec<String>>,
    /// Operations that fail, by their number in the order of execution.
    failures: HashSet<u64>,
    executed: u64,
    read: Vec<u8>,
    /// Whether a stop cuts the files that are written.
    cuts: bool,
    /// Whether tools walk to every file.
    walks: bool,
}

impl Disk {
    fn of(forest: &Forest) -> Disk {
        let mut disk = Disk {
            files: HashMap::new(),
            folders: HashSet::new(),
            open: HashMap::new(),
            walked: HashMap::new(),
            failures: HashSet::new(),
            executed: 0,
            read: Vec::new(),
            cuts: false,
            walks: true,
        };
        for tree in 0..forest.config().trees {
            for folder in 0..forest.config().folders {
                disk.folders.insert(forest.folder_path(tree, folder));
            }
            for file in forest.files(tree) {
                let mut bytes = vec![0; forest.size(file) as usize];
                forest.fill(file, 0, &mut bytes);
                disk.files.insert(forest.path(file), bytes);
            }
        }
        disk
    }

    fn execute(&mut self, operation: &Operation, tool: &Tool) -> Outcome {
        self.executed += 1;
        let path = operation.path.to_string();
        if self.failures.contains(&self.executed) {
            if operation.action == Action::Close {
                self.open.remove(&operation.tool);
            }
            return Err("injected".into());
        }
        match &operation.action {
            Action::Lookup { level } => {
                let walked = self.walked.entry(operation.tool).or_default();
                walked.truncate(*level as usize - 1);
                let follows = walked.len() as u32 == level - 1;
                assert!(follows || !self.walks, "levels follow each other");
                let below = walked.last().is_none_or(|above| path.starts_with(above));
                assert!(below || !self.walks);
                assert!(self.folders.contains(&path), "{path}");
                walked.push(path);
                Ok(0)
            }
            Action::Open { mode } => {
                let walked = self.walked[&operation.tool].last().unwrap();
                assert!(!self.walks || walked == path.rsplit_once('/').unwrap().0);
                assert!(
                    self.open
                        .insert(operation.tool, (path.clone(), *mode))
                        .is_none()
                );
                if *mode == OpenMode::Write {
                    self.files.insert(path.clone(), Vec::new());
                }
                Ok(self.files[&path].len() as u64)
            }
            Action::Read { offset, length } => {
                assert_eq!(self.open[&operation.tool], (path.clone(), OpenMode::Read));
                let begin = *offset as usize;
                self.read = self.files[&path][begin..begin + *length as usize].to_vec();
                Ok(u64::from(*length))
            }
            Action::Write { offset, length } => {
                assert_eq!(self.open[&operation.tool], (path.clone(), OpenMode::Write));
                let mut data = vec![0; *length as usize];
                tool.fill(operation, &mut data);
                let file = self.files.get_mut(&path).unwrap();
                // A write that failed leaves a hole in front of those begun with it.
                let end = *offset as usize + data.len();
                file.resize(file.len().max(end), 0);
                file[*offset as usize..end].copy_from_slice(&data);
                Ok(u64::from(*length))
            }
            Action::Flush => Ok(0),
            Action::Close => {
                assert!(self.open.remove(&operation.tool).is_some());
                Ok(0)
            }
            Action::Create => {
                assert!(self.files.insert(path, Vec::new()).is_none());
                Ok(0)
            }
            Action::Stat => {
                assert!(self.files.contains_key(&path));
                Ok(0)
            }
            Action::Rename { to } => {
                let bytes = self.files.remove(&path).unwrap();
                self.files.insert(to.to_string(), bytes);
                Ok(0)
            }
            Action::Delete => {
                assert!(self.files.remove(&path).is_some());
                Ok(0)
            }
        }
    }
}

/// Results of a load on a disk.
struct Run {
    counts: BTreeMap<&'static str, u64>,
    meter: Meter,
    order: Vec<FileId>,
    /// Whether a tool cut a file.
    has_cut: bool,
}

/// Runs all tools in turn, one operation each, 10 µs per operation.
fn run(config: &FilesLoad, disk: &mut Disk, stop_after: Option<u64>) -> Run {
    run_as(Conduct::default(), config, disk, stop_after)
}

/// Runs all tools in turn, one completion each. Operations are carried out when they begin; of
/// reads and writes at once, the last one begun ends first.
fn run_as(conduct: Conduct, config: &FilesLoad, disk: &mut Disk, stop_after: Option<u64>) -> Run {
    let forest = Arc::new(Forest::new(&config.trees).unwrap());
    let settings = Arc::new(Settings::new(config).unwrap());
    let mut units = Units::new(config.first_tree, config.stride, config.trees.trees);
    let new = |number| Tool::new(Arc::clone(&forest), Arc::clone(&settings), number, conduct);
    let mut tools: Vec<(Tool, VecDeque<Completion>)> = (0..config.tools)
        .map(|number| (new(number), VecDeque::new()))
        .collect();
    let (mut meter, mut journal) = (Meter::default(), Journal::default());
    let (mut order, mut now) = (Vec::new(), Time::ZERO);
    let mut operations = Vec::new();
    let mut busy = true;
    while std::mem::take(&mut busy) {
        for (tool, ended) in &mut tools {
            if stop_after.is_some_and(|after| disk.executed >= after) {
                if disk.cuts {
                    tool.cut();
                } else {
                    tool.stop();
                }
            } else if tool.is_idle()
                && let Some(tree) = units.take()
            {
                tool.assign(tree);
            }
            tool.poll_operations(&mut operations);
            let begun = operations.len();
            assert!(begun <= 1 || conduct.ahead.is_some());
            let closes = |o: &Operation| matches!(o.action, Action::Flush | Action::Close);
            let alone = ended.is_empty();
            assert!(
                alone || !operations.iter().any(closes),
                "closed while written"
            );
            let apart = !operations
                .iter()
                .any(|o| matches!(o.action, Action::Open { .. }) || closes(o));
            let mut open_failed = false;
            for operation in operations.drain(..) {
                if order.last() != Some(&operation.file) {
                    order.push(operation.file);
                }
                let outcome = match open_failed {
                    true => Err("behind a failed open".into()),
                    false => disk.execute(&operation, tool),
                };
                open_failed |= matches!(operation.action, Action::Open { .. }) && outcome.is_err();
                if matches!((&operation.action, &outcome), (Action::Read { .. }, Ok(_))) {
                    let mut scratch = vec![0; BLOCK as usize];
                    tool.check(&operation, &disk.read, &mut scratch, &mut journal);
                }
                let started = now;
                now.0 += 10_000;
                ended.push_back(Completion {
                    id: operation.id,
                    started,
                    ended: now,
                    outcome,
                });
            }
            if apart && begun > 0 {
                ended.make_contiguous().reverse();
            }
            let Some(completion) = ended.pop_front() else {
                assert!(tool.is_idle());
                continue;
            };
            busy = true;
            tool.handle_completion(completion, &mut journal);
            meter.absorb(&mut journal);
        }
    }
    assert!(disk.open.is_empty(), "no file is left open");
    let mut counts = BTreeMap::new();
    meter.visit(&mut |name, value| {
        counts.insert(name, value);
    });
    Run {
        counts,
        meter,
        order,
        has_cut: tools.iter().any(|(tool, _)| tool.has_cut()),
    }
}

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
    tool.assign(0);
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
    tool.assign(0);
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
