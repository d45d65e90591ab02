//! The status of a device of Linux's device mapper, as `dmsetup status` prints it.
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `struct dm_ioctl` (linux/dm-ioctl.h): the head of every order and answer.
#[repr(C)]
struct Head {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// Length of `struct dm_ioctl`, and of `struct dm_target_spec`, which precedes each target's text.
const HEAD_BYTES: usize = 312;
const SPEC_BYTES: usize = 40;
/// Place of the target's type in `struct dm_target_spec`.
const TYPE: std::ops::Range<usize> = 24..40;
const _: () = assert!(size_of::<Head>() == HEAD_BYTES);

/// `DM_TABLE_STATUS`: `_IOWR(0xfd, 12, struct dm_ioctl)`.
const TABLE_STATUS: libc::Ioctl = 0xc138_fd0c_u32 as libc::Ioctl;
/// `DM_BUFFER_FULL_FLAG`: the answer was longer than the buffer.
const BUFFER_FULL: u32 = 1 << 8;
/// Hundreds of paths.
const BUFFER_BYTES: usize = 16 << 10;

/// The order and the place of its answer.
#[repr(C)]
struct Exchange {
    head: Head,
    data: [u8; BUFFER_BYTES],
}

/// A device of the device mapper.
#[derive(Debug)]
pub struct MappedDevice {
    control: File,
    /// As in `stat`.
    number: u64,
}

impl MappedDevice {
    /// Returns the device at `path`: `/dev/mapper/NAME`.
    ///
    /// # Errors
    /// There is no such device, or the device mapper may not be used, which needs root.
    pub fn open(path: &Path) -> io::Result<MappedDevice> {
        Ok(MappedDevice {
            control: File::open("/dev/mapper/control")?,
            number: path.metadata()?.rdev(),
        })
    }

    /// Returns type and status of the device's first target: `multipath` and what its driver
    /// reports.
    ///
    /// # Errors
    /// The device is none of the device mapper (`ENXIO`), or has no table.
    pub fn status(&self) -> io::Result<(String, String)> {
        let mut exchange = Box::new(Exchange {
            head: Head {
                version: [4, 0, 0],
                data_size: size_of::<Exchange>() as u32,
                data_start: HEAD_BYTES as u32,
                target_count: 0,
                open_count: 0,
                flags: 0,
                event_nr: 0,
                padding: 0,
                dev: kernel_number(self.number),
                name: [0; 128],
                uuid: [0; 129],
                data: [0; 7],
            },
            data: [0; BUFFER_BYTES],
        });
        // SAFETY: the request reads and writes `data_size` bytes, which is the size of `Exchange`.
        let result =
            unsafe { libc::ioctl(self.control.as_raw_fd(), TABLE_STATUS, &raw mut *exchange) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let head = &exchange.head;
        let begin = (head.data_start as usize).saturating_sub(HEAD_BYTES);
        if head.target_count == 0 || head.flags & BUFFER_FULL != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the device has no table, or one with too many paths",
            ));
        }
        exchange
            .data
            .get(begin..)
            .and_then(first_target)
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "the status has another form")
            })
    }
}

/// Returns the type and the text of the first target of an answer.
fn first_target(data: &[u8]) -> Option<(String, String)> {
    let kind = text(data.get(TYPE)?)?;
    let status = text(data.get(SPEC_BYTES..)?)?;
    Some((kind, status))
}

/// Returns the text up to the first zero.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// Returns a device number as the kernel's `new_encode_dev` has it.
fn kernel_number(number: u64) -> u64 {
    let (major, minor) = (
        u64::from(libc::major(number)),
        u64::from(libc::minor(number)),
    );
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_target_of_an_answer_has_its_type_and_its_text() {
        let mut data = vec![0; 200];
        data[TYPE][..9].copy_from_slice(b"multipath");
        data[SPEC_BYTES..SPEC_BYTES + 6].copy_from_slice(b"2 0 0 ");
        let found = ("multipath".to_owned(), "2 0 0 ".to_owned());
        assert_eq!(first_target(&data), Some(found));
        assert_eq!(first_target(&data[..SPEC_BYTES]), None);
        assert_eq!(first_target(&[1; 200]), None);
    }

    #[test]
    fn numbers_of_devices_are_those_of_the_kernel() {
        assert_eq!(kernel_number(libc::makedev(253, 1)), 0xfd01);
        assert_eq!(kernel_number(libc::makedev(253, 0x1234)), 0x0120_fd34);
    }

    #[test]
    fn device_that_does_not_exist_is_an_error() {
        let error = MappedDevice::open(Path::new("/dev/mapper/no such device")).unwrap_err();
        assert!(error.raw_os_error().is_some());
    }
}
