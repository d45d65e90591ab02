//! Tests of the target as a peer sees it: scripted initiators, real PDU bytes and explicit time.
//!
//! All of them are one program, because a program for each file takes longer to build.

mod access;
mod array_page;
mod blocks;
mod bounds;
mod budget;
mod commands;
mod controls;
mod differential;
mod discovery;
mod faults;
mod lent;
mod login;
mod management;
mod model;
mod operations;
mod operator;
mod order;
mod pair;
mod path;
mod recovery;
mod reservations;
mod sessions;
mod tape;
mod writes;
