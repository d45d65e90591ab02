//! Identifiers of registered descriptors.
/// Identifier that a shell assigns to a registered descriptor. Values from [`Token::RESERVED`] on
/// are for the control plane and the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// First reserved value, which shells must not use for their own descriptors.
    pub const RESERVED: Token = Token(u64::MAX - 15);
}
