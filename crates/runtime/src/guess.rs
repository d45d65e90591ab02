//! When a shell looks at a socket without asking the reactor first.
//!
//! A shell that serves one busy socket asks the reactor each time only to hear of that socket again. While that is so,
//! the question can be left out: the shell reads the socket as if it had been told to, which is harmless when nothing is
//! there. A guess that was wrong costs a call, so that guessing pauses after one, longer from miss to miss.

use crate::token::Token;

/// Guesses in a row; then the reactor is asked, which may know of others.
const RUN_MAX: u32 = 16;
/// Occasions that are left out after something was done in vain, at most.
const PAUSE_MAX: u32 = 64;

/// Whether to do what may be in vain: the more rarely, the more often in a row it was.
#[derive(Debug, Default)]
struct Hope {
    /// Occasions still to be left out.
    pause: u32,
    /// Times in vain, in a row.
    misses: u32,
}

impl Hope {
    fn is_left(&self) -> bool {
        self.pause == 0
    }

    fn pass_occasion(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    fn outcome(&mut self, right: bool) {
        if right {
            self.misses = 0;
        } else {
            self.pause = (1 << self.misses).min(PAUSE_MAX);
            self.misses = (self.misses + 1).min(PAUSE_MAX.ilog2());
        }
    }
}

/// Which socket will be told of next.
#[derive(Debug, Default)]
pub(crate) struct Guess {
    /// The only one that the last wait told of, of those that told of any.
    lone: Option<Token>,
    run: u32,
    /// That a guess is right. Its occasions are waits.
    guessing: Hope,
    /// That looking for longer helps after a wrong guess. Its occasions are those.
    lingering: Hope,
}

impl Guess {
    /// What a wait told of. If it was nothing, the socket that was busy may still be the only one.
    pub(crate) fn learn(&mut self, mut told: impl Iterator<Item = Token>) {
        match (told.next(), told.next()) {
            (None, _) => {}
            (Some(one), None) => self.lone = (one < Token::RESERVED).then_some(one),
            _ => self.lone = None,
        }
        self.run = 0;
        self.guessing.pass_occasion();
    }

    /// The socket to look at without asking.
    pub(crate) fn next(&mut self) -> Option<Token> {
        if !self.guessing.is_left() || self.run == RUN_MAX {
            return None;
        }
        self.run += 1;
        self.lone
    }

    /// Whether there was something.
    pub(crate) fn outcome(&mut self, right: bool) {
        self.guessing.outcome(right);
    }

    /// Nothing was there: whether to go on looking for a while, and to tell [`Guess::lingered`] then.
    pub(crate) fn lingers(&mut self) -> bool {
        let lingers = self.lingering.is_left();
        self.lingering.pass_occasion();
        lingers
    }

    /// Whether something came while the shell went on looking.
    pub(crate) fn lingered(&mut self, right: bool) {
        self.lingering.outcome(right);
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
            guess.learn([SOCKET].into_iter());
            assert_eq!(run(&mut guess, true), RUN_MAX);
        }
    }

    #[test]
    fn wrong_guesses_become_rare_and_a_right_one_makes_up_for_them() {
        let mut guess = Guess::default();
        let waits = |guess: &mut Guess, right| {
            (1..=2 * PAUSE_MAX)
                .find(|_| {
                    guess.learn([SOCKET].into_iter());
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
    fn lingering_in_vain_becomes_rare_whatever_quick_guesses_find() {
        let mut guess = Guess::default();
        let misses = |guess: &mut Guess, right| {
            let misses = (1..=2 * PAUSE_MAX).find(|_| {
                guess.outcome(true);
                guess.lingers()
            });
            guess.lingered(right);
            misses.expect("lingering goes on at some time")
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
    fn neither_one_of_several_nor_the_control_plane_is_guessed() {
        let mut guess = Guess::default();
        guess.learn([SOCKET].into_iter());
        guess.learn([SOCKET, Token(8)].into_iter());
        assert_eq!(guess.next(), None);
        guess.learn([Token::RESERVED].into_iter());
        assert_eq!(guess.next(), None);
    }

    #[test]
    fn a_wait_that_told_of_nothing_changes_no_guess() {
        let mut guess = Guess::default();
        guess.learn([SOCKET].into_iter());
        guess.learn([].into_iter());
        assert_eq!(guess.next(), Some(SOCKET));
    }
}
