//! The paths of a device of dm-multipath: the kernel's own files and the status of the device are
//! read for every sample.
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hakaru_load::{KernelPaths, PathSight, PathStatus, parse_multipath_status};
use hakaru_runtime::file::device_mapper::MappedDevice;
use hakaru_units::Time;

use crate::failure::{Failure, OrEnvironment};

/// Files of a path below /sys.
struct Files {
    /// State of its iSCSI session: `LOGGED_IN`, `FAILED`, `FREE`.
    session: PathBuf,
    /// Number of commands that its disk has completed, hexadecimal.
    answers: PathBuf,
}

/// The paths of the device of one VM.
pub struct DevicePaths {
    device: MappedDevice,
    files: HashMap<String, Files>,
    paths: KernelPaths,
}

impl DevicePaths {
    /// Takes the first look at the paths of a device.
    pub fn open(path: &str, vm: &str) -> Result<DevicePaths, Failure> {
        let hint = "`multipath` needs a device of dm-multipath over iSCSI sessions of this machine, and root";
        let doing = format!("find the paths of {path} for {vm}");
        let device = MappedDevice::open(Path::new(path)).or_environment(&doing, hint)?;
        let mut found = DevicePaths {
            device,
            files: HashMap::new(),
            paths: KernelPaths::default(),
        };
        for status in found.status().or_environment(&doing, hint)? {
            let files = files_of(&status.device).or_environment(&doing, hint)?;
            found.files.insert(status.device, files);
        }
        Ok(found)
    }

    pub fn begin(&mut self, now: Time) {
        self.paths.begin(now);
    }

    pub fn end(&mut self, now: Time, left: bool) {
        self.paths.end(now, left);
    }

    /// Returns the counters now. What the kernel does not show at the moment keeps its last value.
    pub fn counters(&mut self, now: Time) -> BTreeMap<String, f64> {
        // The table may be loaded anew, with other paths, while it is read.
        let statuses = self.status().unwrap_or_default();
        let sights: Vec<_> = statuses
            .into_iter()
            .filter_map(|status| self.sight(status))
            .collect();
        if !sights.is_empty() {
            self.paths.observe(now, sights);
        }
        let mut map = BTreeMap::new();
        self.paths.counters(now).visit(&mut |name, value| {
            // The kernel does not show it.
            if name != "commands_repeated" {
                map.insert(name.to_owned(), value);
            }
        });
        map
    }

    fn status(&self) -> io::Result<Vec<PathStatus>> {
        let (kind, text) = self.device.status()?;
        let other = || {
            let message = format!("it is a device of the kind `{kind}`, not `multipath`");
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        if kind != "multipath" {
            return Err(other());
        }
        parse_multipath_status(&text).ok_or_else(other)
    }

    fn sight(&mut self, status: PathStatus) -> Option<PathSight> {
        if !self.files.contains_key(&status.device) {
            let files = files_of(&status.device).ok()?;
            self.files.insert(status.device.clone(), files);
        }
        let files = &self.files[&status.device];
        let state = fs::read_to_string(&files.session).ok()?;
        let answers = fs::read_to_string(&files.answers).ok()?;
        Some(PathSight {
            status,
            has_session: state.trim_end() == "LOGGED_IN",
            answers: u64::from_str_radix(answers.trim_end().trim_start_matches("0x"), 16).ok()?,
        })
    }
}

/// Returns the files of the disk with the number `device` (`8:16`).
fn files_of(device: &str) -> io::Result<Files> {
    // …/host2/session1/target2:0:0/2:0:0:0
    let scsi = fs::canonicalize(format!("/sys/dev/block/{device}/device"))?;
    let session = scsi
        .iter()
        .filter_map(|part| part.to_str())
        .find(|part| part.starts_with("session"))
        .ok_or_else(|| io::Error::other(format!("disk {device} belongs to no iSCSI session")))?;
    Ok(Files {
        session: Path::new("/sys/class/iscsi_session")
            .join(session)
            .join("state"),
        answers: scsi.join("iodone_cnt"),
    })
}
