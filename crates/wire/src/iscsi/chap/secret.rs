//! What only the two sides know.
use core::fmt;

use subtle::ConstantTimeEq as _;

/// Shortest secret, bytes: 96 bits, below which RFC 7143 section 9.2.1 wants IPsec.
pub const SECRET_LENGTH_MIN: usize = 12;
/// Longest secret, bytes.
pub const SECRET_LENGTH_MAX: usize = 255;

/// Why a text can be no secret or no name. Says nothing of the text but its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not 12 to 255 bytes.
    #[error(
        "a CHAP secret has 12 to 255 bytes (96 bits at least, RFC 7143 section 9.2.1); this one has {0}"
    )]
    Length(usize),
    /// NUL or another control character, which no text key can carry and no prompt can type.
    #[error("a CHAP secret has no control characters")]
    Character,
    /// A name is not 1 to 255 bytes of text.
    #[error("a CHAP name has 1 to 255 bytes and no control characters")]
    Name,
    /// Both directions use one secret (RFC 7143 section 9.2.1 forbids it: who knows one side's challenge could answer for the other).
    #[error("the target's CHAP secret must not be an initiator's")]
    Same,
}

/// A shared secret. It compares in constant time and does not show in `Debug`.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
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

    /// What a response is computed from when nobody of that name is known. No response to it is taken.
    pub(super) fn nobody() -> Secret {
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

/// A name (CHAP_N) and its secret. Names are literal: `0xAB` is four characters (RFC 7143 section 12.1.3, libiscsi b243f92).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    name: String,
    secret: Secret,
}

impl Credentials {
    /// # Errors
    /// [`SecretError`], all but `Same`.
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

    /// As CHAP_N says it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its secret.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }
}
