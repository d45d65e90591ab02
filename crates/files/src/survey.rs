//! Survey of an existing directory: sizes and depths of its files, without their contents.
use serde::Serialize;

/// Steps per doubling of the size classes.
const CLASSES_PER_OCTAVE: u32 = 4;
/// Levels that are counted one by one; deeper files count on the last one.
const LEVELS_MAX: usize = 64;

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Regular file.
    File {
        /// Size, bytes.
        bytes: u64,
        /// Level of its folder; that of the surveyed directory is 1.
        level: u32,
    },
    /// Folder with its number of files, counted after them.
    Folder {
        /// Files directly in it.
        files: u64,
        /// Its level.
        level: u32,
    },
    /// Symbolic link, which is not followed.
    Link,
    /// Device, socket or pipe.
    Other,
    /// Mount point of another file system, which is not entered.
    Mount,
    /// Entry that cannot be read.
    Unreadable,
}

/// Counts of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Limits of the size classes, ascending.
    limits: Vec<u64>,
    counts: Vec<u64>,
    files_by_level: Vec<u64>,
    folders_by_level: Vec<u64>,
    /// Folders by their number of files: 0, 1, 2 to 3, 4 to 7, ….
    folders_by_files: Vec<u64>,
    files: u64,
    bytes: u128,
    folders: u64,
    links: u64,
    others: u64,
    mounts: u64,
    unreadable: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    files: u64,
    bytes: f64,
    mean_bytes: f64,
    folders: u64,
    depth: usize,
    links: u64,
    others: u64,
    mounts: u64,
    unreadable: u64,
    complete: bool,
    sizes: Table,
    placement: Levels<'a>,
    folders_by_level: &'a [u64],
    folders_by_files: Vec<FilesClass>,
}

#[derive(Serialize)]
struct Table {
    kind: &'static str,
    classes: Vec<SizeCount>,
}

#[derive(Serialize)]
struct SizeCount {
    up_to_bytes: u64,
    count: u64,
}

#[derive(Serialize)]
struct Levels<'a> {
    kind: &'static str,
    weights: &'a [u64],
}

#[derive(Serialize)]
struct FilesClass {
    up_to_files: u64,
    folders: u64,
}

impl Default for Survey {
    fn default() -> Survey {
        let mut limits = vec![0];
        // Quarters of an octave up to 2^50, rounded down; small ones coincide.
        for step in 0..=50 * CLASSES_PER_OCTAVE {
            let limit = libm::exp2(f64::from(step) / f64::from(CLASSES_PER_OCTAVE)) as u64;
            if limits.last().is_some_and(|last| limit > *last) {
                limits.push(limit);
            }
        }
        Survey {
            counts: vec![0; limits.len()],
            limits,
            files_by_level: Vec::new(),
            folders_by_level: Vec::new(),
            folders_by_files: Vec::new(),
            files: 0,
            bytes: 0,
            folders: 0,
            links: 0,
            others: 0,
            mounts: 0,
            unreadable: 0,
        }
    }
}

impl Survey {
    /// Counts an entry.
    pub fn add(&mut self, entry: Entry) {
        match entry {
            Entry::File { bytes, level } => {
                let class = self.limits.partition_point(|limit| *limit < bytes);
                self.counts[class.min(self.limits.len() - 1)] += 1;
                count(&mut self.files_by_level, level);
                self.files += 1;
                self.bytes += u128::from(bytes);
            }
            Entry::Folder { files, level } => {
                self.folders += 1;
                count(&mut self.folders_by_level, level);
                let class = (u64::BITS - files.leading_zeros()) as usize;
                if self.folders_by_files.len() <= class {
                    self.folders_by_files.resize(class + 1, 0);
                }
                self.folders_by_files[class] += 1;
            }
            Entry::Link => self.links += 1,
            Entry::Other => self.others += 1,
            Entry::Mount => self.mounts += 1,
            Entry::Unreadable => self.unreadable += 1,
        }
    }

    /// Returns the number of files counted.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns the survey as JSON. `sizes` and `placement` have the form that a description of
    /// trees takes. `complete` is whether every file was counted.
    #[must_use]
    pub fn report(&self, complete: bool) -> String {
        let used = self
            .counts
            .iter()
            .rposition(|count| *count > 0)
            .map_or(0, |last| last + 1);
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(0);
        // The class before the first one bounds it.
        let shown = first.saturating_sub(1)..used;
        let classes = shown
            .map(|i| SizeCount {
                up_to_bytes: self.limits[i],
                count: self.counts[i],
            })
            .collect();
        let by_files = self.folders_by_files.iter().enumerate();
        let report = Report {
            files: self.files,
            bytes: self.bytes as f64,
            mean_bytes: self.bytes as f64 / self.files.max(1) as f64,
            folders: self.folders,
            depth: self.folders_by_level.len(),
            links: self.links,
            others: self.others,
            mounts: self.mounts,
            unreadable: self.unreadable,
            complete,
            sizes: Table {
                kind: "table",
                classes,
            },
            placement: Levels {
                kind: "levels",
                weights: &self.files_by_level,
            },
            folders_by_level: &self.folders_by_level,
            folders_by_files: by_files
                .map(|(class, folders)| FilesClass {
                    up_to_files: ((1_u128 << class) - 1) as u64,
                    folders: *folders,
                })
                .collect(),
        };
        serde_json::to_string_pretty(&report).expect("a survey is representable in JSON")
    }
}

/// Counts one on a level, from 1.
fn count(levels: &mut Vec<u64>, level: u32) {
    let index = (level.max(1) as usize - 1).min(LEVELS_MAX - 1);
    if levels.len() <= index {
        levels.resize(index + 1, 0);
    }
    levels[index] += 1;
}
