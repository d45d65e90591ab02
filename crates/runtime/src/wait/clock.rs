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
/// within a microsecond if possible. Reads both up to 100 times and returns the closest pair.
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
