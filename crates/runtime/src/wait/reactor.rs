//! The reactor: one epoll instance with absolute deadlines.
//!
//! Sockets are registered once, edge-triggered, for reading and writing ([`Interest::Edge`]). A
//! connection then costs one `epoll_ctl` in its life, and none when its send buffer fills or
//! drains. In return, a shell must read after an event until a read is short or fails with
//! `WouldBlock`, or remember that more data may be available. Descriptors from which little is read
//! at a time (stdin, listeners, wakers) are level-triggered ([`Interest::Level`]).
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hakaru_units::Time;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::alarm::Alarm;
use super::clock;
use super::token::Token;

/// Token of the reactor's own timer.
const ALARM: Token = Token(u64::MAX);

/// [`Reactor::far`] where the kernel has `epoll_pwait2`.
const FAR: Duration = Duration::from_millis(1);

/// Trigger mode of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable and writable, each reported once per change. For sockets.
    Edge,
    /// Readable, reported as long as it holds. For listeners, pipes and wakers.
    Level,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Edge => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            Interest::Level => EventFlags::IN,
        }
    }
}

/// An event of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Token of the descriptor.
    pub token: Token,
    /// A read would not block: data, end of stream, a connection to accept, or an error that the
    /// read will return.
    pub readable: bool,
    /// A write would not block. Also reported when a connection attempt succeeds or fails.
    pub writable: bool,
    /// The peer closed its side, or the descriptor failed. Bytes received before can still be read.
    pub closed: bool,
}

/// Buffer for the events of one [`Reactor::wait`].
pub struct Events {
    reported: Vec<epoll::Event>,
}

// SAFETY: the only pointer in an event is a variant of its user data, which is always a token here.
unsafe impl Send for Events {}

impl Events {
    /// Creates a buffer for `n` events, at least 1. The next wait returns events that do not fit.
    #[must_use]
    pub fn with_capacity(n: usize) -> Events {
        Events {
            reported: Vec::with_capacity(n.max(1)),
        }
    }

    /// Replaces the events by a single one, which reports that `token` is readable.
    pub(super) fn set_readable(&mut self, token: Token) {
        self.reported.clear();
        self.reported.push(epoll::Event {
            flags: EventFlags::IN,
            data: EventData::new_u64(token.0),
        });
    }

    /// Returns the events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.reported.iter().map(|e| {
            let (flags, data) = (e.flags, e.data);
            let failed = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            Event {
                token: Token(data.u64()),
                readable: failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: failed || flags.contains(EventFlags::OUT),
                closed: failed || flags.contains(EventFlags::RDHUP),
            }
        })
    }
}

/// Waits for events of many descriptors, or a deadline.
pub struct Reactor {
    epoll: Arc<OwnedFd>,
    alarm: Alarm,
    /// Delay above which a deadline uses the permanently armed timer. Zero if the kernel lacks
    /// `epoll_pwait2` (Linux 5.11), the only wait whose limit is in nanoseconds.
    far: Duration,
}

/// Registers descriptors with a [`Reactor`] from another thread. Clones refer to the same reactor.
#[derive(Clone, Debug)]
pub struct Registrar(Arc<OwnedFd>);

impl Registrar {
    /// As [`Reactor::register`].
    ///
    /// # Errors
    /// As [`Reactor::register`].
    pub fn register(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(token.0), interest.flags())?;
        Ok(())
    }

    /// As [`Reactor::deregister`].
    ///
    /// # Errors
    /// `fd` is not registered.
    pub fn deregister(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }
}

impl Reactor {
    /// Creates a reactor with nothing registered. Timers of the calling thread become exact
    /// ([`clock::set_timers_exact`]).
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<Reactor> {
        clock::set_timers_exact();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let far = if has_precise_wait(&epoll)? {
            FAR
        } else {
            Duration::ZERO
        };
        let alarm = Alarm::new()?;
        // Edge-triggered, so the timer need not be read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM.0), flags)?;
        let epoll = Arc::new(epoll);
        Ok(Reactor { epoll, alarm, far })
    }

    /// Returns a handle that registers descriptors from any thread.
    #[must_use]
    pub fn registrar(&self) -> Registrar {
        Registrar(Arc::clone(&self.epoll))
    }

    /// Reports events of `fd` under `token` until it is closed or
    /// [deregistered](Reactor::deregister).
    ///
    /// # Errors
    /// `PermissionDenied` if `fd` cannot be polled (a regular file). Otherwise a limit of the
    /// system is reached.
    pub fn register(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.registrar().register(fd, token, interest)
    }

    /// Stops reporting events of `fd`. Closing a descriptor that has no duplicate does the same.
    ///
    /// # Errors
    /// `fd` is not registered.
    pub fn deregister(&self, fd: impl AsFd) -> io::Result<()> {
        self.registrar().deregister(fd)
    }

    /// Sleeps until an event or until `until`. `None` sleeps without a limit, and an instant in the
    /// past does not sleep. `events` receives the events, possibly none, because the wait may end
    /// early (after a signal, for example).
    ///
    /// # Errors
    /// None in a working system. A signal is not an error.
    pub fn wait(&self, events: &mut Events, until: Option<Time>) -> io::Result<()> {
        events.reported.clear();
        let now = clock::now();
        let timeout = match until {
            Some(until) if until > now + self.far => {
                self.alarm.cover(now, until)?;
                None
            }
            until => until.map(|until| {
                let ns = until.ns_since(now);
                Timespec {
                    tv_sec: (ns / 1_000_000_000) as i64,
                    tv_nsec: (ns % 1_000_000_000) as i64,
                }
            }),
        };
        if self.far.is_zero() {
            wait_or_look(&self.epoll, &mut events.reported, timeout.is_none())?;
        } else {
            let room = rustix::buffer::spare_capacity(&mut events.reported);
            match epoll::wait(&self.epoll, room, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        events.reported.retain(|event| event.data.u64() != ALARM.0);
        Ok(())
    }
}

/// Returns whether the kernel has `epoll_pwait2`.
fn has_precise_wait(epoll: &OwnedFd) -> io::Result<bool> {
    let mut none: Vec<epoll::Event> = Vec::with_capacity(1);
    let room = rustix::buffer::spare_capacity(&mut none);
    match epoll::wait(epoll, room, Some(&Timespec::default())) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(rustix::io::Errno::NOSYS) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Sleeps until an event if `sleep`, or only looks for events, on a kernel without `epoll_pwait2`.
fn wait_or_look(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, sleep: bool) -> io::Result<()> {
    let room = events.spare_capacity_mut();
    let (first, most) = (room.as_mut_ptr().cast(), room.len() as libc::c_int);
    // SAFETY: the kernel writes at most `most` events to the spare capacity. Both types of event
    // are the kernel's.
    let count =
        unsafe { libc::epoll_wait(epoll.as_raw_fd(), first, most, -libc::c_int::from(sleep)) };
    let Ok(count) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        };
    };
    // SAFETY: the kernel has written `count` events, which fit.
    unsafe { events.set_len(events.len() + count) };
    Ok(())
}

/// Wakes a reactor from another thread (an eventfd). Clones wake the same reactor.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Creates a waker. After a wake the reactor reports `token` until [`Waker::acknowledge`].
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(reactor: &Reactor, token: Token) -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        reactor.register(&fd, token, Interest::Level)?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Ends the reactor's current wait, or its next one if it is not waiting.
    pub fn wake(&self) {
        // The write fails only if the counter is full, and then a wake is pending already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Clears all wakes so far. Call it before looking for the announced work, so that none is
    /// missed.
    pub fn acknowledge(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reactor that waits as on a kernel without `epoll_pwait2`.
    fn on_older_kernel() -> Reactor {
        Reactor {
            far: Duration::ZERO,
            ..Reactor::new().unwrap()
        }
    }

    /// Measures the delay between a deadline and the return of the wait, which depends on the
    /// machine and its load. `cargo test -p hakaru-runtime -- --nocapture deadlines` prints the
    /// figures.
    #[test]
    fn deadlines_are_never_early_and_rarely_late() {
        for (name, reactor) in [
            ("this kernel", Reactor::new().unwrap()),
            ("without epoll_pwait2", on_older_kernel()),
        ] {
            let late_ns = lateness(&reactor);
            println!(
                "{name}: late by p50 {} ns, p99 {} ns, max {} ns",
                late_ns[500], late_ns[990], late_ns[999]
            );
            // Timer slack would delay each deadline by 50 µs, and a limit in milliseconds by half
            // a millisecond on average. The fastest tenth differs even on a busy machine.
            assert!(
                late_ns[100] < 100_000,
                "{name}: nine tenths of the deadlines are met more than {} ns late",
                late_ns[100]
            );
        }
    }

    /// Returns the delays of a thousand deadlines between 50 and 500 µs, in ascending order.
    fn lateness(reactor: &Reactor) -> Vec<u64> {
        let mut events = Events::with_capacity(1);
        let mut late_ns: Vec<u64> = (0..1000_u64)
            .map(|n| {
                let deadline = clock::now() + Duration::from_nanos(50_000 + n * 7919 % 450_000);
                reactor.wait(&mut events, Some(deadline)).unwrap();
                let woke = clock::now();
                assert!(
                    woke >= deadline,
                    "woke {} ns early",
                    deadline.ns_since(woke)
                );
                woke.ns_since(deadline)
            })
            .collect();
        late_ns.sort_unstable();
        late_ns
    }

    /// Waits until an instant. Returns the number of waits.
    fn sleep(reactor: &Reactor, until: Time) -> u32 {
        let mut events = Events::with_capacity(1);
        let mut waits = 0;
        while clock::now() < until {
            reactor.wait(&mut events, Some(until)).unwrap();
            assert!(
                events.iter().next().is_none(),
                "the timer is not reported as an event"
            );
            waits += 1;
        }
        waits
    }

    #[test]
    fn far_deadlines_are_met_whether_they_come_closer_or_move_away() {
        let reactor = Reactor::new().unwrap();
        let in_ms = |ms| clock::now() + Duration::from_millis(ms);
        assert!(sleep(&reactor, in_ms(5)) <= 1, "no early wake-up");
        let waker = Waker::new(&reactor, Token(1)).unwrap();
        let mut events = Events::with_capacity(1);
        waker.wake();
        reactor.wait(&mut events, Some(in_ms(60_000))).unwrap();
        waker.acknowledge();
        assert!(
            sleep(&reactor, in_ms(5)) <= 1,
            "an earlier deadline re-arms the timer"
        );
        waker.wake();
        reactor.wait(&mut events, Some(in_ms(5))).unwrap();
        waker.acknowledge();
        assert!(
            sleep(&reactor, in_ms(20)) <= 3,
            "a later deadline re-arms the timer"
        );
    }

    #[test]
    fn events_are_reported_without_epoll_pwait2() {
        let reactor = on_older_kernel();
        let waker = Waker::new(&reactor, Token(5)).unwrap();
        let mut events = Events::with_capacity(4);
        reactor.wait(&mut events, Some(Time::ZERO)).unwrap();
        assert_eq!(events.iter().count(), 0, "a past deadline does not sleep");
        waker.wake();
        for until in [None, Some(Time::ZERO)] {
            reactor.wait(&mut events, until).unwrap();
            let tokens: Vec<Token> = events.iter().map(|event| event.token).collect();
            assert_eq!(tokens, [Token(5)]);
        }
    }

    #[test]
    fn a_wake_is_reported_until_it_is_acknowledged() {
        let reactor = Reactor::new().unwrap();
        let waker = Waker::new(&reactor, Token(5)).unwrap();
        let mut events = Events::with_capacity(4);
        reactor.wait(&mut events, Some(Time::ZERO)).unwrap();
        assert_eq!(events.iter().count(), 0);
        std::thread::spawn({
            let waker = waker.clone();
            move || waker.wake()
        });
        for _ in 0..2 {
            reactor.wait(&mut events, None).unwrap();
            assert!(
                events
                    .iter()
                    .all(|event| event.token == Token(5) && event.readable)
            );
        }
        waker.acknowledge();
        reactor.wait(&mut events, Some(Time::ZERO)).unwrap();
        assert_eq!(events.iter().count(), 0);
    }
}
