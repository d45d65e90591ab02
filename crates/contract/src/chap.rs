//! CHAP users, secrets and algorithms, for initiators and arrays.
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Source of a secret, such as a password. A secret of CHAP has 12 to 255 bytes (96 bits at least,
/// RFC 7143 section 9.2.1).
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SecretSource {
    /// The configuration contains the secret.
    Text {
        /// The secret.
        text: String,
    },
    /// A file contains the secret as its only line. The engine reads the file; the line ending is
    /// not part of the secret.
    File {
        /// Path of the file.
        path: String,
    },
}

/// Mirror of `SecretSource` for deserialisation. A derived `Deserialize` on `SecretSource` would
/// print a misplaced secret in its error message.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Source {
    Text { text: String },
    File { path: String },
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const SHAPE: &str = r#"{"kind": "file", "path": …} or {"kind": "text", "text": …}"#;
        struct SecretVisitor;
        impl<'de> Visitor<'de> for SecretVisitor {
            type Value = Source;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SHAPE)
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<Source, E> {
                Err(E::custom(format_args!("a secret is {SHAPE}")))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
                Source::deserialize(MapAccessDeserializer::new(map))
            }
        }
        Ok(match deserializer.deserialize_any(SecretVisitor)? {
            Source::Text { text } => SecretSource::Text { text },
            Source::File { path } => SecretSource::File { path },
        })
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Text { .. } => f.write_str("Text(…)"),
            SecretSource::File { path } => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// A CHAP name and its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapUser {
    /// The name, sent as CHAP_N byte for byte; 1 to 255 bytes.
    pub name: String,
    /// The secret of this name.
    pub secret: SecretSource,
}

/// Hash that turns a challenge into a response (CHAP_A). SHA-1 and MD5 are broken and meant only
/// for peers that support nothing better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChapAlgorithm {
    /// CHAP_A=8.
    #[serde(rename = "sha3_256")]
    Sha3_256,
    /// CHAP_A=7.
    #[serde(rename = "sha256")]
    Sha256,
    /// CHAP_A=6.
    #[serde(rename = "sha1")]
    Sha1,
    /// CHAP_A=5.
    #[serde(rename = "md5")]
    Md5,
}

impl ChapAlgorithm {
    /// Returns the default algorithms: SHA3-256, SHA-256.
    #[must_use]
    pub fn strong() -> Vec<ChapAlgorithm> {
        vec![ChapAlgorithm::Sha3_256, ChapAlgorithm::Sha256]
    }

    /// Returns whether the hash is broken.
    #[must_use]
    pub fn is_weak(self) -> bool {
        matches!(self, ChapAlgorithm::Sha1 | ChapAlgorithm::Md5)
    }
}

/// CHAP settings of an initiator. It does not log in to a target that does not request CHAP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapConfig {
    /// Name and secret of the initiator.
    pub user: ChapUser,
    /// Name and secret with which the target must authenticate itself (mutual CHAP). The secret
    /// must differ from the initiator's. Default: the target is not authenticated.
    #[serde(default)]
    pub target: Option<ChapUser>,
    /// Algorithms offered, preferred first. Default SHA3-256, SHA-256.
    #[serde(default = "ChapAlgorithm::strong")]
    pub algorithms: Vec<ChapAlgorithm>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_given_as_text_does_not_show_in_debug() {
        let secret = SecretSource::Text {
            text: "canary-canary".into(),
        };
        let user = ChapUser {
            name: "vm".into(),
            secret,
        };
        assert!(!format!("{user:?}").contains("canary"), "{user:?}");
        let file = SecretSource::File {
            path: "/etc/secret".into(),
        };
        assert_eq!(format!("{file:?}"), "File(\"/etc/secret\")");
    }
}
