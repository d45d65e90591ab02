//! Tokens of the reactor: each names the source of an event.
use hakaru_runtime::Token;

/// Tokens of listeners count from here. Smaller ones are indices of connections.
pub const LISTENERS: u64 = 1 << 32;

/// The queue of files.
pub const FILES: Token = Token(1 << 33);

/// The thread that stores reservations.
pub const KEEPER: Token = Token((1 << 33) + 1);

/// Tokens of the pools' commits count from here.
pub const STORES: u64 = (1 << 33) + 16;
