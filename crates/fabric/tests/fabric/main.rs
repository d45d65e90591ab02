//! Tests of the switched network in virtual time, frame by frame.
//!
//! All of them are one program, because a program for each file takes longer to build.

mod ahead;
mod calibration;
mod finishing;
mod net;
mod routing;
mod switching;
