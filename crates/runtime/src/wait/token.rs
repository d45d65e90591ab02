//! Names of registered descriptors.

/// Name that the shell gives to a registered descriptor. Values from [`Token::RESERVED`] on belong
/// to the control plumbing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// The first of the values that shells must not use for their own descriptors.
    pub const RESERVED: Token = Token(u64::MAX - 15);
}
