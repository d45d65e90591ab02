//! The only clock: `CLOCK_MONOTONIC`, which all engines of a machine share in all namespaces.
use std::num::NonZeroU64;

use hakaru_units::Time;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the present instant. Costs a vDSO call (some 20 ns), no system call.
#[must_use]
pub fn now() -> Time {
    let t = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot and is never negative.
    Time(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Sleeps until the instant, despite signals. Returns at once if it has passed.
pub fn sleep_until(until: Time) {
    let until = Timespec {
        tv_sec: (until.0 / 1_000_000_000) as i64,
        tv_nsec: (until.0 % 1_000_000_000) as i64,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {}
}

/// Reads the monotonic clock and the real-time clock (ns since 1970), repeatedly until both reads
/// are within a microsecond, and otherwise returns the closest pair.
#[must_use]
pub fn now_and_realtime_ns() -> (Time, u64) {
    let mut best = (u64::MAX, Time::ZERO, 0);
    for _ in 0..100 {
        let before = now();
        let t = clock_gettime(ClockId::Realtime);
        let after = now();
        let apart = after.0 - before.0;
        if apart < best.0 {
            let realtime = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
            best = (apart, Time(before.0 + apart / 2), realtime);
        }
        if apart < 1000 {
            break;
        }
    }
    (best.1, best.2)
}

/// Returns the CPU time of the calling thread, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Makes timers of the calling thread (and of threads that it starts) fire at their instant: the
/// kernel's default delays them by up to 50 µs to save power. If the kernel refuses, its default
/// remains.
pub fn set_timers_exact() {
    // 1 ns is the least slack there is; 0 would mean "back to the default".
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_back() {
        let mut before = now();
        for _ in 0..10_000 {
            let after = now();
            assert!(after >= before);
            before = after;
        }
    }
}
