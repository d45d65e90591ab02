//! When a shell looks at a socket without asking the reactor first.
//!
//! A shell that serves one busy socket asks the reactor each time only to hear of that socket again. While that is so,
//! the question can be left out: the shell reads the socket as if it had been told to, which is harmless when nothing is
//! there. A guess that was wrong costs a call, so that guessing pauses after one, longer from miss to miss.

use crate::reactor::Token;

/// Guesses in a row; then the reactor is asked, which may know of others.
const RUN_MAX: u32 = 16;
/// Questions after a wrong guess before the next guess, at most.
const PAUSE_MAX: u32 = 64;

/// Which socket will be told of next.
#[derive(Debug, Default)]
pub(crate) struct Guess {
    /// The only one that the last wait told of.
    lone: Option<Token>,
    run: u32,
    /// Waits still to come before the next guess.
    pause: u32,
    /// Wrong guesses in a row.
    misses: u32,
}

impl Guess {
    /// The reactor told of `lone` alone, or of none or of several.
    pub(crate) fn learn(&mut self, lone: Option<Token>) {
        self.lone = lone.filter(|token| *token < Token::RESERVED);
        self.run = 0;
        self.pause = self.pause.saturating_sub(1);
    }

    /// The socket to look at without asking.
    pub(crate) fn next(&mut self) -> Option<Token> {
        if self.pause > 0 || self.run == RUN_MAX {
            return None;
        }
        self.run += 1;
        self.lone
    }

    /// Whether there was something.
    pub(crate) fn outcome(&mut self, right: bool) {
        if right {
            self.misses = 0;
        } else {
            self.pause = (1 << self.misses).min(PAUSE_MAX);
            self.misses = (self.misses + 1).min(PAUSE_MAX.ilog2());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: Token = Token(7);

    /// Guesses until the reactor must be asked.
    fn run(guess: &mut Guess, right: bool) -> u32 {
        let mut guesses = 0;
        while guess.next().is_some() {
            guesses += 1;
            guess.outcome(right);
        }
        guesses
    }

    #[test]
    fn a_lone_busy_socket_is_asked_for_once_in_a_while() {
        let mut guess = Guess::default();
        assert_eq!(run(&mut guess, true), 0, "nothing is known yet");
        for _ in 0..3 {
            guess.learn(Some(SOCKET));
            assert_eq!(run(&mut guess, true), RUN_MAX);
        }
    }

    #[test]
    fn wrong_guesses_become_rare_and_a_right_one_makes_up_for_them() {
        let mut guess = Guess::default();
        let waits = |guess: &mut Guess, right| {
            (1..=2 * PAUSE_MAX)
                .find(|_| {
                    guess.learn(Some(SOCKET));
                    run(guess, right) > 0
                })
                .expect("guessing goes on at some time")
        };
        let between: Vec<u32> = (0..9).map(|_| waits(&mut guess, false)).collect();
        assert_eq!(between, [1, 1, 2, 4, 8, 16, 32, 64, 64]);
        waits(&mut guess, true);
        assert_eq!((waits(&mut guess, false), waits(&mut guess, false)), (1, 1));
    }

    #[test]
    fn neither_one_of_several_nor_the_control_plane_is_guessed() {
        let mut guess = Guess::default();
        guess.learn(Some(SOCKET));
        guess.learn(None);
        assert_eq!(guess.next(), None);
        guess.learn(Some(Token::RESERVED));
        assert_eq!(guess.next(), None);
    }
}
