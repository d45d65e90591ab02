//! The way a shell waits for events. Only this module decides between sleeping, reading a socket
//! without polling the reactor first, and busy polling.
//!
//! ```text
//! loop {
//!     if !waiter.guess() { waiter.wait(&reactor, deadline)? }
//!     for event in waiter.events() { … }          received: whether a socket had data
//!     received = received || waiter.linger(…);    initiators only
//!     …                                           moved: whether other work was done
//!     waiter.end_turn(now, received, moved);
//! }
//! ```
use std::io;
use std::time::Duration;

use hakaru_units::Time;

use super::clock;
use super::coalescing::Coalescing;
use super::guess::Guess;
use super::reactor::{Event, Events, Reactor};
use crate::process::count_busy_poll;

/// Policy that decides when a shell sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Sleep until the next event or deadline.
    Sleep,
    /// While one socket is busy and all others are silent, read that socket without polling the
    /// reactor first. After a read without data, the shell may busy poll the socket for up to
    /// `linger` before it sleeps.
    Adaptive {
        /// Longest busy poll. With zero the shell sleeps at once.
        linger: Duration,
    },
    /// As `Adaptive`, and busy poll for `awake` after each event instead of sleeping.
    Spin {
        /// Time without an event after which the shell sleeps.
        awake: Duration,
    },
}

/// Waits for the events of one shell.
pub struct Waiter {
    policy: WaitPolicy,
    /// First token that is not a socket. Sockets may be read without an event.
    sockets: u64,
    coalescing: Coalescing,
    events: Events,
    guess: Guess,
    /// Whether the event of this turn is a guess.
    guessed: bool,
    /// Whether the reactor reported an event in this turn.
    woken: bool,
    /// Whether the shell busy polls in this turn.
    spinning: bool,
    /// Instant before which the shell does not sleep.
    awake_until: Time,
    /// Start of the previous turn, if it had no work and was spent spinning.
    idle_since: Option<Time>,
}

impl Waiter {
    /// Creates a waiter with room for `events_max` events per wait, at least 1. Later waits return
    /// events that do not fit. Tokens below `sockets` are sockets.
    #[must_use]
    pub fn new(policy: WaitPolicy, sockets: u64, events_max: usize) -> Waiter {
        Waiter {
            policy,
            sockets,
            coalescing: Coalescing::default(),
            events: Events::with_capacity(events_max),
            guess: Guess::default(),
            guessed: false,
            woken: false,
            spinning: false,
            awake_until: Time::ZERO,
            idle_since: None,
        }
    }

    /// Creates a waiter with [`WaitPolicy::Sleep`].
    #[must_use]
    pub fn sleeping(events_max: usize) -> Waiter {
        Waiter::new(WaitPolicy::Sleep, 0, events_max)
    }

    /// Sets the pause of [`Self::coalesce`]. By default there is none.
    #[must_use]
    pub fn with_coalescing(mut self, coalescing: Coalescing) -> Waiter {
        self.coalescing = coalescing;
        self
    }

    /// Sleeps for a share of `recent_ns`, the time that requests took recently, so that one wait
    /// returns several answers ([`Coalescing`]). Does not sleep beyond `until`.
    pub fn coalesce(&self, now: Time, recent_ns: u64, until: Time) {
        let pause = self.coalescing.pause(recent_ns);
        if !pause.is_zero() {
            clock::sleep_until(until.min(now + pause));
        }
    }

    /// Begins a turn with a guess instead of a wait. If the last wait reported one socket and
    /// nothing else, that socket counts as readable in this turn. Returns `false` if the shell has
    /// to call [`Self::wait`]. That also happens after a number of consecutive guesses, which
    /// bounds the delay of other descriptors.
    pub fn guess(&mut self) -> bool {
        self.woken = false;
        self.spinning = self.is_awake();
        let token = match self.policy {
            WaitPolicy::Sleep => None,
            WaitPolicy::Adaptive { .. } | WaitPolicy::Spin { .. } => self.guess.next(),
        };
        let token = token.filter(|token| token.0 < self.sockets);
        if let Some(token) = token {
            self.events.set_readable(token);
        }
        self.guessed = token.is_some();
        self.guessed
    }

    /// Waits for events until `until`, as [`Reactor::wait`] does. Does not sleep while spinning.
    ///
    /// # Errors
    /// As [`Reactor::wait`].
    pub fn wait(&mut self, reactor: &Reactor, until: Option<Time>) -> io::Result<()> {
        let until = if self.spinning {
            Some(Time::ZERO)
        } else {
            until
        };
        reactor.wait(&mut self.events, until)?;
        self.woken = self.events.iter().next().is_some();
        self.guess
            .learn(self.events.iter().map(|event| event.token));
        Ok(())
    }

    /// Returns the events of this turn: those of the wait, or the guess.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.iter()
    }

    /// Busy polls after a wrong guess. Calls `read` with the guess until it returns `true` (data
    /// arrived), until the policy's time is over, or until `until`. Returns whether data arrived.
    /// Skipped, with exponential back-off, while lingering has not paid off. The time counts as
    /// busy polling ([`crate::process::ResourceUse::busy_poll_ns`]).
    pub fn linger(&mut self, until: Time, mut read: impl FnMut(&Events) -> bool) -> bool {
        let WaitPolicy::Adaptive { linger } = self.policy else {
            return false;
        };
        if !self.guessed || linger.is_zero() || !self.guess.should_linger() {
            return false;
        }
        let began = clock::now();
        let until = until.min(began + linger);
        let (mut now, mut arrived) = (began, false);
        while !arrived && now < until {
            arrived = read(&self.events);
            if !arrived {
                now = clock::now();
            }
        }
        count_busy_poll(Duration::from_nanos(now.ns_since(began)));
        self.guess.lingered(arrived);
        arrived
    }

    /// Ends the turn that began at `now`. `received` is whether a socket had data, `moved` whether
    /// other work was done. While spinning, turns with neither count as busy polling.
    pub fn end_turn(&mut self, now: Time, received: bool, moved: bool) {
        if received || self.woken {
            self.stay_awake(now);
        }
        // A wrong guess while spinning costs nothing, because the shell would poll anyway.
        if self.guessed && (received || !self.spinning) {
            self.guess.outcome(received);
        }
        if !self.spinning || received || self.woken || moved {
            self.idle_since = None;
        } else if let Some(since) = self.idle_since.replace(now) {
            count_busy_poll(Duration::from_nanos(now.ns_since(since)));
        }
    }

    /// Prevents sleep for the policy's time from `now` on. [`Self::end_turn`] calls this after an
    /// event.
    pub fn stay_awake(&mut self, now: Time) {
        if let WaitPolicy::Spin { awake } = self.policy {
            self.awake_until = now + awake;
        }
    }

    /// Returns whether the shell now busy polls instead of sleeping.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        matches!(self.policy, WaitPolicy::Spin { .. }) && clock::now() < self.awake_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ResourceUse;
    use crate::wait::{Token, Waker};

    const ADAPTIVE: WaitPolicy = WaitPolicy::Adaptive {
        linger: Duration::from_secs(60),
    };

    fn tokens(waiter: &Waiter) -> Vec<u64> {
        waiter.events().map(|event| event.token.0).collect()
    }

    /// Creates a waiter after a wait that reported only token 1.
    fn with_busy_socket(policy: WaitPolicy, sockets: u64) -> (Reactor, Waker, Waiter) {
        let reactor = Reactor::new().unwrap();
        let busy = Waker::new(&reactor, Token(1)).unwrap();
        let mut waiter = Waiter::new(policy, sockets, 4);
        assert!(!waiter.guess(), "nothing is known yet");
        busy.wake();
        waiter.wait(&reactor, None).unwrap();
        waiter.end_turn(clock::now(), true, false);
        (reactor, busy, waiter)
    }

    #[test]
    fn a_lone_busy_socket_is_guessed_and_events_in_between_are_not_lost() {
        let (reactor, _busy, mut waiter) = with_busy_socket(ADAPTIVE, 3);
        let other = Waker::new(&reactor, Token(2)).unwrap();
        other.wake();
        let mut guesses = 0;
        while waiter.guess() {
            assert!(
                waiter
                    .events()
                    .all(|event| event.readable && !event.writable)
            );
            assert_eq!(tokens(&waiter), [1]);
            waiter.end_turn(clock::now(), true, false);
            guesses += 1;
            assert!(guesses < 1000, "the reactor is never polled again");
        }
        waiter.wait(&reactor, None).unwrap();
        let mut all = tokens(&waiter);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert!(!waiter.guess(), "two sockets were busy");
    }

    #[test]
    fn only_sockets_are_guessed_and_the_sleep_policy_never_guesses() {
        assert!(with_busy_socket(ADAPTIVE, 2).2.guess());
        assert!(!with_busy_socket(ADAPTIVE, 1).2.guess());
        assert!(!with_busy_socket(WaitPolicy::Sleep, 2).2.guess());
    }

    #[test]
    fn lingering_is_counted_as_busy_polling_and_backs_off_without_success() {
        let busy_poll_ns = || ResourceUse::now().busy_poll_ns;
        let (_reactor, _busy, mut waiter) = with_busy_socket(ADAPTIVE, 2);
        assert!(waiter.guess());
        assert!(waiter.linger(Time::MAX, |_| true));
        let before = busy_poll_ns();
        let mut reads = 0;
        let arrived = waiter.linger(Time::MAX, |events| {
            assert_eq!(events.iter().count(), 1, "the guess");
            reads += 1;
            reads > 10_000
        });
        assert!(
            arrived && busy_poll_ns() > before,
            "read {reads} times without data"
        );
        assert!(!waiter.linger(Time::ZERO, |_| true), "no time is left");
        assert!(
            !waiter.linger(Time::MAX, |_| true),
            "lingering pauses after a failure"
        );
        assert!(waiter.linger(Time::MAX, |_| true));
    }

    #[test]
    fn a_turn_that_began_with_a_wait_does_not_linger() {
        let (_reactor, _busy, mut waiter) = with_busy_socket(ADAPTIVE, 0);
        assert!(!waiter.guess());
        assert!(!waiter.linger(Time::MAX, |_| panic!("no guess was wrong")));
    }

    #[test]
    fn a_spinner_does_not_sleep_after_an_event_and_counts_idle_turns_as_busy_polling() {
        let awake = Duration::from_secs(3600);
        let (reactor, busy, mut waiter) = with_busy_socket(WaitPolicy::Spin { awake }, 0);
        busy.acknowledge();
        let before = ResourceUse::now().busy_poll_ns;
        for _ in 0..3 {
            assert!(!waiter.guess());
            // Without a deadline, the wait returns only because it does not sleep.
            waiter.wait(&reactor, None).unwrap();
            assert!(waiter.events().next().is_none());
            waiter.end_turn(clock::now(), false, false);
        }
        assert!(waiter.is_awake() && ResourceUse::now().busy_poll_ns > before);
    }

    #[test]
    fn a_spinner_sleeps_again_when_its_time_is_over() {
        let awake = Duration::from_nanos(1);
        let (reactor, busy, mut waiter) = with_busy_socket(WaitPolicy::Spin { awake }, 0);
        busy.acknowledge();
        assert!(!waiter.is_awake() && !waiter.guess());
        let until = clock::now() + Duration::from_millis(5);
        while clock::now() < until {
            waiter.wait(&reactor, Some(until)).unwrap();
        }
        assert!(waiter.idle_since.is_none());
    }
}
