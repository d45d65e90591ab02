//! CHAP of an initiator, which proves its identity and may require the same of the target (RFC 7143
//! section 12.1.3).
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
    /// Creates the settings. `user` are the initiator's credentials, `target` those that the target
    /// must prove. `algorithms` are offered, best first. `entropy` fills a slice with unpredictable
    /// bytes.
    ///
    /// # Errors
    /// [`SecretError::Same`] if both directions use the same secret.
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
    /// Awaiting the answer to AuthMethod=CHAP.
    Method,
    /// Awaiting the target's challenge.
    Challenge,
    /// Awaiting the target's verdict, and its response to our challenge if we sent one.
    Verdict(Option<Challenge>),
    /// The exchange is complete.
    Done,
}

/// The CHAP exchange of a login.
#[derive(Debug)]
pub(super) struct ChapExchange {
    chap: Chap,
    step: Step,
}

impl ChapExchange {
    pub(super) fn new(chap: Chap) -> ChapExchange {
        ChapExchange {
            chap,
            step: Step::Method,
        }
    }

    /// Returns whether the exchange is complete.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Handles the CHAP keys of a complete answer of the security stage and appends our next keys.
    /// Returns whether our keys are complete.
    pub(super) fn handle_keys(
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
        let value = |name: Key| {
            let pair = keys.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| value.as_str())
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
            (Step::Verdict(Some(challenge)), 2) => {
                let (Some(name), Some(response)) = (value(Key::ChapN), value(Key::ChapR)) else {
                    return Err(UNEXPECTED);
                };
                let expected = self.chap.target.as_ref();
                let secret = expected
                    .filter(|target| target.name() == name)
                    .map(Credentials::secret);
                challenge.check(secret, response).map_err(|_| UNPROVEN)?;
                self.step = Step::Done;
                Ok(true)
            }
            (Step::Verdict(Some(_)), _) => Err(UNPROVEN),
            _ => Err(UNEXPECTED),
        }
    }

    /// Answers the target's challenge, and sends our own if the target must prove its identity.
    fn answer(
        &mut self,
        algorithm: &str,
        identifier: &str,
        challenge: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        // The target must choose a single algorithm, so a list is refused.
        let algorithm = Some(algorithm)
            .filter(|number| !number.contains(','))
            .and_then(|number| Algorithm::choose(number, &self.chap.algorithms))
            .ok_or(UNEXPECTED)?;
        let challenge = Challenge::parse(algorithm, identifier, challenge).map_err(|_| {
            SessionError::Authentication("the target sent an invalid CHAP challenge")
        })?;
        emit_pair(out, Key::ChapN.name(), self.chap.user.name());
        emit_pair(
            out,
            Key::ChapR.name(),
            &challenge.answer(self.chap.user.secret()),
        );
        let mut entropy = self.chap.entropy;
        let own_challenge = self.chap.target.is_some().then(|| {
            let own = Challenge::new(algorithm, &mut entropy);
            emit_pair(out, Key::ChapI.name(), &own.identifier());
            emit_pair(out, Key::ChapC.name(), &own.value());
            own
        });
        self.step = Step::Verdict(own_challenge);
        Ok(())
    }
}

const UNEXPECTED: SessionError =
    SessionError::Authentication("the target sent unexpected CHAP keys");
const UNPROVEN: SessionError =
    SessionError::Authentication("the target did not prove its identity");
