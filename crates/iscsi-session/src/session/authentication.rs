//! CHAP, as the side that proves who it is, and may ask the same of the target (RFC 7143 section
//! 12.1.3).
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials, SecretError};
use hakaru_wire::iscsi::keys::{AuthMethod, Key};
use hakaru_wire::iscsi::text::emit_pair;

use crate::error::SessionError;

/// CHAP credentials and algorithms of a session.
#[derive(Clone, Debug)]
pub struct Chap {
    user: Credentials,
    target: Option<Credentials>,
    algorithms: Vec<Algorithm>,
    entropy: fn(&mut [u8]),
}

impl Chap {
    /// `target`: credentials that the target must prove. `algorithms`: offered, best first.
    /// `entropy` fills a slice with unpredictable bytes.
    ///
    /// # Errors
    /// [`SecretError::Same`]: both directions with one secret.
    pub fn new(
        user: Credentials,
        target: Option<Credentials>,
        algorithms: Vec<Algorithm>,
        entropy: fn(&mut [u8]),
    ) -> Result<Chap, SecretError> {
        if target.as_ref().map(Credentials::secret) == Some(user.secret()) {
            return Err(SecretError::Same);
        }
        Ok(Chap {
            user,
            target,
            algorithms,
            entropy,
        })
    }
}

#[derive(Debug)]
enum Step {
    /// The answer to AuthMethod=CHAP is awaited.
    Method,
    /// A challenge is awaited.
    Challenge,
    /// The verdict is awaited, and the target's own proof if it was asked this.
    Verdict(Option<Challenge>),
    /// Nothing more.
    Done,
}

/// How far a login has come with it.
#[derive(Debug)]
pub(super) struct Proving {
    chap: Chap,
    step: Step,
}

impl Proving {
    pub(super) fn new(chap: Chap) -> Proving {
        Proving {
            chap,
            step: Step::Method,
        }
    }

    /// Both sides have proved what they were asked to.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Handles the CHAP keys of a complete answer of the security stage and appends our next keys.
    /// Returns whether those are the last.
    pub(super) fn take(
        &mut self,
        method: Option<AuthMethod>,
        keys: &[(Key, String)],
        out: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        if method != Some(AuthMethod::Chap) {
            return Err(SessionError::Authentication(
                "the target does not accept CHAP",
            ));
        }
        let value = |wanted: Key| {
            let found = keys.iter().find(|(key, _)| *key == wanted);
            found.map(|(_, value)| value.as_str())
        };
        match (&self.step, keys.len()) {
            (Step::Method, 0) => {
                let offered = Algorithm::emit_list(&self.chap.algorithms);
                emit_pair(out, Key::ChapA.name(), &offered);
                self.step = Step::Challenge;
                Ok(false)
            }
            (Step::Challenge, 3) => {
                let (algorithm, identifier, challenge) =
                    (value(Key::ChapA), value(Key::ChapI), value(Key::ChapC));
                let (Some(algorithm), Some(identifier), Some(challenge)) =
                    (algorithm, identifier, challenge)
                else {
                    return Err(UNEXPECTED);
                };
                self.answer(algorithm, identifier, challenge, out)?;
                Ok(true)
            }
            (Step::Verdict(None), 0) | (Step::Done, 0) => {
                self.step = Step::Done;
                Ok(true)
            }
            (Step::Verdict(Some(asked)), 2) => {
                let (Some(name), Some(response)) = (value(Key::ChapN), value(Key::ChapR)) else {
                    return Err(UNEXPECTED);
                };
                let expected = self.chap.target.as_ref();
                let secret = expected
                    .filter(|target| target.name() == name)
                    .map(Credentials::secret);
                asked.check(secret, response).map_err(|_| UNPROVED)?;
                self.step = Step::Done;
                Ok(true)
            }
            (Step::Verdict(Some(_)), _) => Err(UNPROVED),
            _ => Err(UNEXPECTED),
        }
    }

    /// Answers the target's challenge, and asks one of our own.
    fn answer(
        &mut self,
        algorithm: &str,
        identifier: &str,
        challenge: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        // One of the list, not a list: `choose` of what is no single number finds none.
        let algorithm = Some(algorithm)
            .filter(|one| !one.contains(','))
            .and_then(|one| Algorithm::choose(one, &self.chap.algorithms))
            .ok_or(UNEXPECTED)?;
        let challenge = Challenge::parse(algorithm, identifier, challenge).map_err(|_| {
            SessionError::Authentication("the target asks what no challenge can be")
        })?;
        emit_pair(out, Key::ChapN.name(), self.chap.user.name());
        emit_pair(
            out,
            Key::ChapR.name(),
            &challenge.answer(self.chap.user.secret()),
        );
        let mut entropy = self.chap.entropy;
        let asked = self.chap.target.is_some().then(|| {
            let own = Challenge::new(algorithm, &mut entropy);
            emit_pair(out, Key::ChapI.name(), &own.identifier());
            emit_pair(out, Key::ChapC.name(), &own.value());
            own
        });
        self.step = Step::Verdict(asked);
        Ok(())
    }
}

const UNEXPECTED: SessionError =
    SessionError::Authentication("the target's CHAP keys are not those that must come now");
const UNPROVED: SessionError =
    SessionError::Authentication("the target did not prove that it is the one it should be");
