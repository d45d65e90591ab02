//! Advice for errors of files and directories, common to LUs in files and to pools.
use std::io::{self, ErrorKind};

/// Error numbers without a name in `ErrorKind` (errno(3)).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Returns advice for a file or directory that cannot be created, opened, extended or written.
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
            "choose a smaller size, or a file system that supports larger files; see also `ulimit -f`"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space there, or choose another file system"
        }
        ErrorKind::NotFound => "create the directory first",
        ErrorKind::NotADirectory => "choose another folder: a part of the path is a file",
        ErrorKind::IsADirectory => "name a file inside the directory",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a path to which this user may write"
        }
        ErrorKind::ResourceBusy => "choose another path: another process or a mount uses this one",
        ErrorKind::AlreadyExists => "remove the file, or choose another name",
        _ => "see dmesg for errors of the device, or choose another path",
    }
}
