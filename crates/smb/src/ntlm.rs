//! NTLMv2 (MS-NLMP): the three messages of a login and the session key.
//!
//! Key exchange is not offered, so the session key is the session base key. Sealing is left out,
//! because SMB has its own signatures.
use hmac::{Hmac, KeyInit as _, Mac};
use md4::{Digest, Md4};
use md5::Md5;

use crate::wire::{Emit, Fields, WireError, utf16};

const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";
const UNICODE: u32 = 0x0000_0001;
const REQUEST_TARGET: u32 = 0x0000_0004;
const SIGN: u32 = 0x0000_0010;
const NTLM: u32 = 0x0000_0200;
const ANONYMOUS: u32 = 0x0000_0800;
const ALWAYS_SIGN: u32 = 0x0000_8000;
const EXTENDED_SESSION_SECURITY: u32 = 0x0008_0000;
const TARGET_INFO: u32 = 0x0080_0000;
const KEY_128: u32 = 0x2000_0000;
const KEY_56: u32 = 0x8000_0000;
const OFFERED: u32 = UNICODE
    | REQUEST_TARGET
    | SIGN
    | NTLM
    | ALWAYS_SIGN
    | EXTENDED_SESSION_SECURITY
    | TARGET_INFO
    | KEY_128
    | KEY_56;

/// Ids of attribute-value pairs (MS-NLMP section 2.2.2.1).
const AV_END: u16 = 0;
const AV_FLAGS: u16 = 6;
const AV_TIMESTAMP: u16 = 7;
const AV_TARGET_NAME: u16 = 9;
/// Flag of [`AV_FLAGS`]: the AUTHENTICATE message has a MIC.
const AV_FLAG_MIC: u32 = 2;
/// Offset of the MIC in the AUTHENTICATE message, and of its payload, bytes.
const MIC_AT: usize = 72;
const PAYLOAD_AT: usize = 88;

/// A user's secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// Domain or workgroup; may be empty.
    pub domain: String,
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Password({}\\{})", self.domain, self.user)
    }
}

/// Values of one login that must not repeat, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonces {
    /// Random.
    pub client_challenge: [u8; 8],
    /// Wall clock in 100 ns from 1601-01-01 UTC, if the server sends no time.
    pub wall_clock: u64,
}

/// Returns the NEGOTIATE message.
pub(crate) fn negotiate() -> Vec<u8> {
    let mut out = Vec::new();
    Emit(&mut out)
        .bytes(SIGNATURE)
        .u32(1)
        .u32(OFFERED)
        .zeros(24);
    out
}

/// A CHALLENGE message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    flags: u32,
    challenge: [u8; 8],
    target_info: Vec<u8>,
}

impl Challenge {
    /// Parses the message.
    ///
    /// # Errors
    /// It is not a CHALLENGE, a field lies outside, or it lacks what NTLMv2 needs.
    pub(crate) fn parse(message: &[u8]) -> Result<Challenge, WireError> {
        let fields = Fields(message);
        if fields.array(0)? != *SIGNATURE || fields.u32(8)? != 2 {
            return Err(WireError::Invalid("not an NTLM CHALLENGE"));
        }
        let flags = fields.u32(20)?;
        if flags & (UNICODE | TARGET_INFO) != UNICODE | TARGET_INFO {
            return Err(WireError::Invalid("the server does not support NTLMv2"));
        }
        let (length, at) = (fields.u16(40)?, fields.u32(44)?);
        Ok(Challenge {
            flags,
            challenge: fields.array(24)?,
            target_info: fields.buffer(at as usize, length.into())?.to_vec(),
        })
    }
}

/// An AUTHENTICATE message and the key of the session that it begins.
#[derive(Clone, Debug)]
pub(crate) struct Authenticate {
    pub message: Vec<u8>,
    pub session_key: [u8; 16],
    /// Whether the message has a MIC. SPNEGO then requires signatures of its own.
    pub has_mic: bool,
}

/// Sides of a login.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Signs the first message of one side (MS-NLMP section 3.4.4.2, without key exchange).
pub(crate) fn sign(session_key: &[u8; 16], side: Side, message: &[u8]) -> [u8; 16] {
    let purpose: &[u8] = match side {
        Side::Client => b"session key to client-to-server signing key magic constant\0",
        Side::Server => b"session key to server-to-client signing key magic constant\0",
    };
    let key: [u8; 16] = Md5::new()
        .chain_update(session_key)
        .chain_update(purpose)
        .finalize()
        .into();
    let sequence = [0; 4];
    let mut signature = [0; 16];
    signature[0] = 1;
    signature[4..12].copy_from_slice(&hmac_md5(&key, &[&sequence, message])[..8]);
    signature[12..].copy_from_slice(&sequence);
    signature
}

/// Answers a challenge with a user's password. `target` is the service, such as `cifs/server`.
///
/// # Errors
/// The attributes of the server's challenge are invalid.
pub(crate) fn authenticate(
    user: &Password,
    target: &str,
    nonces: Nonces,
    negotiate: &[u8],
    challenge: (&Challenge, &[u8]),
) -> Result<Authenticate, WireError> {
    let (challenge, challenge_message) = challenge;
    let info = TargetInfo::parse(&challenge.target_info)?;
    let response = Response::compute(
        &user_key(user),
        &challenge.challenge,
        nonces.client_challenge,
        info.timestamp.unwrap_or(nonces.wall_clock),
        &info.answer(target),
    );
    // MS-NLMP section 3.1.5.1.2: no LMv2 response if the server sent the time.
    let lm = match info.timestamp {
        Some(_) => [0; 24],
        None => response.lm,
    };
    let flags = challenge.flags & OFFERED;
    let mut message = emit_authenticate(flags, &lm, &response.nt, user);
    if info.timestamp.is_some() {
        let parts = [negotiate, challenge_message, &message];
        let mic = hmac_md5(&response.session_base_key, &parts);
        message[MIC_AT..PAYLOAD_AT].copy_from_slice(&mic);
    }
    Ok(Authenticate {
        message,
        session_key: response.session_base_key,
        has_mic: info.timestamp.is_some(),
    })
}

/// Answers a challenge without a user.
pub(crate) fn authenticate_anonymous(challenge: &Challenge) -> Vec<u8> {
    let nobody = Password {
        domain: String::new(),
        user: String::new(),
        password: String::new(),
    };
    emit_authenticate(challenge.flags & OFFERED | ANONYMOUS, &[0], &[], &nobody)
}

fn emit_authenticate(flags: u32, lm: &[u8], nt: &[u8], user: &Password) -> Vec<u8> {
    let (domain, name) = (utf16(&user.domain), utf16(&user.user));
    let payload: [&[u8]; 6] = [lm, nt, &domain, &name, &[], &[]];
    let mut out = Vec::new();
    Emit(&mut out).bytes(SIGNATURE).u32(3);
    let mut at = PAYLOAD_AT;
    for part in payload {
        let length = part.len() as u16;
        Emit(&mut out).u16(length).u16(length).u32(at as u32);
        at += part.len();
    }
    // The version, of 8 bytes, and the MIC stay zero.
    Emit(&mut out).u32(flags).zeros(8 + 16);
    payload.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// The attributes of a challenge.
struct TargetInfo {
    /// Id and value of each pair that is repeated in the answer.
    pairs: Vec<(u16, Vec<u8>)>,
    timestamp: Option<u64>,
}

impl TargetInfo {
    fn parse(bytes: &[u8]) -> Result<TargetInfo, WireError> {
        let fields = Fields(bytes);
        let mut info = TargetInfo {
            pairs: Vec::new(),
            timestamp: None,
        };
        let mut at = 0;
        while at < bytes.len() {
            let (id, length) = (fields.u16(at)?, usize::from(fields.u16(at + 2)?));
            let value = fields.slice(at + 4, length)?;
            match id {
                AV_END => break,
                AV_TIMESTAMP => info.timestamp = Some(Fields(value).u64(0)?),
                _ => {}
            }
            if id != AV_FLAGS && id != AV_TARGET_NAME {
                info.pairs.push((id, value.to_vec()));
            }
            at += 4 + length;
        }
        Ok(info)
    }

    /// Returns the attributes of the answer (MS-NLMP section 3.1.5.1.2).
    fn answer(&self, target: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut emit = Emit(&mut out);
        for (id, value) in &self.pairs {
            emit.u16(*id).u16(value.len() as u16).bytes(value);
        }
        if self.timestamp.is_some() {
            emit.u16(AV_FLAGS).u16(4).u32(AV_FLAG_MIC);
        }
        let target = utf16(target);
        emit.u16(AV_TARGET_NAME)
            .u16(target.len() as u16)
            .bytes(&target);
        emit.u16(AV_END).u16(0);
        out
    }
}

/// The key NTOWFv2 of a user (MS-NLMP section 3.3.2).
fn user_key(user: &Password) -> [u8; 16] {
    let hash: [u8; 16] = Md4::digest(utf16(&user.password)).into();
    let name = user.user.to_uppercase() + &user.domain;
    hmac_md5(&hash, &[&utf16(&name)])
}

/// The responses to a challenge (MS-NLMP section 3.3.2).
struct Response {
    lm: [u8; 24],
    nt: Vec<u8>,
    session_base_key: [u8; 16],
}

impl Response {
    fn compute(
        key: &[u8; 16],
        challenge: &[u8; 8],
        client_challenge: [u8; 8],
        timestamp: u64,
        target_info: &[u8],
    ) -> Response {
        let mut temp = Vec::new();
        Emit(&mut temp)
            .bytes(&[1, 1])
            .zeros(6)
            .u64(timestamp)
            .bytes(&client_challenge)
            .zeros(4)
            .bytes(target_info)
            .zeros(4);
        let proof = hmac_md5(key, &[challenge, &temp]);
        let mut lm = [0; 24];
        lm[..16].copy_from_slice(&hmac_md5(key, &[challenge, &client_challenge]));
        lm[16..].copy_from_slice(&client_challenge);
        Response {
            lm,
            nt: [&proof[..], &temp].concat(),
            session_base_key: hmac_md5(key, &[&proof]),
        }
    }
}

fn hmac_md5(key: &[u8; 16], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Returns user and domain of an AUTHENTICATE message, for servers in tests.
#[cfg(test)]
fn user_of(message: &[u8]) -> (String, String) {
    let fields = Fields(message);
    let text = |at| {
        let (length, at) = (fields.u16(at).unwrap(), fields.u32(at + 4).unwrap());
        crate::wire::from_utf16(fields.buffer(at as usize, length.into()).unwrap())
    };
    (text(36), text(28))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of MS-NLMP section 4.2.1 and 4.2.4.
    fn user() -> Password {
        Password {
            domain: "Domain".into(),
            user: "User".into(),
            password: "Password".into(),
        }
    }

    const SERVER_CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

    fn target_info() -> Vec<u8> {
        let mut out = Vec::new();
        for (id, name) in [(2, "Domain"), (1, "Server")] {
            let name = utf16(name);
            Emit(&mut out).u16(id).u16(name.len() as u16).bytes(&name);
        }
        Emit(&mut out).u32(0);
        out
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn responses_match_the_example_of_the_specification() {
        let key = user_key(&user());
        assert_eq!(hex(&key), "0c868a403bfd7a93a3001ef22ef02e3f");
        let response = Response::compute(&key, &SERVER_CHALLENGE, [0xaa; 8], 0, &target_info());
        assert_eq!(
            hex(&response.lm),
            "86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa"
        );
        assert_eq!(hex(&response.nt[..16]), "68cd0ab851e51c96aabc927bebef6a1c");
        assert_eq!(
            hex(&response.session_base_key),
            "8de40ccadbc14a82f15cb0ad0de95ca3"
        );
    }

    fn challenge_message(info: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Emit(&mut out)
            .bytes(SIGNATURE)
            .u32(2)
            .zeros(8)
            .u32(OFFERED)
            .bytes(&SERVER_CHALLENGE)
            .zeros(8)
            .u16(info.len() as u16)
            .u16(info.len() as u16)
            .u32(56)
            .zeros(8)
            .bytes(info);
        out
    }

    const NONCES: Nonces = Nonces {
        client_challenge: [0xaa; 8],
        wall_clock: 0,
    };

    #[test]
    fn a_server_that_sends_its_time_gets_a_mic_and_no_lm_response() {
        let mut info = target_info();
        info.truncate(info.len() - 4);
        Emit(&mut info).u16(AV_TIMESTAMP).u16(8).u64(77).u32(0);
        let message = challenge_message(&info);
        let challenge = Challenge::parse(&message).unwrap();
        let first = negotiate();
        let sent = authenticate(&user(), "cifs/s", NONCES, &first, (&challenge, &message)).unwrap();
        assert_eq!(user_of(&sent.message), ("User".into(), "Domain".into()));
        assert_eq!(sent.message[PAYLOAD_AT..PAYLOAD_AT + 24], [0; 24]);
        let mut without_mic = sent.message.clone();
        without_mic[MIC_AT..PAYLOAD_AT].fill(0);
        let mic = hmac_md5(&sent.session_key, &[&first, &message, &without_mic]);
        assert_eq!(sent.message[MIC_AT..PAYLOAD_AT], mic);
        // The response contains the server's time, at byte 8 behind the proof.
        let nt = &sent.message[PAYLOAD_AT + 24..];
        assert_eq!(nt[16 + 8..16 + 16], 77u64.to_le_bytes());
    }

    #[test]
    fn a_server_without_a_time_gets_the_lm_response_and_no_mic() {
        let message = challenge_message(&target_info());
        let challenge = Challenge::parse(&message).unwrap();
        let sent = authenticate(&user(), "cifs/s", NONCES, &[], (&challenge, &message)).unwrap();
        assert_eq!(sent.message[MIC_AT..PAYLOAD_AT], [0; 16]);
        assert_eq!(sent.message[PAYLOAD_AT + 16..PAYLOAD_AT + 24], [0xaa; 8]);
    }

    #[test]
    fn challenges_are_refused_if_truncated_or_without_ntlmv2() {
        let message = challenge_message(&target_info());
        for length in 0..message.len() {
            assert!(Challenge::parse(&message[..length]).is_err(), "{length}");
        }
        let mut old = message.clone();
        old[22] &= !0x80;
        let refused = WireError::Invalid("the server does not support NTLMv2");
        assert_eq!(Challenge::parse(&old), Err(refused));
    }

    #[test]
    fn passwords_are_not_printed() {
        assert_eq!(format!("{:?}", user()), "Password(Domain\\User)");
    }
}
