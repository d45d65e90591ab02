use super::*;
use proptest::prelude::*;

fn secret(text: &str) -> Secret {
    Secret::new(text).expect("a secret")
}

/// Returns entropy for tests: a counter.
fn counting() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |out| {
        out.iter_mut().for_each(|byte| {
            *byte = next;
            next = next.wrapping_add(1);
        });
    }
}

#[test]
fn responses_are_the_hash_of_identifier_secret_and_challenge() {
    // From Python's hashlib: new(name, bytes([39]) + b"a secret of 22 bytes!!" + bytes(range(16))).
    let expected = [
        (Algorithm::Md5, "0xe4fa4058f44010f9572857933f59975a"),
        (
            Algorithm::Sha1,
            "0x087388b2021140859cffc6d4c55b0c8b6c90b243",
        ),
        (
            Algorithm::Sha256,
            "0x1760194610b96864e7d3ef0cc2458197f178fe74b90ccb4e78b0d18d0a4593bb",
        ),
        (
            Algorithm::Sha3_256,
            "0xff94ad1ca3af7014a3145e2218297b8444fb0eefb141f02153a88bcab35c5d2e",
        ),
    ];
    for (algorithm, response) in expected {
        let challenge =
            Challenge::parse(algorithm, "39", "0x000102030405060708090a0b0c0d0e0f").unwrap();
        let secret = secret("a secret of 22 bytes!!");
        assert_eq!(challenge.answer(&secret), response, "{algorithm:?}");
        assert_eq!(challenge.check(Some(&secret), response), Ok(()));
        assert_eq!(
            challenge.check(None, response),
            Err(ChapError::Wrong),
            "the response of an unknown name is never accepted"
        );
        assert_eq!(response.len(), 2 + 2 * algorithm.response_length());
    }
}

#[test]
fn a_response_from_the_placeholder_secret_is_refused() {
    let challenge = Challenge::new(Algorithm::Sha256, &mut counting());
    let response = challenge.answer(&Secret::placeholder());
    assert_eq!(challenge.check(None, &response), Err(ChapError::Wrong));
}

#[test]
fn a_response_of_another_length_or_form_is_refused_before_it_is_compared() {
    let challenge = Challenge::new(Algorithm::Sha256, &mut counting());
    let secret = secret("correct horse battery");
    let right = challenge.answer(&secret);
    let long = format!("{right}00");
    let base64 = |length: usize| format!("0b{}", "A".repeat(length));
    for (response, error) in [
        ("", ChapError::Response(BinaryError::Prefix)),
        ("0", ChapError::Response(BinaryError::Prefix)),
        ("0x", ChapError::Response(BinaryError::Empty)),
        ("0b", ChapError::Response(BinaryError::Empty)),
        ("0b====", ChapError::Response(BinaryError::Malformed)),
        ("12345", ChapError::Response(BinaryError::Prefix)),
        (
            &right[..right.len() - 1],
            ChapError::Response(BinaryError::Malformed),
        ),
        (&right[..right.len() - 2], ChapError::Wrong),
        (&long, ChapError::Response(BinaryError::TooLong)),
        (
            &format!("{}g", &right[..right.len() - 1]),
            ChapError::Response(BinaryError::Malformed),
        ),
        (
            &format!("0x{}", "é".repeat(10)),
            ChapError::Response(BinaryError::Malformed),
        ),
        ("é", ChapError::Response(BinaryError::Prefix)),
        // Lengths of the LIO bug of 2026: 127 characters of base64 are 95 bytes.
        (&base64(127), ChapError::Response(BinaryError::TooLong)),
        (&base64(44), ChapError::Response(BinaryError::TooLong)),
        (&base64(42), ChapError::Wrong),
        (&base64(41), ChapError::Response(BinaryError::Malformed)),
        // CVE-2018-14633: 17 bytes too many in hexadecimal.
        (
            &format!("0x{}", "41".repeat(32 + 17)),
            ChapError::Response(BinaryError::TooLong),
        ),
    ] {
        assert_eq!(
            challenge.check(Some(&secret), response),
            Err(error),
            "{response:?}"
        );
    }
    assert_eq!(challenge.check(Some(&secret), &right), Ok(()));
    let upper = format!("0X{}", right[2..].to_uppercase());
    assert_eq!(challenge.check(Some(&secret), &upper), Ok(()));
}

#[test]
fn identifiers_are_0_to_255_and_challenges_1_to_1024_bytes() {
    let parse = |identifier: &str, challenge: &str| {
        Challenge::parse(Algorithm::Sha256, identifier, challenge).map(|_| ())
    };
    for (identifier, ok) in [
        ("0", true),
        ("255", true),
        ("0xff", true),
        ("256", false),
        ("0x100", false),
        ("-1", false),
        ("+1", false),
        ("", false),
        ("00", false),
        ("1,2", false),
        ("18446744073709551616", false),
    ] {
        let expected = if ok {
            Ok(())
        } else {
            Err(ChapError::Identifier)
        };
        assert_eq!(parse(identifier, "0x00"), expected, "{identifier:?}");
    }
    let hex = |bytes: usize| format!("0x{}", "ab".repeat(bytes));
    assert_eq!(parse("1", &hex(1)), Ok(()));
    assert_eq!(parse("1", &hex(1024)), Ok(()));
    assert_eq!(hex(1024).len(), VALUE_LENGTH_MAX);
    let too_long = Err(ChapError::Challenge(BinaryError::TooLong));
    assert_eq!(parse("1", &hex(1025)), too_long);
    let base64 = |characters: usize| format!("0b{}", "A".repeat(characters));
    assert_eq!(
        parse("1", &base64(1366)),
        Ok(()),
        "1024 bytes and 4 unused bits"
    );
    assert_eq!(parse("1", &base64(1368)), too_long, "1026 bytes");
    assert_eq!(
        parse("1", "0x"),
        Err(ChapError::Challenge(BinaryError::Empty))
    );
}

#[test]
fn a_reflected_challenge_is_detected_with_any_identifier_and_encoding() {
    let own = Challenge::new(Algorithm::Sha256, &mut counting());
    let hex = own.value();
    let bytes = decode_binary(&hex, 1024).unwrap();
    let base64 = format!("0b{}", {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    });
    for (identifier, value) in [
        ("0", &hex),
        ("77", &hex.to_uppercase().replace("0X", "0x")),
        ("0", &base64),
    ] {
        let reflected = Challenge::parse(Algorithm::Sha256, identifier, value).unwrap();
        assert_eq!(
            own.check_reflection(&reflected),
            Err(ChapError::Reflected),
            "{value}"
        );
    }
    let other = Challenge::new(Algorithm::Sha256, &mut |out: &mut [u8]| out.fill(9));
    assert_eq!(own.check_reflection(&other), Ok(()));
}

#[test]
fn the_best_common_algorithm_is_chosen() {
    use Algorithm::*;
    for (offered, own, chosen) in [
        ("5,6,7,8", Algorithm::DEFAULT, Some(Sha3_256)),
        ("7", Algorithm::DEFAULT, Some(Sha256)),
        ("5", Algorithm::DEFAULT, None),
        ("6", Algorithm::DEFAULT, None),
        ("5", Algorithm::ALL, Some(Md5)),
        ("5,6", Algorithm::ALL, Some(Sha1)),
        ("0x7", Algorithm::DEFAULT, Some(Sha256)),
        ("", Algorithm::ALL, None),
        ("9,128,MD5", Algorithm::ALL, None),
    ] {
        assert_eq!(Algorithm::choose(offered, own), chosen, "{offered}");
    }
    assert_eq!(Algorithm::emit_list(Algorithm::DEFAULT), "8,7");
    let endless = "1,".repeat(1000) + "8";
    assert_eq!(
        Algorithm::choose(&endless, Algorithm::ALL),
        None,
        "only the first entries are read"
    );
}

#[test]
fn secrets_have_96_bits_and_do_not_show() {
    for (length, ok) in [
        (0, false),
        (11, false),
        (12, true),
        (255, true),
        (256, false),
    ] {
        let result = Secret::new(&"s".repeat(length));
        assert_eq!(result.is_ok(), ok, "{length}");
        if let Err(error) = result {
            assert_eq!(error, SecretError::Length(length));
        }
    }
    assert_eq!(Secret::new("twelve\0bytes"), Err(SecretError::Character));
    let credentials = Credentials::new("vm", "canary-canary").unwrap();
    let shown = format!("{credentials:?} {:?}", credentials.secret());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("vm"));
    assert_eq!(
        Credentials::new("", "canary-canary"),
        Err(SecretError::Name)
    );
    assert_eq!(
        Credentials::new(&"n".repeat(256), "canary-canary"),
        Err(SecretError::Name)
    );
    assert_eq!(secret("canary-canary"), secret("canary-canary"));
    assert_ne!(secret("canary-canary"), secret("canary-canarz"));
    assert_ne!(secret("canary-canary"), secret("canary-canary-"));
}

proptest! {
    #[test]
    fn encoded_bytes_survive_decoding(bytes in proptest::collection::vec(any::<u8>(), 1..1024)) {
        prop_assert_eq!(decode_binary(&encode_binary(&bytes), 1024), Ok(bytes));
    }

    #[test]
    fn no_text_panics_or_grows(text in "0[xXbB][0-9a-zA-Z+/=]{0,300}|.{0,40}", length_max in 1usize..64) {
        if let Ok(bytes) = decode_binary(&text, length_max) {
            prop_assert!(!bytes.is_empty() && bytes.len() <= length_max);
        }
    }
}
