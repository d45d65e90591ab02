//! Access control: CHAP, the access list, and the LUs that each initiator sees. Ids (S-02 …) are
//! those of docs/reference/faults.md.

mod chap;
mod lus;
#[path = "../pair/mod.rs"]
mod pair;
mod rules;
mod scene;
