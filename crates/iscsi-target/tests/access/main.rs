//! Who gets in: CHAP, the access list, and what each initiator finds behind it. Ids (S-02 …) are those of docs/reference/faults.md.

mod chap;
mod lus;
#[path = "../pair/mod.rs"]
mod pair;
mod rules;
mod scene;
