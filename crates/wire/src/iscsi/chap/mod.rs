//! CHAP in an iSCSI login (RFC 7143 section 12.1.3, RFC 1994): algorithms, secrets, challenges and
//! responses, shared by both sides.
//!
//! ```text
//!   initiator                                     target
//!   CHAP_A=8,7                            →
//!                                         ←       CHAP_A=8  CHAP_I=41  CHAP_C=0x…          a [`Challenge`]
//!   CHAP_N=name  CHAP_R=0x…               →                                                its [`Response`]
//!  [CHAP_I=7     CHAP_C=0x…]              →       mutual: a challenge of the initiator
//!                                         ←      [CHAP_N=name  CHAP_R=0x…]
//! ```
//! This module computes and checks values. The order of the exchange is in the logins of the target
//! and of the initiator. A peer's values are decoded into memory of bounded size (CVE-2018-14633)
//! and compared in constant time. A secret never appears in `Debug`.
mod binary;
mod secret;

use subtle::ConstantTimeEq as _;

pub use binary::{BinaryError, decode_binary, encode_binary};
pub use secret::{Credentials, SECRET_LENGTH_MAX, SECRET_LENGTH_MIN, Secret, SecretError};

use super::keys::parse_number;

/// Longest challenge, bytes (RFC 7143 section 12.1.3).
pub const CHALLENGE_LENGTH_MAX: usize = 1024;
/// Length of our own challenges, bytes: as long as the longest response. RFC 1994 section 2.3
/// requires them to be unpredictable and unique.
pub const CHALLENGE_LENGTH: usize = 32;
/// Longest value of a CHAP key, bytes: a challenge in hexadecimal with its `0x`.
pub const VALUE_LENGTH_MAX: usize = 2 + 2 * CHALLENGE_LENGTH_MAX;
/// Longest name (CHAP_N), bytes: a simple value (RFC 7143 section 6.1).
pub const NAME_LENGTH_MAX: usize = 255;
/// Maximum number of entries read from a list of algorithms.
const ALGORITHMS_MAX: usize = 16;

/// Hash that computes a response. The numbers are those of IANA's "PPP Authentication Algorithms".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Number 5. Broken as a hash; only for peers that support no other.
    Md5,
    /// Number 6. Broken as a hash; only for peers that support no other.
    Sha1,
    /// Number 7.
    Sha256,
    /// Number 8.
    Sha3_256,
}

impl Algorithm {
    /// Algorithms used by default, best first.
    pub const DEFAULT: &[Algorithm] = &[Algorithm::Sha3_256, Algorithm::Sha256];
    /// All algorithms, best first.
    pub const ALL: &[Algorithm] = &[
        Algorithm::Sha3_256,
        Algorithm::Sha256,
        Algorithm::Sha1,
        Algorithm::Md5,
    ];

    /// Returns the number in CHAP_A.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Algorithm::Md5 => 5,
            Algorithm::Sha1 => 6,
            Algorithm::Sha256 => 7,
            Algorithm::Sha3_256 => 8,
        }
    }

    /// Returns the length of a response, bytes: 16 to 32.
    #[must_use]
    pub fn response_length(self) -> usize {
        match self {
            Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 | Algorithm::Sha3_256 => 32,
        }
    }

    /// Returns the value of CHAP_A that offers these algorithms.
    #[must_use]
    pub fn emit_list(algorithms: &[Algorithm]) -> String {
        let numbers: Vec<_> = algorithms
            .iter()
            .map(|algorithm| algorithm.number().to_string())
            .collect();
        numbers.join(",")
    }

    /// Returns the first of `own` (best first) that a peer's CHAP_A offers too. Unknown numbers are
    /// ignored.
    #[must_use]
    pub fn choose(offered: &str, own: &[Algorithm]) -> Option<Algorithm> {
        let offered: Vec<_> = offered
            .split(',')
            .take(ALGORITHMS_MAX)
            .filter_map(parse_number)
            .collect();
        own.iter()
            .copied()
            .find(|algorithm| offered.contains(&algorithm.number().into()))
    }

    /// Hashes identifier, secret and challenge (RFC 1994 section 4.1).
    fn hash(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        fn digest<D: sha3::Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut hash = D::new();
            parts.iter().for_each(|part| hash.update(part));
            hash.finalize().to_vec()
        }
        let parts = [&[identifier][..], secret, challenge];
        match self {
            Algorithm::Md5 => digest::<md5::Md5>(parts),
            Algorithm::Sha1 => digest::<sha1::Sha1>(parts),
            Algorithm::Sha256 => digest::<sha2::Sha256>(parts),
            Algorithm::Sha3_256 => digest::<sha3::Sha3_256>(parts),
        }
    }
}

/// Errors of a peer's CHAP keys. The login fails; the peer learns no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// CHAP_I is not a number from 0 to 255.
    #[error("CHAP_I is not a number from 0 to 255")]
    Identifier,
    /// CHAP_C is not 1 to 1024 bytes of binary.
    #[error("CHAP_C: {0}")]
    Challenge(BinaryError),
    /// CHAP_R is not binary of the algorithm's length.
    #[error("CHAP_R: {0}")]
    Response(BinaryError),
    /// Our own challenge came back as the peer's (RFC 7143 section 9.2.1).
    #[error("our own challenge was sent back to us")]
    Reflected,
    /// The response does not match the secret.
    #[error("the response does not match the secret")]
    Wrong,
}

/// A challenge, which only a peer with the secret can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    algorithm: Algorithm,
    identifier: u8,
    bytes: Vec<u8>,
}

impl Challenge {
    /// Creates a challenge. `entropy` fills a slice with unpredictable bytes that differ between
    /// starts of the program.
    pub fn new(algorithm: Algorithm, entropy: &mut dyn FnMut(&mut [u8])) -> Challenge {
        let mut random = [0; CHALLENGE_LENGTH + 1];
        entropy(&mut random);
        let [identifier, bytes @ ..] = random;
        Challenge {
            algorithm,
            identifier,
            bytes: bytes.to_vec(),
        }
    }

    /// Parses a peer's challenge from its CHAP_I and CHAP_C.
    ///
    /// # Errors
    /// [`ChapError::Identifier`], [`ChapError::Challenge`].
    pub fn parse(
        algorithm: Algorithm,
        identifier: &str,
        challenge: &str,
    ) -> Result<Challenge, ChapError> {
        let identifier = parse_number(identifier)
            .and_then(|number| u8::try_from(number).ok())
            .ok_or(ChapError::Identifier)?;
        let bytes = decode_binary(challenge, CHALLENGE_LENGTH_MAX).map_err(ChapError::Challenge)?;
        Ok(Challenge {
            algorithm,
            identifier,
            bytes,
        })
    }

    /// Returns the algorithm, the value of CHAP_A.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the value of CHAP_I.
    #[must_use]
    pub fn identifier(&self) -> String {
        self.identifier.to_string()
    }

    /// Returns the value of CHAP_C.
    #[must_use]
    pub fn value(&self) -> String {
        encode_binary(&self.bytes)
    }

    /// Returns the value of CHAP_R that answers this challenge.
    #[must_use]
    pub fn answer(&self, secret: &Secret) -> String {
        encode_binary(&self.response(secret))
    }

    /// Checks that a peer's challenge, with any identifier, is not this challenge of ours. A peer
    /// without the secret could reflect our challenge and use our answer (linux 1d2b60a5).
    ///
    /// # Errors
    /// [`ChapError::Reflected`].
    pub fn check_reflection(&self, peer_challenge: &Challenge) -> Result<(), ChapError> {
        if self.bytes == peer_challenge.bytes {
            Err(ChapError::Reflected)
        } else {
            Ok(())
        }
    }

    /// Checks a peer's CHAP_R. `None` for the secret (unknown name) fails after the same time as a
    /// wrong response.
    ///
    /// # Errors
    /// [`ChapError::Response`], [`ChapError::Wrong`].
    pub fn check(&self, secret: Option<&Secret>, response: &str) -> Result<(), ChapError> {
        let length = self.algorithm.response_length();
        let response = decode_binary(response, length).map_err(ChapError::Response)?;
        let placeholder = Secret::placeholder();
        let expected = self.response(secret.unwrap_or(&placeholder));
        let equal = bool::from(expected.ct_eq(&response));
        if equal && secret.is_some() {
            Ok(())
        } else {
            Err(ChapError::Wrong)
        }
    }

    fn response(&self, secret: &Secret) -> Vec<u8> {
        self.algorithm
            .hash(self.identifier, secret.expose(), &self.bytes)
    }
}

#[cfg(test)]
mod tests;
