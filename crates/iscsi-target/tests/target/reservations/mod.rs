//! PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE: access rights, notifications of other
//! initiators, and persistence.
mod holding;
mod keeping;
mod preempting;
mod reserve_6;
mod scene;
