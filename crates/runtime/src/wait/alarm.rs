//! A timer that stays armed while a shell waits repeatedly.
//!
//! If a deadline is passed to the wait, the kernel arms and cancels a timer at every sleep, which
//! costs 2 % of the latency of a single request. This timer is armed once, fires at the deadline or
//! earlier, and is armed again afterwards.
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hakaru_units::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer. Its descriptor becomes readable when it fires.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// Instant at which the timer fires or has fired.
    set: Cell<Time>,
}

impl Alarm {
    /// Creates a timer that is not armed.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm {
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            set: Cell::new(Time::ZERO),
        })
    }

    /// Ensures that the timer fires at `until` or earlier. A caller that is woken early calls this
    /// again.
    ///
    /// # Errors
    /// None with a valid `until`.
    pub(crate) fn cover(&self, now: Time, until: Time) -> io::Result<()> {
        let set = self.set.get();
        if now < set && set <= until {
            return Ok(());
        }
        let one_shot = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: (until.0 / 1_000_000_000) as i64,
                tv_nsec: (until.0 % 1_000_000_000) as i64,
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &one_shot)?;
        self.set.set(until);
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
