//! The memory of a guest, mapped into this process.
use std::fs::File;
use std::io;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Memory of a guest.
pub(super) struct Memory {
    pub(super) mapped: GuestMemoryMmap,
    spans: Vec<Span>,
}

/// Part of the guest's memory, as QEMU addresses it in its own process.
struct Span {
    user: u64,
    guest: u64,
    bytes: u64,
}

impl Memory {
    /// Maps the regions of a memory table, each from its file.
    ///
    /// # Errors
    /// A file is shorter than its region, could become so (it is no memfd that is sealed against
    /// shrinking), or has huge pages; regions overlap; or the system refuses a mapping.
    pub(super) fn map(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<Memory> {
        let mut parts: Vec<_> = regions.iter().zip(files).collect();
        parts.sort_by_key(|(region, _)| region.guest_phys_addr);
        let mut spans = Vec::new();
        let mut mapped = Vec::new();
        for (region, file) in parts {
            let (guest, bytes) = (region.guest_phys_addr, region.memory_size);
            let end = region.mmap_offset.checked_add(bytes);
            check_file(&file, end.ok_or(io::ErrorKind::InvalidInput)?)?;
            let offset = FileOffset::new(file, region.mmap_offset);
            let bytes_here = usize::try_from(bytes).map_err(io::Error::other)?;
            let part = MmapRegion::from_file(offset, bytes_here).map_err(io::Error::other)?;
            let part = GuestRegionMmap::new(part, GuestAddress(guest));
            mapped.push(part.ok_or(io::ErrorKind::InvalidInput)?);
            spans.push(Span {
                user: region.user_addr,
                guest,
                bytes,
            });
        }
        let mapped = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
        Ok(Memory { mapped, spans })
    }

    /// Converts an address in QEMU's process. `None` if it is not in the table.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.spans.iter().find_map(|span| {
            let offset = user.checked_sub(span.user)?;
            (offset < span.bytes).then(|| GuestAddress(span.guest + offset))
        })
    }
}

/// Type of the file system of a memfd without huge pages (TMPFS_MAGIC of linux/magic.h).
const TMPFS: u64 = 0x0102_1994;

/// Checks that a file has `bytes` bytes now and later.
fn check_file(file: &File, bytes: u64) -> io::Result<()> {
    // Access to a huge page raises SIGBUS if the system has none left.
    if fstatfs(file)?.f_type as u64 != TMPFS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the guest's memory must be a memfd without huge pages",
        ));
    }
    if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the guest's memory must be a memfd that is sealed against shrinking",
        ));
    }
    if u64::try_from(fstat(file)?.st_size).is_ok_and(|size| size >= bytes) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the file of the guest's memory is shorter than the memory table says",
    ))
}
