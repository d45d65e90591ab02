//! CHAP, as the side that asks for it (RFC 7143 section 12.1.3): which keys may come when, and what they prove.
//!
//! Everything that goes wrong is one answer, Authentication Failure: a peer that guesses learns neither whether there is such a user nor how far it got.

use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::keys::Key;
use hakaru_wire::iscsi::text::emit_pair;

use crate::access::Access;

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

    /// Takes the CHAP keys of one text of the security stage, after CHAP was agreed on, and appends what answers them.
    pub(crate) fn take(
        &mut self,
        keys: &[(Key, String)],
        access: &Access,
        entropy: &mut Entropy,
        reply: &mut Vec<u8>,
    ) -> Result<(), LoginStatus> {
        let next = match (&*self, keys) {
            (Self::None, []) => Some(Self::Algorithm),
            (Self::None | Self::Algorithm, [(Key::ChapA, offered)]) => {
                ask(offered, access, entropy, reply)
            }
            (Self::Response(challenge), keys) => prove(challenge, keys, access, reply),
            (Self::Proved(user), []) => Some(Self::Proved(user.clone())),
            _ => None,
        };
        *self = next.ok_or(LoginStatus::AUTHENTICATION_FAILURE)?;
        Ok(())
    }
}

/// CHAP_A came: a challenge goes out.
fn ask(
    offered: &str,
    access: &Access,
    entropy: &mut Entropy,
    reply: &mut Vec<u8>,
) -> Option<Authentication> {
    let algorithm = Algorithm::choose(offered, &access.algorithms)?;
    let challenge = Challenge::new(algorithm, entropy);
    emit_pair(reply, Key::ChapA.name(), &algorithm.number().to_string());
    emit_pair(reply, Key::ChapI.name(), &challenge.identifier());
    emit_pair(reply, Key::ChapC.name(), &challenge.value());
    Some(Authentication::Response(challenge))
}

/// CHAP_N and CHAP_R came, and for mutual authentication CHAP_I and CHAP_C with them, in any order.
fn prove(
    challenge: &Challenge,
    keys: &[(Key, String)],
    access: &Access,
    reply: &mut Vec<u8>,
) -> Option<Authentication> {
    let value = |wanted: Key| {
        let found = keys.iter().find(|(key, _)| *key == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let (name, response) = (value(Key::ChapN)?, value(Key::ChapR)?);
    let user = access.user(name);
    challenge
        .check(user.map(Credentials::secret), response)
        .ok()?;
    match (value(Key::ChapI), value(Key::ChapC), keys.len()) {
        (None, None, 2) => {}
        (Some(identifier), Some(asked), 4) => {
            let asked = Challenge::parse(challenge.algorithm(), identifier, asked).ok()?;
            challenge.check_reflection(&asked).ok()?;
            let own = access.target.as_ref()?;
            emit_pair(reply, Key::ChapN.name(), own.name());
            emit_pair(reply, Key::ChapR.name(), &asked.answer(own.secret()));
        }
        _ => return None,
    }
    Some(Authentication::Proved(name.to_owned()))
}
