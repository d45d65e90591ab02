//! CHAP secrets and the names they belong to.
use core::fmt;

use subtle::ConstantTimeEq as _;

/// Shortest secret, bytes: 96 bits, below which RFC 7143 section 9.2.1 requires IPsec.
pub const SECRET_LENGTH_MIN: usize = 12;
/// Longest secret, bytes.
pub const SECRET_LENGTH_MAX: usize = 255;

/// Errors of a secret or a name. They reveal only the length of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not 12 to 255 bytes.
    #[error(
        "a CHAP secret has 12 to 255 bytes (96 bits at least, RFC 7143 section 9.2.1); this one has {0}"
    )]
    Length(usize),
    /// The secret contains NUL or another control character, which text keys cannot carry.
    #[error("a CHAP secret has no control characters")]
    Character,
    /// A name is not 1 to 255 bytes of text.
    #[error("a CHAP name has 1 to 255 bytes and no control characters")]
    Name,
    /// Both directions use the same secret. RFC 7143 section 9.2.1 forbids this, because one side's
    /// response could be used as the other's.
    #[error("the target's CHAP secret must differ from every initiator's")]
    Same,
}

/// A shared secret. It compares in constant time and is hidden in `Debug`.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Creates a secret of 12 to 255 bytes without control characters.
    ///
    /// # Errors
    /// [`SecretError::Length`], [`SecretError::Character`].
    pub fn new(text: &str) -> Result<Secret, SecretError> {
        if !(SECRET_LENGTH_MIN..=SECRET_LENGTH_MAX).contains(&text.len()) {
            return Err(SecretError::Length(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(SecretError::Character);
        }
        Ok(Secret(text.as_bytes().into()))
    }

    /// Returns the secret from which the response of an unknown name is computed. No response to it
    /// is accepted.
    pub(super) fn placeholder() -> Secret {
        Secret(Box::new([0; SECRET_LENGTH_MIN]))
    }

    pub(super) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A name (CHAP_N) and its secret. Names are literal: `0xAB` is four characters (RFC 7143 section
/// 12.1.3, libiscsi b243f92).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    name: String,
    secret: Secret,
}

impl Credentials {
    /// Creates credentials. `name` has 1 to 255 bytes and no control characters; `secret` as in
    /// [`Secret::new`].
    ///
    /// # Errors
    /// [`SecretError`], except `Same`.
    pub fn new(name: &str, secret: &str) -> Result<Credentials, SecretError> {
        let fits = (1..=super::NAME_LENGTH_MAX).contains(&name.len());
        if !fits || name.chars().any(char::is_control) {
            return Err(SecretError::Name);
        }
        Ok(Credentials {
            name: name.to_owned(),
            secret: Secret::new(secret)?,
        })
    }

    /// Returns the value of CHAP_N.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the secret.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}
