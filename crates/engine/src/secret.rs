//! Secrets of CHAP and passwords, from the configuration or from files. Messages reveal at most the
//! length of a secret.
use std::fs::File;
use std::io::Read;

use hakaru_contract::{ChapAlgorithm, ChapConfig, ChapUser, SecretSource};
use hakaru_iscsi_session::Chap;
use hakaru_runtime::process::entropy;
use hakaru_wire::iscsi::chap::{Algorithm, Credentials, SECRET_LENGTH_MAX, SecretError};

use crate::failure::Failure;

/// Longest file that may hold a secret, bytes: the longest secret and its line ending.
const FILE_LENGTH_MAX: usize = SECRET_LENGTH_MAX + 2;

/// Reads a name and its secret. `field` names the setting in messages.
///
/// # Errors
/// The file cannot be read, or the name or the secret is invalid.
pub fn credentials(field: &str, user: &ChapUser) -> Result<Credentials, Failure> {
    let text = text(field, &user.secret)?;
    Credentials::new(&user.name, &text).map_err(|error| unusable(field, &error))
}

/// Reads a secret of any length. `field` names the setting in messages.
///
/// # Errors
/// The file cannot be read.
pub fn text(field: &str, secret: &SecretSource) -> Result<String, Failure> {
    match secret {
        SecretSource::Text { text } => Ok(text.clone()),
        SecretSource::File { path } => read(field, path),
    }
}

/// Builds the CHAP settings of an initiator.
///
/// # Errors
/// As [`credentials`]; also if both directions use the same secret, or no algorithm is given.
pub fn chap(config: &ChapConfig) -> Result<Chap, Failure> {
    let user = credentials("chap.user", &config.user)?;
    let target = config.target.as_ref();
    let target = target
        .map(|target| credentials("chap.target", target))
        .transpose()?;
    if config.algorithms.is_empty() {
        return Err(Failure::usage(
            "chap.algorithms is empty",
            "omit it to use SHA3-256 and SHA-256",
        ));
    }
    let algorithms = config
        .algorithms
        .iter()
        .map(|configured| algorithm(*configured))
        .collect();
    Chap::new(user, target, algorithms, entropy::fill).map_err(|error| unusable("chap", &error))
}

/// Converts an algorithm of the configuration into the algorithm of the protocol.
pub fn algorithm(configured: ChapAlgorithm) -> Algorithm {
    match configured {
        ChapAlgorithm::Sha3_256 => Algorithm::Sha3_256,
        ChapAlgorithm::Sha256 => Algorithm::Sha256,
        ChapAlgorithm::Sha1 => Algorithm::Sha1,
        ChapAlgorithm::Md5 => Algorithm::Md5,
    }
}

fn unusable(field: &str, error: &SecretError) -> Failure {
    let hint = match error {
        SecretError::Length(_) => "generate one with `openssl rand -base64 24`",
        SecretError::Same => "use a different secret for each direction",
        SecretError::Character => "a secret is one line of text",
        SecretError::Name => "choose a shorter name, without control characters",
    };
    Failure::usage(format_args!("{field}: {error}"), hint)
}

fn read(field: &str, path: &str) -> Result<String, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::environment(
            format_args!("{field}: cannot read the secret in {path}: {why}"),
            "name a file whose only line is the secret, readable by this user alone",
        )
    };
    let file = File::open(path).map_err(|e| cannot(&e))?;
    let mut bytes = Vec::new();
    file.take(FILE_LENGTH_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| cannot(&e))?;
    if bytes.len() > FILE_LENGTH_MAX {
        return Err(cannot(&"the file is longer than the longest secret"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| cannot(&"the file is not UTF-8 text"))?;
    for end in ['\n', '\r'] {
        if text.ends_with(end) {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(contents: &[u8]) -> Result<Credentials, Failure> {
        let path = std::env::temp_dir().join(format!(
            "hakaru-secret-{}-{:x}",
            std::process::id(),
            contents.len()
        ));
        std::fs::write(&path, contents).unwrap();
        let user = ChapUser {
            name: "vm".into(),
            secret: SecretSource::File {
                path: path.to_string_lossy().into_owned(),
            },
        };
        let read = credentials("users[0]", &user);
        std::fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn a_secret_is_the_only_line_of_its_file() {
        let expected = Credentials::new("vm", "canary-canary");
        for contents in ["canary-canary", "canary-canary\n", "canary-canary\r\n"] {
            assert_eq!(
                from_file(contents.as_bytes()).ok(),
                expected.clone().ok(),
                "{contents:?}"
            );
        }
    }

    #[test]
    fn a_secret_in_the_wrong_place_is_not_repeated() {
        for config in [
            r#"{"name": "vm", "secret": "canary-canary"}"#,
            r#"{"name": "vm", "secret": ["canary-canary"]}"#,
            r#"{"name": "vm", "secret": {"kind": "text", "text": ["canary-canary"]}}"#,
            r#"{"name": "vm", "secret": {"text": "canary-canary"}}"#,
        ] {
            let error = serde_json::from_str::<ChapUser>(config).expect_err("refused");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
        let right = r#"{"name": "vm", "secret": {"kind": "text", "text": "canary-canary"}}"#;
        let right = serde_json::from_str::<ChapUser>(right).expect("a user");
        assert!(credentials("users[0]", &right).is_ok());
    }

    #[test]
    fn an_invalid_secret_is_refused_and_not_repeated() {
        let long = "canary".repeat(1000);
        for contents in ["canary", "canary-canary\nmore", &long, "canary\u{7}canary"] {
            let failure = from_file(contents.as_bytes()).expect_err("refused");
            let text = format!("{} {}", failure.message, failure.hint);
            assert!(!text.contains("canary"), "{text}");
            assert!(text.contains("users[0]"), "{text}");
        }
        assert!(from_file(b"\xff\xfe canary-canary").is_err());
    }
}
