//! Decides when a shell reads a socket without polling the reactor first.
//!
//! The reactor of a shell with one busy socket reports that socket repeatedly. The shell then skips
//! the reactor and reads the socket as if an event had been reported, which is harmless if no data
//! has arrived. A wrong guess costs a system call, so guessing pauses after it, with exponential
//! back-off.
use super::token::Token;

/// Maximum number of consecutive guesses. The shell then polls the reactor, because other
/// descriptors may be ready.
const RUN_MAX: u32 = 16;
/// Longest pause, in skipped opportunities.
const PAUSE_MAX: u32 = 64;

/// Exponential back-off, counted in opportunities. Each consecutive failure doubles the pause.
#[derive(Debug, Default)]
struct Backoff {
    /// Number of opportunities still to be skipped.
    pause: u32,
    /// Number of consecutive failures, limited to that of the longest pause.
    misses: u32,
}

impl Backoff {
    fn may_try(&self) -> bool {
        self.pause == 0
    }

    fn pass_opportunity(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    fn record(&mut self, succeeded: bool) {
        if succeeded {
            self.misses = 0;
        } else {
            self.pause = (1 << self.misses).min(PAUSE_MAX);
            self.misses = (self.misses + 1).min(PAUSE_MAX.ilog2());
        }
    }
}

/// Guesses which socket the reactor will report next.
#[derive(Debug, Default)]
pub(crate) struct Guess {
    /// The socket that the last wait with events reported, if it reported no other.
    lone: Option<Token>,
    /// Number of consecutive guesses.
    run: u32,
    /// Back-off after wrong guesses. Its opportunities are waits.
    guessing: Backoff,
    /// Back-off after polling without success. Its opportunities are wrong guesses.
    lingering: Backoff,
}

impl Guess {
    /// Learns from the events of a wait. A wait without events leaves the guess unchanged.
    pub(crate) fn learn(&mut self, mut tokens: impl Iterator<Item = Token>) {
        match (tokens.next(), tokens.next()) {
            (None, _) => {}
            (Some(token), None) => {
                self.lone = (token < Token::RESERVED).then_some(token);
            }
            _ => self.lone = None,
        }
        self.run = 0;
        self.guessing.pass_opportunity();
    }

    /// Returns the socket to read without polling the reactor, or `None` if the reactor must be
    /// polled.
    pub(crate) fn next(&mut self) -> Option<Token> {
        if !self.guessing.may_try() || self.run == RUN_MAX {
            return None;
        }
        self.run += 1;
        self.lone
    }

    /// Records whether the guess was right, that is, whether the socket had data.
    pub(crate) fn outcome(&mut self, right: bool) {
        self.guessing.record(right);
    }

    /// Returns whether the shell should busy poll after a wrong guess. If so, the shell reports the
    /// outcome to [`Guess::lingered`].
    pub(crate) fn should_linger(&mut self) -> bool {
        let should_linger = self.lingering.may_try();
        self.lingering.pass_opportunity();
        should_linger
    }

    /// Records whether data arrived while the shell busy polled.
    pub(crate) fn lingered(&mut self, right: bool) {
        self.lingering.record(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: Token = Token(7);

    /// Guesses until the reactor must be polled. Returns the number of guesses.
    fn run(guess: &mut Guess, right: bool) -> u32 {
        let mut guesses = 0;
        while guess.next().is_some() {
            guesses += 1;
            guess.outcome(right);
        }
        guesses
    }

    #[test]
    fn a_lone_busy_socket_is_guessed_a_limited_number_of_times() {
        let mut guess = Guess::default();
        assert_eq!(run(&mut guess, true), 0, "nothing is known yet");
        for _ in 0..3 {
            guess.learn([SOCKET].into_iter());
            assert_eq!(run(&mut guess, true), RUN_MAX);
        }
    }

    #[test]
    fn wrong_guesses_become_rare_and_a_right_one_ends_the_back_off() {
        let mut guess = Guess::default();
        let waits = |guess: &mut Guess, right| {
            (1..=2 * PAUSE_MAX)
                .find(|_| {
                    guess.learn([SOCKET].into_iter());
                    run(guess, right) > 0
                })
                .expect("guessing resumes")
        };
        let between: Vec<u32> = (0..9).map(|_| waits(&mut guess, false)).collect();
        assert_eq!(between, [1, 1, 2, 4, 8, 16, 32, 64, 64]);
        waits(&mut guess, true);
        assert_eq!((waits(&mut guess, false), waits(&mut guess, false)), (1, 1));
    }

    #[test]
    fn lingering_without_success_becomes_rare_even_if_guesses_are_right() {
        let mut guess = Guess::default();
        let misses = |guess: &mut Guess, right| {
            let misses = (1..=2 * PAUSE_MAX).find(|_| {
                guess.outcome(true);
                guess.should_linger()
            });
            guess.lingered(right);
            misses.expect("lingering resumes")
        };
        let between: Vec<u32> = (0..9).map(|_| misses(&mut guess, false)).collect();
        assert_eq!(between, [1, 2, 3, 5, 9, 17, 33, 65, 65]);
        misses(&mut guess, true);
        assert_eq!(
            (misses(&mut guess, false), misses(&mut guess, false)),
            (1, 2)
        );
    }

    #[test]
    fn neither_several_sockets_nor_the_control_plane_are_guessed() {
        let mut guess = Guess::default();
        guess.learn([SOCKET].into_iter());
        guess.learn([SOCKET, Token(8)].into_iter());
        assert_eq!(guess.next(), None);
        guess.learn([Token::RESERVED].into_iter());
        assert_eq!(guess.next(), None);
    }

    #[test]
    fn a_wait_without_events_changes_no_guess() {
        let mut guess = Guess::default();
        guess.learn([SOCKET].into_iter());
        guess.learn([].into_iter());
        assert_eq!(guess.next(), Some(SOCKET));
    }
}
