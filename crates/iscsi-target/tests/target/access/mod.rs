//! Access control: CHAP, the access list, and the LUs that each initiator sees. Ids (S-02 …) are
//! those of docs/reference/faults.md.

mod chap;
mod lus;
mod rules;
mod scene;
