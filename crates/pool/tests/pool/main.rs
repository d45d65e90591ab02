//! Tests of the pool as its user sees it, over disks that fail, lose power or are damaged.
//!
//! All of them are one program, because a program for each file takes longer to build.

mod crash;
mod damage;
mod faults;
mod simulation;
mod space;
mod support;
mod waiting;
