//! Advice for each way that a path can fail, common to LUs in files, pools and the state directory.
use std::io::{self, ErrorKind};

/// Error numbers that `ErrorKind` has no name for (errno(3)).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Advice for a file or directory that cannot be made, opened, lengthened or written.
pub fn path_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(EMFILE) => return "raise the limit of open files of this process (ulimit -n)",
        Some(ENFILE) => {
            return "raise the limit of open files of the machine (sysctl fs.file-max)";
        }
        _ => {}
    }
    match error.kind() {
        ErrorKind::FileTooLarge => {
            "make it smaller, or choose a file system that has larger files; see also `ulimit -f`"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space there, or choose another file system"
        }
        ErrorKind::NotFound => "make the directory first",
        ErrorKind::NotADirectory => "a part of the path is a file: choose another folder",
        ErrorKind::IsADirectory => "name a file inside it",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a place where you may write"
        }
        ErrorKind::ResourceBusy => "another process or a mount uses it: choose another path",
        ErrorKind::AlreadyExists => "remove that file, or choose another name",
        _ => "see dmesg for errors of the device, or choose another path",
    }
}
