//! Events of tracepoints (perf_event_open(2)). The kernel writes them to one ring in memory per
//! CPU, which this process empties.
//!
//! The kernel removes the events with their last descriptor, so nothing remains however this
//! process ends. `hakaru_watch::trace` parses the records. Timestamps are of `CLOCK_MONOTONIC`.
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

const DISABLED: u64 = 1;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;

/// Offsets of the ring's head and tail in the page before it (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// `struct perf_event_attr` as of Linux 4.1.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config_1: u64,
    config_2: u64,
    branches: u64,
    registers_user: u64,
    stack_user: u32,
    clock: i32,
    registers_interrupt: u64,
    aux_watermark: u32,
    stack_max: u16,
    reserved: u16,
}

/// A tracepoint to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Tracepoint<'a> {
    /// Number from the tracepoint's `format` file.
    pub id: u16,
    /// Kernel filter on the tracepoint's fields; empty for none.
    pub filter: &'a str,
}

/// Rings of tracepoint events on all CPUs that were online when they were opened.
pub struct TraceRings {
    rings: Vec<Ring>,
    /// Events that are written into the ring of another event.
    redirected: Vec<OwnedFd>,
    scratch: Vec<u8>,
}

struct Ring {
    cpu: u32,
    event: OwnedFd,
    map: MmapRaw,
    tail: u64,
}

impl TraceRings {
    /// Opens the tracepoints, which record nothing until they are [enabled](TraceRings::enable).
    /// `ring_bytes` is the size of each CPU's ring, a power of two and at least a page.
    ///
    /// # Errors
    /// The user may not trace: that takes `CAP_PERFMON` of the machine, or
    /// `kernel.perf_event_paranoid` -1. A filter names a field that the tracepoint lacks. The rings
    /// exceed the limit of locked memory (`kernel.perf_event_mlock_kb`).
    pub fn open(points: &[Tracepoint<'_>], ring_bytes: usize) -> io::Result<TraceRings> {
        let mut rings = TraceRings {
            rings: Vec::new(),
            redirected: Vec::new(),
            scratch: Vec::new(),
        };
        for cpu in online_cpus()? {
            let mut cpu_ring: Option<Ring> = None;
            for point in points {
                let event = open_event(point.id, cpu, ring_bytes)?;
                if !point.filter.is_empty() {
                    set_filter(&event, point.filter)?;
                }
                match &cpu_ring {
                    None => cpu_ring = Some(Ring::map(cpu, event, ring_bytes)?),
                    Some(ring) => {
                        set_output(&event, &ring.event)?;
                        rings.redirected.push(event);
                    }
                }
            }
            rings.rings.extend(cpu_ring);
        }
        Ok(rings)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// None on open events.
    pub fn enable(&self) -> io::Result<()> {
        let own = self.rings.iter().map(|ring| &ring.event);
        for event in own.chain(&self.redirected) {
            // SAFETY: the request takes no argument.
            check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_ENABLE, 0) })?;
        }
        Ok(())
    }

    /// Returns the descriptors of the rings. Each is readable when its ring is a quarter full.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.event.as_fd())
    }

    /// Returns the numbers of the recorded CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.rings.iter().map(|ring| ring.cpu)
    }

    /// Calls `take` for each CPU with its number and the records added since the last call:
    /// complete records, in order. CPUs without records are skipped.
    pub fn drain(&mut self, take: &mut dyn FnMut(u32, &[u8])) {
        for ring in &mut self.rings {
            ring.read(&mut self.scratch);
            if !self.scratch.is_empty() {
                take(ring.cpu, &self.scratch);
            }
        }
    }
}

impl Ring {
    fn map(cpu: u32, event: OwnedFd, ring_bytes: usize) -> io::Result<Ring> {
        let length = rustix::param::page_size() + ring_bytes;
        let map = MmapOptions::new().len(length).map_raw(&event)?;
        Ok(Ring {
            cpu,
            event,
            map,
            tail: 0,
        })
    }

    /// Copies the recorded bytes to `out`, which is cleared first, and frees their room in the
    /// ring.
    fn read(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let page = rustix::param::page_size();
        let ring_bytes = self.map.len() - page;
        // The kernel writes the records before it advances the head.
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let length = head.wrapping_sub(self.tail) as usize;
        if length == 0 || length > ring_bytes {
            return;
        }
        let begin = self.tail as usize & (ring_bytes - 1);
        let first = length.min(ring_bytes - begin);
        out.reserve(length);
        // SAFETY: the data lies after the first page and is `ring_bytes` long, so `begin + first`
        // and `length - first` are within it. The kernel does not write between tail and head.
        // `out` has room for `length` bytes, all of which are written.
        unsafe {
            let data = self.map.as_ptr().add(page);
            std::ptr::copy_nonoverlapping(data.add(begin), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, out.as_mut_ptr().add(first), length - first);
            out.set_len(length);
        }
        self.tail = head;
        self.position(DATA_TAIL).store(head, Ordering::Release);
    }

    /// Returns the head or the tail, by its offset in the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as `self` lives. The kernel, which shares it, accesses
        // head and tail as aligned 64-bit numbers.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }
}

fn open_event(id: u16, cpu: u32, ring_bytes: usize) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id.into(),
        sample_period: 1,
        sample_type: PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
        flags: DISABLED | WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID,
        wakeup: u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX),
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: `attributes` has the length in its field `size` and outlives the call. The result is
    // checked and has no other owner.
    unsafe {
        let result = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu as libc::c_int,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        );
        check(result as libc::c_int)?;
        Ok(OwnedFd::from_raw_fd(result as libc::c_int))
    }
}

fn set_filter(event: &OwnedFd, filter: &str) -> io::Result<()> {
    let text = std::ffi::CString::new(filter)?;
    // SAFETY: the text outlives the call, which only reads it.
    check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER, text.as_ptr()) })
}

fn set_output(event: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // SAFETY: the request takes a descriptor, which is open.
    check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, to.as_raw_fd()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the online CPUs, which sysfs lists as ranges (`0-3,6`).
fn online_cpus() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().map_err(io::Error::other);
        cpus.extend(number(first)?..=number(last)?);
    }
    Ok(cpus)
}
