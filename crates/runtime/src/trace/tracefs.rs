//! The kernel's tracefs, read only: the descriptions of the tracepoints. An existing mount is used
//! if there is one. Otherwise a detached mount is created, which is visible only through its
//! descriptor and is removed with it, so nothing remains however this process ends.
use std::ffi::CStr;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// The root of a tracefs.
pub struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// # Errors
    /// Tracefs is not mounted and this user may not mount it (`CAP_SYS_ADMIN` of the machine, not
    /// of a user namespace), or the kernel lacks it.
    pub fn open() -> io::Result<Tracefs> {
        for path in MOUNTED {
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
            root: mount_nowhere(c"tracefs")?,
        })
    }

    /// Reads a file by its path below the root.
    ///
    /// # Errors
    /// There is no such file, or it may not be read.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::empty())?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Creates a detached mount of a file system (Linux 5.2).
fn mount_nowhere(kind: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is a C string that outlives the call; the result is checked and owned by
    // nothing else.
    let context = unsafe {
        owned(libc::syscall(
            libc::SYS_fsopen,
            kind.as_ptr(),
            FSOPEN_CLOEXEC,
        ))
    }?;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: the command takes neither key nor value; the context is open.
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
    // SAFETY: the context is open; the result is checked and owned by nothing else.
    unsafe {
        owned(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            0,
        ))
    }
}

/// # Safety
/// `result` is the fresh return value of a system call that opens a descriptor.
unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller guarantees it (see above).
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}
