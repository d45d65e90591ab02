//! Tokens of the reactor. Each identifies the source of an event.
use hakaru_runtime::Token;

/// First token of the listeners. Smaller tokens are indices of connections.
pub const LISTENERS: u64 = 1 << 32;

/// Token of the file queue.
pub const FILES: Token = Token(1 << 33);

/// Token of the thread that stores reservations.
pub const KEEPER: Token = Token((1 << 33) + 1);

/// First token of the pools' commits.
pub const STORES: u64 = (1 << 33) + 16;
