//! Text from a peer to either side, in every stage. Input: one byte that selects the side and its
//! settings, then texts, separated by bytes FFh (which no text contains).
//!
//! If a target has agreed on CHAP, the values of the CHAP keys are decoded too.
//!
//! Checks, in addition to the absence of panics: the reply is bounded and is valid text, and
//! FirstBurstLength never exceeds MaxBurstLength.
#![no_main]
use hakaru_wire::iscsi::Stage;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Secret, VALUE_LENGTH_MAX};
use hakaru_wire::iscsi::keys::{AuthMethod, Digest, Key, Negotiation, Offer, Role};
use hakaru_wire::iscsi::text::{emit_pair, parse_pairs};
use libfuzzer_sys::fuzz_target;

fn side(flags: u8) -> Negotiation {
    let own = Offer {
        initial_r2t: flags & 2 != 0,
        immediate_data: flags & 4 != 0,
        header_digests: if flags & 8 != 0 {
            &[Digest::Crc32c, Digest::None]
        } else {
            &[Digest::None]
        },
        auth_methods: if flags & 32 != 0 {
            &[AuthMethod::Chap, AuthMethod::None]
        } else {
            &[AuthMethod::None]
        },
        max_burst_length: if flags & 16 != 0 { 512 } else { 1 << 20 },
        ..Offer::default()
    };
    if flags & 1 != 0 {
        return Negotiation::new(Role::Target, own);
    }
    let mut initiator = Negotiation::new(Role::Initiator, own);
    let mut request = Vec::new();
    initiator.declare_session(
        "iqn.2020-01.org.example:a",
        Some("iqn.2020-01.org.example:t"),
        &mut request,
    );
    initiator.offer_security(&mut request);
    initiator.offer_operational(&mut request);
    initiator
}

/// Decodes CHAP keys as a target does.
fn decode(keys: &[(Key, String)]) {
    let secret = Secret::new("a secret of fuzz").expect("a secret");
    let sent = Challenge::new(Algorithm::Sha256, &mut |out: &mut [u8]| out.fill(7));
    for (key, value) in keys {
        assert!(value.len() <= VALUE_LENGTH_MAX);
        match key {
            Key::ChapA => drop(Algorithm::choose(value, Algorithm::ALL)),
            Key::ChapR => assert!(sent.check(None, value).is_err()),
            Key::ChapC => {
                if let Ok(challenge) = Challenge::parse(Algorithm::Sha256, "1", value) {
                    assert!(
                        challenge
                            .check(Some(&secret), &challenge.answer(&secret))
                            .is_ok()
                    );
                }
            }
            _ => {}
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [flags, texts @ ..] = input else { return };
    let mut side = side(*flags);
    let stages = [
        Stage::SecurityNegotiation,
        Stage::OperationalNegotiation,
        Stage::FullFeaturePhase,
    ];
    for (i, text) in texts.split(|byte| *byte == 0xff).enumerate() {
        let mut emitted = Vec::new();
        for (key, value) in parse_pairs(text).flatten() {
            emit_pair(&mut emitted, key, value);
        }
        assert!(parse_pairs(&emitted).all(|pair| pair.is_ok()));
        let mut reply = Vec::new();
        let stage = if flags & 64 != 0 {
            Stage::SecurityNegotiation
        } else {
            stages[i.min(2)]
        };
        let refused = side.receive(stage, text, &mut reply).is_err();
        decode(&side.take_authentication());
        assert!(reply.len() <= 8192);
        assert!(parse_pairs(&reply).all(|pair| pair.is_ok()));
        assert!(side.agreed().first_burst_length <= side.agreed().max_burst_length);
        if refused {
            return;
        }
    }
    side.conclude();
    assert!(side.agreed().first_burst_length <= side.agreed().max_burst_length);
});
