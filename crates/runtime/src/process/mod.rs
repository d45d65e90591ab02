//! Settings and resource counters of an engine's process.
pub mod entropy;
pub mod lines;
pub mod worker;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getaffinity, sched_setaffinity,
};

/// Minimum number of descriptors reserved for uses other than connections: standard streams, epoll,
/// wakers, listeners, stores.
const OTHER_DESCRIPTORS_MIN: u64 = 64;

/// Number of descriptors reserved for files and wakers that are opened later. Pipes of zero-copy
/// sends are not included, because the array reserves those itself.
const DESCRIPTORS_OPENED_LATER: u64 = 32;

/// Requests SIGKILL for this process when the thread that started it ends. An engine normally ends
/// at the end of stdin; with this it never outlives its controller, even if it hangs.
pub fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Requests real-time priority for the calling thread: it runs as soon as it is ready, before all
/// ordinary threads and those of a lower `priority` (1 to 99). Threads that it starts are ordinary.
/// Returns whether the system permits it.
#[must_use]
pub fn request_real_time(priority: u8) -> bool {
    let parameter = libc::sched_param {
        sched_priority: priority.into(),
    };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads the parameter, which outlives it.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) == 0 }
}

/// Moves the process into the network namespace at `path` (`/proc/PID/ns/net` or a bind mount of
/// it). Call it before any thread is started, because a namespace is a property of the thread.
///
/// # Errors
/// `path` cannot be opened, is not a network namespace, or may not be entered.
pub fn enter_network_namespace(path: &Path) -> io::Result<()> {
    let file = std::fs::File::open(path)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Returns the number of descriptors that are or will be open for uses other than connections.
/// `connections` is the number of open connections.
fn other_descriptors(connections: u64) -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    OTHER_DESCRIPTORS_MIN.max(open.saturating_sub(connections) + DESCRIPTORS_OPENED_LATER)
}

/// Raises the limit of open descriptors as far as the system allows. Returns the number of
/// connections that fit in total beside the other descriptors, including the `open` connections.
/// Call it after stores and listeners are open, and again after each further store.
#[must_use]
pub fn connections_possible(open: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // The kernel refuses this only if the hard limit exceeds `fs.nr_open`. The soft limit then
        // stays.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    // `None` means unlimited.
    getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
        .saturating_sub(other_descriptors(open))
}

/// Raises the limit of open descriptors and checks that `connections` fit.
///
/// # Errors
/// A message with the number needed and the limit.
pub fn reserve_descriptors(connections: u64) -> Result<(), String> {
    let possible = connections_possible(0);
    if connections <= possible {
        return Ok(());
    }
    let (needed, limit) = (
        connections + other_descriptors(0),
        possible + other_descriptors(0),
    );
    Err(format!(
        "{connections} connections need {needed} open files, but the limit is {limit} (ulimit -Hn)"
    ))
}

/// A descriptor that is readable after SIGTERM. SIGINT is ignored, because the terminal's Ctrl-C
/// also reaches the controller, which sends `stop`.
pub struct TerminationSignal(OwnedFd);

impl TerminationSignal {
    /// Creates the descriptor. Call it before any thread is started, because threads inherit the
    /// signal mask.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn take() -> io::Result<TerminationSignal> {
        // SAFETY: `sigemptyset` initialises `set` before it is read. SIG_IGN is a valid
        // disposition. The result of `signalfd` is checked before it is owned, and has no other
        // owner.
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(TerminationSignal(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Returns whether the signal was received, and clears it.
    #[must_use]
    pub fn received(&self) -> bool {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        matches!(rustix::io::read(&self.0, &mut info), Ok(n) if n > 0)
    }
}

impl AsFd for TerminationSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Duplicates the descriptor of a standard stream, so that it can be owned.
///
/// # Errors
/// The stream is closed, or no descriptors are left.
pub fn duplicate(stream: impl AsRawFd + AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// Value of [`ResourceUse::busy_poll_ns`].
static BUSY_POLL_NS: AtomicU64 = AtomicU64::new(0);

/// Counts time spent busy polling.
pub fn count_busy_poll(time: Duration) {
    BUSY_POLL_NS.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Resources used by all threads of this process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time in user mode, ns.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, ns.
    pub cpu_system_ns: u64,
    /// Part of both CPU times spent busy polling ([`count_busy_poll`]), ns. The process had no work
    /// in that time, so it does not count as utilisation.
    pub busy_poll_ns: u64,
    /// Current resident memory, bytes.
    pub rss_bytes: u64,
    /// Voluntary context switches: a thread slept.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the scheduler preempted a thread.
    pub involuntary_switches: u64,
}

impl ResourceUse {
    /// Reads the current resource use.
    #[must_use]
    pub fn now() -> ResourceUse {
        // SAFETY: `rusage` consists of integers, for which zero is valid. `getrusage` fills it, and
        // cannot fail with RUSAGE_SELF.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
        ResourceUse {
            cpu_user_ns: ns(usage.ru_utime),
            cpu_system_ns: ns(usage.ru_stime),
            busy_poll_ns: BUSY_POLL_NS.load(Ordering::Relaxed),
            rss_bytes: resident_pages() * rustix::param::page_size() as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// Returns the name and value of each counter of the entity `process` in samples.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, f64); 6] {
        [
            ("cpu_user_ns", self.cpu_user_ns as f64),
            ("cpu_system_ns", self.cpu_system_ns as f64),
            ("busy_poll_ns", self.busy_poll_ns as f64),
            ("rss_bytes_now", self.rss_bytes as f64),
            ("voluntary_switches", self.voluntary_switches as f64),
            ("involuntary_switches", self.involuntary_switches as f64),
        ]
    }
}

/// Requests time slices of length `slice` (0.1 to 100 ms) for the calling thread (EEVDF, Linux
/// 6.12). Short slices have early deadlines, so the thread is scheduled sooner after a wake-up. Its
/// share of the CPU stays the same, and no privilege is needed. Older kernels ignore the request.
pub fn request_time_slices(slice: Duration) {
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    // SAFETY: no memory is passed.
    let (policy, nice) = unsafe {
        (
            libc::sched_getscheduler(0),
            libc::getpriority(libc::PRIO_PROCESS, 0),
        )
    };
    // The user selected another policy, which stays.
    if policy != libc::SCHED_OTHER {
        return;
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: policy as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime_ns: slice.as_nanos() as u64,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the kernel reads `size` bytes of `attributes`.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Returns the CPU time of the calling thread so far, in user mode and in the kernel, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither part is ever negative.
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Runs `work` with the calling thread on one CPU, then restores the thread's affinity.
///
/// # Errors
/// This process may not use that CPU, or the CPU does not exist.
pub fn on_cpu<T>(cpu: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    let allowed = sched_getaffinity(None)?;
    run_on(cpu)?;
    let done = work();
    sched_setaffinity(None, &allowed)?;
    Ok(done)
}

/// Returns the CPUs that the calling thread may use.
///
/// # Errors
/// The kernel refuses.
pub fn allowed_processors() -> io::Result<Vec<u32>> {
    let allowed = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    // A CPU's number is below 1024.
    Ok(cpus.map(|cpu| cpu as u32).collect())
}

/// Moves the calling thread to one CPU, for good.
///
/// # Errors
/// This process may not use that CPU, or the CPU does not exist.
pub fn run_on(cpu: u32) -> io::Result<()> {
    let cpu = cpu as usize;
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

/// Moves the calling thread, and the threads that it spawns later, away from `processors`. Does
/// nothing if it may use no others. Returns whether it has moved.
///
/// # Errors
/// The kernel refuses.
pub fn avoid_processors(processors: &[u32]) -> io::Result<bool> {
    let mut others = sched_getaffinity(None)?;
    for cpu in processors.iter().map(|&cpu| cpu as usize) {
        if cpu < CpuSet::MAX_CPU {
            others.unset(cpu);
        }
    }
    if processors.is_empty() || others.count() == 0 {
        return Ok(false);
    }
    sched_setaffinity(None, &others)?;
    Ok(true)
}

/// The CPU clock of one thread. Any thread may read it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCpuClock(libc::clockid_t);

impl ThreadCpuClock {
    /// Returns the clock of a thread that has not been joined. `None` if the system lacks such a
    /// clock.
    #[must_use]
    pub fn of<T>(thread: &JoinHandle<T>) -> Option<ThreadCpuClock> {
        let mut clock = 0;
        // SAFETY: joining a thread consumes its handle, so this thread has not been joined and its
        // `pthread_t` is valid, even if the thread has ended. `clock` is valid for writing.
        let code = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
        (code == 0).then_some(ThreadCpuClock(clock))
    }

    /// Returns the thread's CPU time so far, in user mode and in the kernel, ns. `None` after the
    /// thread has ended.
    #[must_use]
    pub fn cpu_ns(self) -> Option<u64> {
        let mut t = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `t` is valid for writing. The kernel refuses to read the clock of an ended
        // thread.
        let code = unsafe { libc::clock_gettime(self.0, &raw mut t) };
        (code == 0).then(|| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }
}

/// Returns the unit of CPU times in procfs, ticks per second.
#[must_use]
pub fn clock_ticks_per_s() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Returns the number of resident pages (second field of `/proc/self/statm`), or 0 without procfs.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_open_files_are_not_available_to_connections() {
        let before = connections_possible(0);
        let files: Vec<_> = (0..100)
            .map(|_| std::fs::File::open("/proc/self/stat").expect("a file"))
            .collect();
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        assert!(open >= 100 && connections_possible(0) <= before.saturating_sub(100 - 64));
        drop(files);
    }

    #[test]
    fn threads_leave_processors_unless_they_may_use_no_others() {
        let allowed_cpus = || {
            let set = sched_getaffinity(None).expect("the set of this thread");
            let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
            cpus.map(|cpu| cpu as u32).collect::<Vec<_>>()
        };
        // In a thread of its own, because others of this process are not meant.
        std::thread::spawn(move || {
            let all = allowed_cpus();
            assert!(!avoid_processors(&[]).unwrap() && !avoid_processors(&all).unwrap());
            assert_eq!(allowed_cpus(), all);
            let moved = avoid_processors(&[all[0], u32::MAX]).unwrap();
            assert_eq!(moved, all.len() > 1);
            if moved {
                assert_eq!(allowed_cpus(), all[1..]);
                let inherited = std::thread::spawn(allowed_cpus).join().unwrap();
                assert_eq!(inherited, all[1..]);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn work_shows_in_the_resource_counters() {
        let before = ResourceUse::now();
        let mut x = 0_u64;
        while ResourceUse::now().cpu_user_ns + ResourceUse::now().cpu_system_ns
            < before.cpu_user_ns + before.cpu_system_ns + 2_000_000
        {
            x = std::hint::black_box(x + 1);
        }
        assert!(ResourceUse::now().rss_bytes > 100_000);
    }

    #[test]
    fn a_working_thread_and_a_sleeping_thread_are_distinguished() {
        use std::sync::mpsc;
        const WORK_NS: u64 = 5_000_000;
        let (worked, has_worked) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let working = std::thread::spawn(move || {
            while thread_cpu_ns() < WORK_NS {}
            worked.send(thread_cpu_ns()).unwrap();
            let _ = ended.recv();
        });
        let (wake, woken) = mpsc::channel::<()>();
        let sleeping = std::thread::spawn(move || {
            let _ = woken.recv();
        });
        let clocks = [&working, &sleeping].map(|thread| ThreadCpuClock::of(thread).unwrap());
        let own = has_worked.recv().unwrap();
        let [reported, idle] = clocks.map(|clock| clock.cpu_ns().unwrap());
        assert!(
            reported >= own,
            "the clock reports {reported} ns, less than the thread itself: {own} ns"
        );
        assert!(idle < WORK_NS, "{idle} ns without any work");
        drop((end, wake));
        working.join().unwrap();
        sleeping.join().unwrap();
    }

    #[test]
    fn more_descriptors_than_the_system_grants_are_refused_with_the_limit() {
        let error = reserve_descriptors(1 << 40).unwrap_err();
        assert!(error.contains("the limit is"), "{error}");
    }
}
