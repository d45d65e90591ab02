//! A folder of a share of an SMB server, and the sessions with it.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::SecretSource;

/// A folder of a share. Each tool of a load has a session of its own, on a TCP connection of its
/// own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmbDestination {
    /// Numeric address and port of the server, such as `10.0.0.1:445`.
    pub address: String,
    /// Share.
    pub share: String,
    /// Folder of the trees below the share, with `/` between names. Default: the share itself.
    #[serde(default)]
    pub folder: String,
    /// Identity. Default `guest`.
    #[serde(default)]
    pub user: SmbUser,
    /// Dialects to offer. Default: all.
    #[serde(default = "default_dialects")]
    pub dialects: Vec<SmbDialect>,
    /// Use of signatures. Default `if_required`.
    #[serde(default)]
    pub signing: SmbSigning,
    /// Signing algorithms to offer with dialect 3.1.1, in order of preference. Default: GMAC, then
    /// CMAC.
    #[serde(default = "default_signing_algorithms")]
    pub signing_algorithms: Vec<SmbSigningAlgorithm>,
    /// Use of encryption, which needs dialect 3.1.1. Encrypted messages are not signed. Default
    /// `if_required`.
    #[serde(default)]
    pub encryption: SmbEncryption,
    /// Ciphers to offer with dialect 3.1.1, in order of preference. Default: GCM, then CCM.
    #[serde(default = "default_ciphers")]
    pub ciphers: Vec<SmbCipher>,
    /// Requests that travel together. Default `operation`.
    #[serde(default)]
    pub compound: SmbCompound,
    /// Whether a tool looks each folder of a tree up once, as a client that caches folders.
    /// Otherwise it does so for every file. Default false.
    #[serde(default)]
    pub folder_cache: bool,
    /// Credits to request, 1 to 8192; at least 3 with compounds of an operation, 4 with those of a
    /// file. Each covers 64 KiB of a request in flight. Default 512.
    #[serde(default = "default_credits")]
    pub credits: u16,
    /// Time limit of a connection with its login, seconds, 0.1 to 600. Default 10.
    #[serde(default = "default_connect_timeout_s")]
    pub connect_timeout_s: f64,
    /// Time limit of a request, seconds, 0.1 to 600. A notice that the request is pending starts
    /// it again. Default 30.
    #[serde(default = "default_request_timeout_s")]
    pub request_timeout_s: f64,
}

/// Identity of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SmbUser {
    /// The user `guest` without a password.
    #[default]
    Guest,
    /// No user.
    Anonymous,
    /// A user with a password (NTLMv2).
    Password {
        /// User.
        name: String,
        /// Domain or workgroup. Default: none.
        #[serde(default)]
        domain: String,
        /// Password.
        password: SecretSource,
    },
}

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SmbDialect {
    /// 2.1.
    #[serde(rename = "2.1")]
    V2_1,
    /// 3.0.
    #[serde(rename = "3.0")]
    V3_0,
    /// 3.0.2.
    #[serde(rename = "3.0.2")]
    V3_0_2,
    /// 3.1.1.
    #[serde(rename = "3.1.1")]
    V3_1_1,
}

/// Use of signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SmbSigning {
    /// Messages are signed if the server requires it.
    #[default]
    IfRequired,
    /// All messages are signed. Sessions of guests are refused.
    Required,
}

/// Signing algorithm of dialect 3.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SmbSigningAlgorithm {
    /// AES-128-GMAC.
    AesGmac,
    /// AES-128-CMAC.
    AesCmac,
}

/// Requests that travel as one compound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SmbCompound {
    /// None: every request travels alone.
    None,
    /// Those of one operation, such as open and close of a folder.
    #[default]
    Operation,
    /// Those of a file that fits in one read or write: open, transfer, flush and close. Of a larger
    /// file, open and first transfer; reads and writes are then begun ahead of each other.
    File,
}

/// Use of encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SmbEncryption {
    /// Messages are encrypted if the server or the share requires it.
    #[default]
    IfRequired,
    /// All messages after the login are encrypted. Sessions of guests are refused.
    Required,
}

/// Cipher of dialect 3.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SmbCipher {
    /// AES-128-GCM.
    #[serde(rename = "aes_128_gcm")]
    Aes128Gcm,
    /// AES-128-CCM.
    #[serde(rename = "aes_128_ccm")]
    Aes128Ccm,
}

fn default_dialects() -> Vec<SmbDialect> {
    use SmbDialect::{V2_1, V3_0, V3_0_2, V3_1_1};
    vec![V2_1, V3_0, V3_0_2, V3_1_1]
}
fn default_signing_algorithms() -> Vec<SmbSigningAlgorithm> {
    vec![SmbSigningAlgorithm::AesGmac, SmbSigningAlgorithm::AesCmac]
}
fn default_ciphers() -> Vec<SmbCipher> {
    vec![SmbCipher::Aes128Gcm, SmbCipher::Aes128Ccm]
}
fn default_credits() -> u16 {
    512
}
fn default_connect_timeout_s() -> f64 {
    10.0
}
fn default_request_timeout_s() -> f64 {
    30.0
}
