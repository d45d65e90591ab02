//! Cartridges in a folder: what survives the array, and what is refused.
mod drive;
mod folder;
mod kills;
mod oracle;
#[path = "../support/mod.rs"]
mod support;
mod tap;
