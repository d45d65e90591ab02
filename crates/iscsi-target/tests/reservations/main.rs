//! PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE: who has access, who is told, and what is kept.
#[path = "../pair/mod.rs"]
mod pair;

mod holding;
mod keeping;
mod preempting;
mod reserve_6;
mod scene;
