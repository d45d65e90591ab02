//! CHAP, as the side that asks for it (RFC 7143 section 12.1.3): which keys may come when, and what they prove.
//!
//! Everything that goes wrong is one answer, Authentication Failure: a peer that guesses learns neither whether there is such a user nor how far it got.

use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::text::emit_pair;

use crate::login::access::Access;

/// Fills a slice with bytes that nobody can foresee: the operating system's generator.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// How far an initiator has come in proving who it is.
#[derive(Debug, Default)]
pub(crate) enum Authentication {
    /// CHAP was not agreed on.
    #[default]
    None,
    /// CHAP_A is awaited.
    Algorithm,
    /// The answer to this is awaited.
    Response(Challenge),
    /// It is the user of this name.
    Proved(String),
    /// It has failed, for a reason that only the operator learns.
    Failed(String),
}

impl Authentication {
    /// Keys are awaited: the security stage does not end yet.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Algorithm | Self::Response(_))
    }

    /// Who it has proved to be.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Proved(user) => Some(user),
            _ => None,
        }
    }

    /// The reason for which it has failed.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Failed(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Takes the CHAP keys of one text of the security stage, after CHAP was agreed on, and appends what answers them.
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

/// CHAP_A came: a challenge goes out.
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

/// CHAP_N and CHAP_R came, and for mutual authentication CHAP_I and CHAP_C with them, in any order.
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
