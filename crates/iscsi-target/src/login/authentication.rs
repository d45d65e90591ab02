//! CHAP on the side of the authenticator (RFC 7143 section 12.1.3): the order of keys, and their
//! verification.
//!
//! Every failure has the same answer, Authentication Failure. A peer that guesses learns neither
//! whether a user exists nor which step failed.

use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::text::emit_pair;

use crate::login::access::Access;

/// Fills a slice with unpredictable bytes from the operating system's generator.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// Progress of the authentication of an initiator.
#[derive(Debug, Default)]
pub(crate) enum Authentication {
    /// CHAP was not agreed on.
    #[default]
    None,
    /// CHAP_A is expected.
    Algorithm,
    /// The answer to this challenge is expected.
    Response(Challenge),
    /// The initiator is the user of this name.
    Proved(String),
    /// The authentication has failed, for a reason that only the operator learns.
    Failed(String),
}

impl Authentication {
    /// Whether keys are still expected, so that the security stage cannot end yet.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Algorithm | Self::Response(_))
    }

    /// Returns the user as which the initiator has authenticated.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Proved(user) => Some(user),
            _ => None,
        }
    }

    /// Returns the reason of a failure.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Failed(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Processes the CHAP keys of one text of the security stage, after CHAP was agreed on, and
    /// appends the answer to `reply`.
    pub(crate) fn take(
        &mut self,
        keys: &[(Key, String)],
        access: &Access,
        entropy: &mut Entropy,
        reply: &mut Vec<u8>,
    ) -> Result<(), LoginStatus> {
        let next = match (&*self, keys) {
            (Self::None, []) => Ok(Self::Algorithm),
            (Self::None | Self::Algorithm, [(Key::ChapA, offered)]) => {
                send_challenge(offered, access, entropy, reply)
            }
            (Self::Response(challenge), keys) => prove(challenge, keys, access, reply),
            (Self::Proved(user), []) => Ok(Self::Proved(user.clone())),
            _ => Err("the initiator sent CHAP keys out of order".to_owned()),
        };
        match next {
            Ok(next) => {
                *self = next;
                Ok(())
            }
            Err(reason) => {
                *self = Self::Failed(reason);
                Err(LoginStatus::AUTHENTICATION_FAILURE)
            }
        }
    }
}

/// Answers CHAP_A with a challenge.
fn send_challenge(
    offered: &str,
    access: &Access,
    entropy: &mut Entropy,
    reply: &mut Vec<u8>,
) -> Result<Authentication, String> {
    let algorithm = Algorithm::choose(offered, &access.algorithms).ok_or_else(|| {
        let own: Vec<String> = access.algorithms.iter().map(|algorithm| algorithm.number().to_string()).collect();
        format!(
            "the target accepts none of the initiator's CHAP algorithms (CHAP_A={}), only {}; 5 is MD5, 6 SHA1, 7 SHA-256, 8 SHA3-256",
            offered.chars().take(32).collect::<String>(),
            own.join(",")
        )
    })?;
    let challenge = Challenge::new(algorithm, entropy);
    emit_pair(reply, Key::ChapA.name(), &algorithm.number().to_string());
    emit_pair(reply, Key::ChapI.name(), &challenge.identifier());
    emit_pair(reply, Key::ChapC.name(), &challenge.value());
    Ok(Authentication::Response(challenge))
}

/// Verifies CHAP_N and CHAP_R. For mutual authentication, CHAP_I and CHAP_C accompany them, in any
/// order.
fn prove(
    challenge: &Challenge,
    keys: &[(Key, String)],
    access: &Access,
    reply: &mut Vec<u8>,
) -> Result<Authentication, String> {
    let value = |wanted: Key| {
        let pair = keys.iter().find(|(key, _)| *key == wanted);
        pair.map(|(_, value)| value.as_str())
    };
    let (Some(name), Some(response)) = (value(Key::ChapN), value(Key::ChapR)) else {
        return Err("the initiator did not send CHAP_N and CHAP_R".to_owned());
    };
    let user = access.user(name);
    let proved = challenge.check(user.map(Credentials::secret), response);
    if proved.is_err() {
        let name: String = name.chars().take(64).collect();
        return Err(match user {
            Some(_) => format!("the initiator's secret for CHAP user {name:?} is wrong"),
            None => format!("CHAP user {name:?} does not exist"),
        });
    }
    match (value(Key::ChapI), value(Key::ChapC), keys.len()) {
        (None, None, 2) => {}
        (Some(identifier), Some(peer_challenge), 4) => {
            let peer_challenge =
                Challenge::parse(challenge.algorithm(), identifier, peer_challenge).map_err(
                    |_| "the initiator's challenge for mutual CHAP is malformed".to_owned(),
                )?;
            challenge
                .check_reflection(&peer_challenge)
                .map_err(|_| "the initiator sent the target's own challenge back".to_owned())?;
            let own = access
                .target
                .as_ref()
                .ok_or("the initiator requests mutual CHAP, and the target has no secret")?;
            emit_pair(reply, Key::ChapN.name(), own.name());
            emit_pair(
                reply,
                Key::ChapR.name(),
                &peer_challenge.answer(own.secret()),
            );
        }
        _ => return Err("the initiator sent unexpected CHAP keys".to_owned()),
    }
    Ok(Authentication::Proved(name.to_owned()))
}
