//! A file system in memory, and runs of tools on it in virtual time.
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use hakaru_contract::files::{
    FileContent, FilePlacement, FileSizes, FilesDestination, FilesLoad, FilesProfile, SizeClass,
    TreesConfig,
};
use hakaru_files::{
    Action, Completion, Conduct, FileId, Forest, Journal, Meter, OpenMode, Operation, Outcome,
    Settings, Tool, Units,
};
use hakaru_units::Time;

pub const BLOCK: u32 = 512;

pub fn trees() -> TreesConfig {
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

pub fn load() -> FilesLoad {
    FilesLoad {
        destination: FilesDestination::Directory {
            path: "/nowhere".into(),
        },
        trees: Box::new(trees()),
        build: false,
        remove: false,
        profile: FilesProfile::WholeFiles,
        mix: None,
        tools: 2,
        first_tree: 0,
        stride: 1,
        read_percent: 80,
        block_bytes: BLOCK,
        flush: false,
        verify: true,
        cold: false,
        repeat: false,
        second_start: false,
        seed: 5,
        warmup_s: 0.0,
        measure_s: None,
        sample_interval_ms: 1000,
    }
}

/// A file system: contents by path, and the open file of each tool.
pub struct Disk {
    pub files: HashMap<String, Vec<u8>>,
    pub folders: HashSet<String>,
    pub open: HashMap<u32, (String, OpenMode)>,
    pub walked: HashMap<u32, Vec<String>>,
    /// Operations that fail, by their number in the order of execution.
    pub failures: HashSet<u64>,
    pub executed: u64,
    pub read: Vec<u8>,
    /// Whether a stop cuts the files that are written.
    pub cuts: bool,
    /// Whether tools walk to every file.
    pub walks: bool,
}

impl Disk {
    pub fn of(forest: &Forest) -> Disk {
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

    pub fn execute(&mut self, operation: &Operation, tool: &Tool) -> Outcome {
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
            Action::List => {
                let walked = self.walked[&operation.tool].last();
                assert!(!self.walks || walked == Some(&path));
                let below = |other: &str| {
                    let name = other
                        .strip_prefix(&path)
                        .and_then(|rest| rest.strip_prefix('/'));
                    name.is_some_and(|name| !name.contains('/'))
                };
                let names = self.files.keys().chain(&self.folders);
                Ok(names.filter(|other| below(other)).count() as u64)
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
pub struct Run {
    pub counts: BTreeMap<&'static str, u64>,
    pub meter: Meter,
    pub order: Vec<FileId>,
    /// Whether a tool cut a file.
    pub has_cut: bool,
}

/// Runs all tools in turn, one operation each, 10 µs per operation.
pub fn run(config: &FilesLoad, disk: &mut Disk, stop_after: Option<u64>) -> Run {
    run_as(Conduct::default(), config, disk, stop_after)
}

/// Runs all tools in turn, one completion each. Operations are carried out when they begin; of
/// reads and writes at once, the last one begun ends first.
pub fn run_as(
    conduct: Conduct,
    config: &FilesLoad,
    disk: &mut Disk,
    stop_after: Option<u64>,
) -> Run {
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
                tool.assign(tree, now);
            }
            now = now.max(tool.due().unwrap_or(now));
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
