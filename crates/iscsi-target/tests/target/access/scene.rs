//! Logins and access lists for the tests of access control.
use crate::pair::{INITIATOR, Initiator, Keys, Pair, config, names, value};
use hakaru_iscsi_target::Access;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{LoginStatus, Stage};

pub const SECURITY: Stage = Stage::SecurityNegotiation;
pub const OPERATIONAL: Stage = Stage::OperationalNegotiation;
pub const FULL: Stage = Stage::FullFeaturePhase;
pub const DENIED: LoginStatus = LoginStatus::AUTHENTICATION_FAILURE;
pub const UNAUTHORIZED: LoginStatus = LoginStatus::AUTHORIZATION_FAILURE;

pub const SECRET: &str = "the secret of vm";
pub const TARGET_SECRET: &str = "the target's own";

pub fn user(name: &str, secret: &str) -> Credentials {
    Credentials::new(name, secret).expect("credentials")
}

pub fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    pairs
        .iter()
        .for_each(|(key, value)| emit_pair(&mut out, key, value));
    out
}

pub fn pair_with(access: Access) -> Pair {
    let mut config = config();
    config.access = access;
    Pair::with(config)
}

/// Returns access for one CHAP user, without an access list.
pub fn chap() -> Access {
    Access {
        users: vec![user("vm", SECRET)],
        target: Some(user("array", TARGET_SECRET)),
        ..Access::default()
    }
}

/// Begins a CHAP login. Returns the initiator, which must send CHAP_N and CHAP_R next, and its
/// challenge.
pub fn begin_chap(
    pair: &mut Pair,
    algorithms: &str,
) -> (Initiator, Result<Challenge, LoginStatus>) {
    let connection = pair.connect();
    let mut initiator = Initiator::new(connection, 1);
    let first = [names(INITIATOR), text(&[("AuthMethod", "CHAP,None")])].concat();
    let (response, keys) = initiator.login(pair, SECURITY, Some(OPERATIONAL), &first);
    assert_eq!(response.status, LoginStatus::SUCCESS);
    assert_eq!(
        (value(&keys, "AuthMethod"), response.next_stage),
        (Some("CHAP"), None),
        "no initiator leaves the security stage without proof"
    );
    let (response, keys) = initiator.login(pair, SECURITY, None, &text(&[("CHAP_A", algorithms)]));
    if response.status != LoginStatus::SUCCESS {
        assert!(keys.is_empty() && pair.is_closed(connection));
        return (initiator, Err(response.status));
    }
    let key = |name| value(&keys, name).expect("a complete challenge");
    let algorithm = Algorithm::choose(key("CHAP_A"), Algorithm::ALL).expect("a known algorithm");
    let challenge = Challenge::parse(algorithm, key("CHAP_I"), key("CHAP_C"));
    (initiator, Ok(challenge.expect("a challenge")))
}

/// Returns the outcome of a login whose third text is `proof` of the challenge.
pub fn log_in_with_proof(
    pair: &mut Pair,
    proof: impl Fn(&Challenge) -> Vec<u8>,
) -> (LoginStatus, Keys) {
    let (mut initiator, challenge) = begin_chap(pair, "5,6,7,8");
    let text = proof(&challenge.expect("a challenge"));
    let (response, keys) = initiator.login(pair, SECURITY, Some(FULL), &text);
    let refused = response.status != LoginStatus::SUCCESS;
    assert_eq!(pair.is_closed(initiator.connection), refused);
    (response.status, keys)
}

pub fn answer(challenge: &Challenge, name: &str, secret: &str) -> Vec<u8> {
    let response = challenge.answer(user(name, secret).secret());
    text(&[("CHAP_N", name), ("CHAP_R", &response)])
}

/// Logs in with the authentication method that the target requests, as user `vm` for CHAP.
pub fn log_in(
    pair: &mut Pair,
    peer: &str,
    first: &[u8],
    algorithms: &str,
) -> (LoginStatus, Initiator) {
    let connection = pair
        .try_connect_from(peer)
        .expect("a connection is accepted");
    let mut initiator = Initiator::new(connection, 1);
    let first = [first, &text(&[("AuthMethod", "CHAP,None")])].concat();
    let (response, keys) = initiator.login(pair, SECURITY, Some(FULL), &first);
    if response.status != LoginStatus::SUCCESS || value(&keys, "AuthMethod") == Some("None") {
        return (response.status, initiator);
    }
    let (response, keys) = initiator.login(pair, SECURITY, None, &text(&[("CHAP_A", algorithms)]));
    let key = |name| value(&keys, name).expect("a complete challenge");
    assert_eq!(response.status, LoginStatus::SUCCESS);
    let algorithm = Algorithm::choose(key("CHAP_A"), Algorithm::ALL).unwrap();
    let challenge = Challenge::parse(algorithm, key("CHAP_I"), key("CHAP_C")).unwrap();
    let proof = answer(&challenge, "vm", SECRET);
    let (response, _) = initiator.login(pair, SECURITY, Some(FULL), &proof);
    (response.status, initiator)
}
