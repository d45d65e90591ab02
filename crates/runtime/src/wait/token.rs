//! Identifiers of registered descriptors.

/// Identifier that the shell assigns to a registered descriptor. Values from [`Token::RESERVED`] on
/// belong to the control plumbing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// First value that shells must not use for their own descriptors.
    pub const RESERVED: Token = Token(u64::MAX - 15);
}
