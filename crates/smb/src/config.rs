//! Configuration of a connection.
use std::time::Duration;

use crate::ntlm::Password;
use crate::wire::{Dialect, EncryptionCipher, SigningAlgorithm};

/// Identity of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user with a password. The login fails if the server offers a guest session instead.
    Password(Password),
    /// The user `guest` without a password; the session may be a guest's.
    Guest,
    /// No user.
    Anonymous,
}

/// Use of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Messages are signed if the server requires it.
    IfRequired,
    /// All messages are signed. The connection fails for guests.
    Required,
}

/// Use of encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Frames are encrypted if the server or the share requires it.
    IfRequired,
    /// All frames after the login are encrypted. The connection fails for guests, and with servers
    /// that support none of the ciphers.
    Required,
}

/// Configuration of a connection to one share.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name or address of the server, as in `\\server\share`.
    pub server: String,
    /// Share.
    pub share: String,
    /// Identity of the client.
    pub credentials: Credentials,
    /// Dialects to offer; at least one.
    pub dialects: Vec<Dialect>,
    /// Use of signatures.
    pub signing: Signing,
    /// Signing algorithms to offer with dialect 3.1.1, in order of preference. Without one, and
    /// with servers that do not negotiate it, AES-CMAC is used.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Use of encryption, with dialect 3.1.1. Encrypted frames are not signed.
    pub encryption: Encryption,
    /// Ciphers to offer with dialect 3.1.1, in order of preference.
    pub ciphers: Vec<EncryptionCipher>,
    /// Number of credits to request, 1 to 8192. Each covers 64 KiB of a request in flight.
    pub credits: u16,
    /// Limit of a READ, a WRITE or a listing, bytes, 4 KiB to 8 MiB. The server's limit applies,
    /// too.
    pub io_bytes_max: u32,
    /// Time limit of each request. A notice that the request is pending starts it again.
    pub timeout: Duration,
}

impl Config {
    /// Returns a configuration with all dialects, GMAC before CMAC, signatures if required, 512
    /// credits, 1 MiB per request and a time limit of 60 s.
    #[must_use]
    pub fn new(server: &str, share: &str, credentials: Credentials) -> Config {
        Config {
            server: server.to_owned(),
            share: share.to_owned(),
            credentials,
            dialects: Dialect::ALL.to_vec(),
            signing: Signing::IfRequired,
            signing_algorithms: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac],
            encryption: Encryption::IfRequired,
            ciphers: EncryptionCipher::ALL.to_vec(),
            credits: 512,
            io_bytes_max: 1 << 20,
            timeout: Duration::from_secs(60),
        }
    }
}

/// Random values and the time of day, for one connection.
#[derive(Clone, Copy, Debug)]
pub struct Entropy {
    /// GUID of the client, the same for all connections of a client.
    pub client_guid: [u8; 16],
    /// Salt of the preauthentication hash.
    pub salt: [u8; 32],
    /// Challenge of NTLM.
    pub client_challenge: [u8; 8],
    /// Time of day in 100 ns from 1601-01-01 UTC. Used if the server does not send its own.
    pub wall_clock: u64,
}
