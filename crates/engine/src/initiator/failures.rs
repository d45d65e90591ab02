//! Failures of a VM as failures of the engine: class, message with the VM and its portal, hint.
use std::io;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, ErrorClass};
use hakaru_iscsi_session::TaskError;
use hakaru_load::{Corruption, Op, VmError};

use crate::failure::Failure;
use crate::nexus_failure;

/// The configuration is invalid.
pub fn usage_of(error: &ConfigError) -> Failure {
    Failure::usage(error, &error.hint)
}

/// `vm3 (iqn.… at 192.0.2.1:3260)`.
fn place_of(vm: &Vm) -> String {
    match &vm.destination {
        Destination::Iscsi {
            portal,
            target_name,
            ..
        } => format!("{} ({target_name} at {portal})", vm.name),
        Destination::File { path, .. } => format!("{} ({path})", vm.name),
    }
}

/// The portal cannot be reached.
pub fn of_connect(vm: &Vm, error: &io::Error) -> Failure {
    nexus_failure::of_connect(&place_of(vm), error)
}

/// The VM failed.
pub fn of_vm(vm: &Vm, error: &VmError) -> Failure {
    match error {
        VmError::Config(error) => {
            Failure::usage(format_args!("{}: {error}", place_of(vm)), &error.hint)
        }
        VmError::Survey(error) => nexus_failure::of_survey(&place_of(vm), error),
        VmError::Session(error) => nexus_failure::of_session(&place_of(vm), error),
    }
}

/// A read returned data that the VM never wrote.
pub fn of_corruption(vm: &Vm, corruption: &Corruption) -> Failure {
    Failure::new(
        ErrorClass::Verification,
        format!("{}: {corruption}", place_of(vm)),
        "the storage lost or damaged data, or something else writes to the same blocks",
    )
}

/// A request failed; the load continues.
pub fn of_request(vm: &Vm, op: Op, error: &TaskError) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    Failure::peer(
        format!("{}: a {op} failed: {error}", place_of(vm)),
        "counted as `errors`; look at the array's own log",
    )
}

/// A request to a file failed; the load continues.
pub fn of_file_request(vm: &Vm, op: Op, error: &io::Error) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    let hint = "counted as `errors`; is the device whole, and is there space?";
    Failure::environment(format!("{}: a {op} failed: {error}", place_of(vm)), hint)
}
