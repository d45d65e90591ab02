//! CHAP on the side of the authenticator (RFC 7143 section 12.1.3): the order of keys, and their
//! check.
//!
//! Every failure has the same answer, Authentication Failure: a peer that guesses learns neither
//! whether a user exists nor how far it got.

use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::text::emit_pair;

use crate::login::access::Access;

/// Fills a slice with unpredictable bytes: the operating system's generator.
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
    /// Keys are still expected: the security stage cannot end yet.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Algorithm | Self::Response(_))
    }

    /// The user that the initiator has proved to be.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Proved(user) => Some(user),
            _ => None,
        }
    }

    /// The reason of a failure.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Failed(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Takes the CHAP keys of one text of the security stage, after CHAP was agreed on, and appends
    /// the answer.
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
                ask(offered, access, entropy, reply)
            }
            (Self::Response(challenge), keys) => prove(challenge, keys, access, reply),
            (Self::Proved(user), []) => Ok(Self::Proved(user.clone())),
            _ => Err("it sent CHAP keys out of order".to_owned()),
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

/// CHAP_A was received: sends a challenge.
fn ask(
    offered: &str,
    access: &Access,
    entropy: &mut Entropy,
    reply: &mut Vec<u8>,
) -> Result<Authentication, String> {
    let algorithm = Algorithm::choose(offered, &access.algorithms).ok_or_else(|| {
        let own: Vec<String> = access.algorithms.iter().map(|one| one.number().to_string()).collect();
        format!(
            "its CHAP algorithms (CHAP_A={}) are none of ours ({}); 5 is MD5, 6 SHA1, 7 SHA-256, 8 SHA3-256",
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

/// CHAP_N and CHAP_R were received, for mutual authentication with CHAP_I and CHAP_C, in any order.
fn prove(
    challenge: &Challenge,
    keys: &[(Key, String)],
    access: &Access,
    reply: &mut Vec<u8>,
) -> Result<Authentication, String> {
    let value = |wanted: Key| {
        let found = keys.iter().find(|(key, _)| *key == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let (Some(name), Some(response)) = (value(Key::ChapN), value(Key::ChapR)) else {
        return Err("it did not send CHAP_N and CHAP_R".to_owned());
    };
    let user = access.user(name);
    let proved = challenge.check(user.map(Credentials::secret), response);
    if proved.is_err() {
        let name: String = name.chars().take(64).collect();
        return Err(match user {
            Some(_) => format!("its secret for CHAP user {name:?} is wrong"),
            None => format!("there is no CHAP user {name:?}"),
        });
    }
    match (value(Key::ChapI), value(Key::ChapC), keys.len()) {
        (None, None, 2) => {}
        (Some(identifier), Some(asked), 4) => {
            let asked = Challenge::parse(challenge.algorithm(), identifier, asked)
                .map_err(|_| "its challenge for mutual CHAP is malformed".to_owned())?;
            challenge
                .check_reflection(&asked)
                .map_err(|_| "it sent our own challenge back".to_owned())?;
            let own = access
                .target
                .as_ref()
                .ok_or("it asks for mutual CHAP, and the target has no secret")?;
            emit_pair(reply, Key::ChapN.name(), own.name());
            emit_pair(reply, Key::ChapR.name(), &asked.answer(own.secret()));
        }
        _ => return Err("it sent unexpected CHAP keys".to_owned()),
    }
    Ok(Authentication::Proved(name.to_owned()))
}
