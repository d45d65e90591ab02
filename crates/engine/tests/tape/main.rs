//! Cartridges in a folder or a pool: what survives the array, and what is refused.
mod drive;
mod folder;
mod kills;
mod oracle;
mod pool;
#[path = "../support/mod.rs"]
mod support;
mod tap;
