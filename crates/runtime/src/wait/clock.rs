//! The clock of all shells: `CLOCK_MONOTONIC`, which all engines of a machine share.
use std::num::NonZeroU64;

use hakaru_units::Time;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the current instant. The call takes some 20 ns, because the vDSO saves the system call.
#[must_use]
pub fn now() -> Time {
    let t = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot and is never negative.
    Time(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Sleeps until an instant. Signals do not end the sleep. Returns at once if the instant has
/// passed.
pub fn sleep_until(until: Time) {
    let until = Timespec {
        tv_sec: (until.0 / 1_000_000_000) as i64,
        tv_nsec: (until.0 % 1_000_000_000) as i64,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {}
}

/// Returns the monotonic clock and the real-time clock (Unix time, ns) at the same instant, to
/// within a microsecond if possible.
#[must_use]
pub fn now_and_realtime_ns() -> (Time, u64) {
    let (before, realtime_ns, after) = realtime_ns_between();
    (Time(before.0 + (after.0 - before.0) / 2), realtime_ns)
}

/// Returns the real-time clock (Unix time, ns), between two instants of the monotonic clock. Reads
/// all three up to 100 times, until the instants are less than a microsecond apart, and returns
/// those that are closest. A thread that waits for a CPU between two readings gets another try.
#[must_use]
pub fn realtime_ns_between() -> (Time, u64, Time) {
    let mut best = (Time::ZERO, 0, Time(u64::MAX));
    for _ in 0..100 {
        let before = now();
        let t = clock_gettime(ClockId::Realtime);
        let after = now();
        if after.0 - before.0 < best.2.0 - best.0.0 {
            let realtime_ns = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
            best = (before, realtime_ns, after);
        }
        if after.0 - before.0 < 1000 {
            break;
        }
    }
    best
}

/// Removes the timer slack of the calling thread and of threads that it starts. By default the
/// kernel delays their timers by up to 50 µs to save power. If the kernel refuses, the default
/// remains.
pub fn set_timers_exact() {
    // 1 ns is the minimum; 0 would restore the default.
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
