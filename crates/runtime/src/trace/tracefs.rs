//! Read access to the kernel's tracefs, which describes the tracepoints.
//!
//! An existing mount is used if there is one. Otherwise a detached mount is created. It is visible
//! only through its descriptor and is removed with it, so nothing remains however this process
//! ends.
use std::ffi::CStr;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

/// Usual mount points.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// An open tracefs.
pub struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// Opens the mounted tracefs, or mounts one.
    ///
    /// # Errors
    /// Tracefs is not mounted and the user may not mount it (which takes `CAP_SYS_ADMIN` of the
    /// machine, not of a user namespace), or the kernel lacks it.
    pub fn open() -> io::Result<Tracefs> {
        for path in MOUNT_POINTS {
            let folder = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
            if let Ok(root) = rustix::fs::open(path, folder, Mode::empty()) {
                let tracefs = Tracefs { root };
                // The folder also exists if the file system is not mounted.
                if tracefs.read("README").is_ok() {
                    return Ok(tracefs);
                }
            }
        }
        Ok(Tracefs {
            root: mount_detached(c"tracefs")?,
        })
    }

    /// Reads a file by its path below the root.
    ///
    /// # Errors
    /// The file does not exist or may not be read.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::empty())?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Creates a detached mount of a file system (Linux 5.2).
fn mount_detached(kind: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is a C string that outlives the call. The result has no other owner.
    let context = unsafe {
        to_owned_fd(libc::syscall(
            libc::SYS_fsopen,
            kind.as_ptr(),
            FSOPEN_CLOEXEC,
        ))
    }?;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: the command takes neither key nor value, and the context is open.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            none,
            none,
            0,
        )
    };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the context is open, and the result has no other owner.
    unsafe {
        to_owned_fd(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            0,
        ))
    }
}

/// Converts the return value of a system call that opens a descriptor.
///
/// # Safety
/// If `result` is a descriptor, it must be open and have no other owner.
unsafe fn to_owned_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller guarantees that the descriptor is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}
